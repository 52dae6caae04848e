"""Requests to run a model, as messages of gRPC."""

from __future__ import annotations

import json
from collections.abc import Callable

from dovetail.errors import DeviceError
from dovetail.oip.datatypes import pack
from dovetail.oip.messages import Message, message
from dovetail.oip.tensors import add_outputs, inputs_of
from dovetail.runtime.record import Run
from dovetail.serve.model import Feed, ServedModel
from dovetail.serve.regions import OFFSET, REGION, SIZE, SharedRegions, SharedSpan, span_of
from dovetail.serve.repository import VERSION

TIMINGS = "timings"
"""The parameter of a request that asks for times, and that of a response that has them, as JSON."""


def feed_of(request: Message, model: ServedModel, regions: SharedRegions) -> Feed:
    """Return what a request asks for; raise DeviceError for tensors that the model has not."""
    names = [output.name for output in request.outputs] or list(model.bundle.outputs)
    shared = {index: regions.read(span) for index, span in shared_inputs(request).items()}
    inputs = inputs_of(request, model.bundle.inputs, shared)
    return Feed(inputs, wanted_outputs(names, model), alone=_asks_for_times(request))


def shared_inputs(request: Message) -> dict[int, SharedSpan]:
    """Return the inputs that lie in shared memory, by their place in a request."""
    spans = ((index, _span(tensor)) for index, tensor in enumerate(request.inputs))
    return {index: span for index, span in spans if span is not None}


def _span(tensor: Message) -> SharedSpan | None:
    if not tensor.parameters:
        return None
    return span_of({key: parameter_value(item) for key, item in tensor.parameters.items()})


def parameter_value(parameter: Message) -> object:
    """Return the value of a parameter, None where it has none."""
    choice = parameter.WhichOneof("parameter_choice")
    return None if choice is None else getattr(parameter, choice)


def wanted_outputs(names: list[str], model: ServedModel) -> list[str]:
    """Return the names of tensors that are wanted; raise DeviceError for one that is unknown or comes twice."""
    for name in names:
        if name not in model.types:
            raise DeviceError(
                f"output '{name[:80]}' is unknown.", hint=f"The model gives: {', '.join(model.bundle.outputs)}."
            )
    if len(set(names)) != len(names):
        raise DeviceError("an output is asked for twice.")
    return names


def answer_of(request: Message, model: ServedModel, regions: SharedRegions) -> Callable[[Run, Feed], bytes]:
    """Return what makes the bytes of the response of a run, and writes outputs into shared memory where they belong."""
    spans = {output.name: span for output in request.outputs if (span := _span(output)) is not None}

    def encode(run: Run, feed: Feed) -> bytes:
        response = message("inference.ModelInferResponse")(model_name=model.name, model_version=VERSION, id=request.id)
        arrays = {**run.outputs, **run.taps}
        add_outputs(response, feed.outputs, arrays, model.types, spans)
        pieces = [(span, pack(arrays[name], model.types[name].dtype)) for name, span in spans.items()]
        regions.write(pieces)
        written = dict(zip(spans, pieces, strict=True))
        for output in response.outputs:
            if output.name in written:
                span, content = written[output.name]
                output.parameters[REGION].string_param = span.region
                output.parameters[OFFSET].int64_param = span.offset
                output.parameters[SIZE].int64_param = len(content)
        if _asks_for_times(request):
            response.parameters[TIMINGS].string_param = timings_json(run)
        data: bytes = response.SerializeToString()
        return data

    return encode


def _asks_for_times(request: Message) -> bool:
    return TIMINGS in request.parameters and bool(request.parameters[TIMINGS].bool_param)


def timings_json(run: Run) -> str:
    """Return the times of a run, from its start."""
    marks = [(index, start - run.started_ns, elapsed, moved) for index, start, elapsed, moved in run.marks]
    return json.dumps({"elapsed_ns": run.elapsed_ns, "marks": marks})


def timeout_s(request: Message) -> float | None:
    """Return how long a request may wait by its parameter `timeout`, which counts microseconds."""
    if "timeout" not in request.parameters:
        return None
    microseconds = request.parameters["timeout"].int64_param
    return microseconds / 1e6 if microseconds > 0 else None
