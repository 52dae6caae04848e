"""Quantise one model with one tool, as its own documentation does first; run in an environment that has the tool.

python benchmarks/zoo/quantisers.py TOOL MODEL SAMPLES.npz OUT

It imports nothing of Dovetail: tools pin versions that an environment with all of them could not have. The samples are
one array `x` of `[N, ...]`, each as the model's input takes it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Quantiser = Callable[[Path, "np.ndarray[Any, Any]", Path], None]


class _Reader:
    """Samples as ONNX Runtime's quantiser and AMD's take them."""

    def __init__(self, name: str, samples: np.ndarray[Any, Any]) -> None:
        self._name = name
        self._samples = samples
        self.rewind()

    def get_next(self) -> dict[str, np.ndarray[Any, Any]] | None:
        """Return the next sample, None behind the last."""
        sample = next(self._left, None)
        return None if sample is None else {self._name: sample[None]}

    def rewind(self) -> None:
        """Begin again."""
        self._left: Iterator[np.ndarray[Any, Any]] = iter(self._samples)

    def reset_iter(self) -> None:
        """Begin again, as AMD's calls it."""
        self.rewind()


def _input_name(model: Path) -> str:
    import onnx

    return str(onnx.load(model).graph.input[0].name)


def _onnxruntime(activation: str, weight: str, *, per_channel: bool = False) -> Quantiser:
    def run(model: Path, samples: np.ndarray[Any, Any], out: Path) -> None:
        from onnxruntime.quantization import QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

        prepared = out.with_suffix(".prepared.onnx")
        quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
        types = {"activation_type": QuantType[activation], "weight_type": QuantType[weight]}
        quantize_static(prepared, out, _Reader(_input_name(prepared), samples), per_channel=per_channel, **types)

    return run


def _nncf(model: Path, samples: np.ndarray[Any, Any], out: Path) -> None:
    import nncf
    import onnx

    name = _input_name(model)
    data = nncf.Dataset([sample[None] for sample in samples], lambda sample: {name: sample})
    onnx.save(nncf.quantize(onnx.load(model), data, subset_size=len(samples)), out)


def _quark(model: Path, samples: np.ndarray[Any, Any], out: Path) -> None:
    from quark.onnx import A8W8_QCONFIG, ModelQuantizer

    ModelQuantizer(A8W8_QCONFIG).quantize_model(str(model), str(out), _Reader(_input_name(model), samples))


def _aimet(model: Path, samples: np.ndarray[Any, Any], out: Path) -> None:
    import onnx
    from aimet_onnx import QuantizationSimModel, compute_encodings
    from aimet_onnx.cross_layer_equalization import equalize_model

    loaded = onnx.load(model)
    name = loaded.graph.input[0].name
    equalize_model(loaded)
    simulation = QuantizationSimModel(loaded, dummy_input={name: samples[:1]})
    with compute_encodings(simulation):
        for sample in samples:
            simulation.session.run(None, {name: sample[None]})
    onnx.save(simulation.to_onnx_qdq(), out)


def _onnxsim(model: Path, samples: np.ndarray[Any, Any], out: Path) -> None:
    import onnx
    import onnxsim

    name = _input_name(model)
    data = [{name: sample[None]} for sample in samples]
    onnx.save(onnxsim.quantize_static(onnx.load(model), calibration_data=data, full_graph=True), out)


def _ai_edge(model: Path, samples: np.ndarray[Any, Any], out: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter
    from ai_edge_quantizer import quantizer, recipe

    interpreter = Interpreter(model_path=str(model))
    # A file without signatures has one of no name, whose inputs go by their tensors.
    unnamed = {None: {"inputs": [item["name"] for item in interpreter.get_input_details()]}}
    key, signature = next(iter((interpreter.get_signature_list() or unnamed).items()))
    maker = quantizer.Quantizer(str(model), recipe.static_wi8_ai8())
    measured = maker.calibrate({key: [{signature["inputs"][0]: sample[None]} for sample in samples]})
    maker.quantize(measured).export_model(str(out), overwrite=True)


QUANTISERS: dict[str, Quantiser] = {
    "onnxruntime-u8": _onnxruntime("QUInt8", "QUInt8"),
    "onnxruntime-u8s8": _onnxruntime("QUInt8", "QInt8"),
    "onnxruntime-i8pc": _onnxruntime("QInt8", "QInt8", per_channel=True),
    "onnxruntime-a16w8": _onnxruntime("QInt16", "QInt8", per_channel=True),
    "nncf": _nncf,
    "quark": _quark,
    "aimet": _aimet,
    "onnxsim": _onnxsim,
    "ai-edge": _ai_edge,
}
"""Every tool, with the settings that its name does not tell at their defaults."""


def main() -> int:
    """Quantise; what a tool raises ends the process."""
    if "--help" in sys.argv or len(sys.argv) != 5:
        print(__doc__)
        return 0 if "--help" in sys.argv else 2
    tool, model, samples, out = sys.argv[1:]
    QUANTISERS[tool](Path(model), np.load(samples)["x"].astype(np.float32), Path(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
