"""Requests and responses of REST: JSON, and tensors in binary behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dovetail.errors import DeviceError
from dovetail.ir.dtypes import AnyArray
from dovetail.oip.datatypes import DATATYPES, check_datatype, from_numbers, pack, unpack
from dovetail.oip.failures import Reply, RequestRefused
from dovetail.oip.tensors import input_type
from dovetail.runtime.record import Run
from dovetail.serve.model import Feed, ServedModel
from dovetail.serve.regions import OFFSET, REGION, SIZE, SharedRegions, SharedSpan, span_of
from dovetail.serve.repository import VERSION
from dovetail.serve.requests import wanted_outputs

HEAD_LENGTH = "inference-header-content-length"
"""The header of HTTP that says where JSON ends and binary tensors begin."""


@dataclass(frozen=True, slots=True)
class RestRequest:
    """The JSON of a request to run a model, and the bytes behind it."""

    document: Mapping[str, Any]
    binary: memoryview

    @property
    def shared_inputs(self) -> list[SharedSpan]:
        """Return the inputs that lie in shared memory."""
        spans = (span_of(_table(tensor, "parameters")) for tensor in _rows(self.document, "inputs"))
        return [span for span in spans if span is not None]

    def feed(self, model: ServedModel, regions: SharedRegions) -> Feed:
        """Return what is asked for; raise DeviceError for tensors that the model has not."""
        tensors = _rows(self.document, "inputs")
        arrays: dict[str, AnyArray] = {}
        offset = 0
        for tensor in tensors:
            name, shape, parameters = _text(tensor, "name"), _shape(tensor), _table(tensor, "parameters")
            kind = input_type(name, model.bundle.inputs, arrays)
            check_datatype(name, kind, _text(tensor, "datatype"))
            if (span := span_of(parameters)) is not None:
                arrays[name] = unpack(name, regions.read(span), kind, shape)
            elif "binary_data_size" in parameters:
                size = parameters["binary_data_size"]
                if not _is_count(size) or size > len(self.binary) - offset:
                    raise DeviceError(f"input '{name}': there are no {str(size)[:20]} bytes of it.")
                arrays[name] = unpack(name, self.binary[offset : offset + size], kind, shape)
                offset += size
            else:
                arrays[name] = from_numbers(name, tensor.get("data", []), kind, shape)
        if offset != len(self.binary):
            raise DeviceError(f"{len(self.binary) - offset} bytes belong to no input.")
        names = [_text(output, "name") for output in _rows(self.document, "outputs")]
        return Feed(arrays, wanted_outputs(names or list(model.bundle.outputs), model))

    def answer(self, model: ServedModel, regions: SharedRegions) -> Callable[[Run, Feed], RestAnswer]:
        """Return what makes the response of a run, each output in shared memory, binary or JSON as it was asked for."""
        everything = _table(self.document, "parameters").get("binary_data_output") is True
        binary = {
            _text(output, "name"): _table(output, "parameters").get("binary_data", everything) is True
            for output in _rows(self.document, "outputs")
        }
        spans = {
            _text(output, "name"): span
            for output in _rows(self.document, "outputs")
            if (span := span_of(_table(output, "parameters"))) is not None
        }

        def encode(run: Run, feed: Feed) -> RestAnswer:
            rows: list[dict[str, object]] = []
            blobs: list[bytes] = []
            pieces: list[tuple[SharedSpan, bytes]] = []
            for name in feed.outputs:
                array = run.outputs[name] if name in run.outputs else run.taps[name]
                kind = model.types[name].dtype
                row: dict[str, object] = {"name": name, "datatype": DATATYPES[kind], "shape": list(array.shape)}
                if (span := spans.get(name)) is not None:
                    pieces.append((span, pack(array, kind)))
                    row["parameters"] = {REGION: span.region, OFFSET: span.offset, SIZE: len(pieces[-1][1])}
                elif binary.get(name, everything):
                    blobs.append(pack(array, kind))
                    row["parameters"] = {"binary_data_size": len(blobs[-1])}
                else:
                    row["data"] = _numbers(name, array)
                rows.append(row)
            regions.write(pieces)
            document = {"model_name": model.name, "model_version": VERSION, "outputs": rows}
            if isinstance(self.document.get("id"), str):
                document["id"] = self.document["id"]
            head = json.dumps(document).encode()
            return RestAnswer(b"".join((head, *blobs)), len(head) if blobs else None)

        return encode

    @property
    def numbers(self) -> bool:
        """Tell whether tensors come as numbers in JSON, which take their time."""
        return any("data" in tensor for tensor in _rows(self.document, "inputs"))

    @property
    def timeout_s(self) -> float | None:
        """Return how long the request may wait by its parameter `timeout`, which counts microseconds."""
        found = _table(self.document, "parameters").get("timeout")
        return int(found) / 1e6 if found is not None and _is_count(found) and found > 0 else None


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """The body of a response, and the length of its JSON where binary tensors follow."""

    body: bytes
    head_bytes: int | None


def parse_request(body: bytes, head: str | None, most: int) -> RestRequest:
    """Return the request in a body; raise RequestRefused where it is none, or its JSON is too long."""
    length = len(body)
    if head is not None:
        if not (head.isascii() and head.isdigit() and len(head) < 20 and int(head) <= len(body)):
            raise RequestRefused(Reply.BAD_REQUEST, f"{HEAD_LENGTH} '{head[:20]}' is no length of JSON in this body.")
        length = int(head)
    if length > most:
        raise RequestRefused(
            Reply.TOO_LARGE, f"the JSON has {length} bytes; {most} are taken.", hint="Send tensors in binary."
        )
    return RestRequest(parse_object(body[:length]), memoryview(body)[length:])


def parse_object(text: bytes) -> Mapping[str, Any]:
    """Return the JSON object in a text, an empty one for no text; raise RequestRefused where it is none."""
    try:
        document = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise RequestRefused(Reply.BAD_REQUEST, f"the body is no JSON: {str(error)[:80]}.") from error
    if not isinstance(document, dict):
        raise RequestRefused(Reply.BAD_REQUEST, "the body is no JSON object.")
    return document


def _numbers(name: str, array: AnyArray) -> list[object]:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise DeviceError(f"output '{name}' has NaN or infinity, which JSON has no word for.", hint="Ask for binary.")
    numbers: list[object] = array.ravel().tolist()
    return numbers


def _rows(document: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    rows = document.get(key) or []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RequestRefused(Reply.BAD_REQUEST, f"'{key}' is a list of objects.")
    return rows


def _text(document: Mapping[str, Any], key: str) -> str:
    if not isinstance(document.get(key), str):
        raise RequestRefused(Reply.BAD_REQUEST, f"a tensor has a '{key}'.")
    return str(document[key])


def _table(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = document.get(key) or {}
    if not isinstance(table, dict):
        raise RequestRefused(Reply.BAD_REQUEST, f"'{key}' is an object.")
    return table


def _shape(tensor: Mapping[str, Any]) -> list[int]:
    shape = tensor.get("shape")
    if not isinstance(shape, list) or not all(_is_count(dim) for dim in shape):
        raise RequestRefused(Reply.BAD_REQUEST, "a tensor has a 'shape' of whole numbers.")
    return shape


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62
