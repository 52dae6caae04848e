"""Find convolutions that lose the shape of their weights where HETERO cuts a model: OpenVINO's CPU refuses them.

`Core.read_model` leaves computations of weights and shapes in a model. Where a part reads a shape from another part,
what is made to that shape has none that is known when the part is compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail.formats.openvino.parts import HeteroPrediction

if TYPE_CHECKING:
    from openvino import Model

_CONVOLUTIONS = frozenset(
    {"Convolution", "GroupConvolution", "ConvolutionBackpropData", "GroupConvolutionBackpropData"}
)
_WEIGHTS = 1


def weights_without_shape(model: Model, prediction: HeteroPrediction) -> tuple[str, ...]:
    """Return the convolutions that have weights of no fixed shape once the model is cut so, by friendly name."""
    import openvino.opset13 as opset

    cut = model.clone()
    ops = list(cut.get_ordered_ops())
    found = [op for op in ops if op.get_type_name() in _CONVOLUTIONS]
    inputs = [ops[number].input(port) for number, port in prediction.cuts]
    sources = [item.get_source_output() for item in inputs]
    given = [opset.parameter(one.get_partial_shape(), one.get_element_type()) for one in sources]
    for item, parameter in zip(inputs, given, strict=True):
        item.replace_source_output(parameter.output(0))
    cut.add_parameters(given)
    cut.add_results([opset.result(one) for one in sources])
    cut.validate_nodes_and_infer_types()
    return tuple(op.get_friendly_name() for op in found if op.input(_WEIGHTS).get_partial_shape().is_dynamic)


def fold_constants(model: Model) -> None:
    """Compute what a model makes of constants alone, as `openvino.convert_model` does: no cut falls into it then."""
    from openvino.passes import ConstantFolding, Manager

    manager = Manager()
    manager.register_pass(ConstantFolding())
    manager.run_passes(model)
