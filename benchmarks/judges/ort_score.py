"""Score the digit detector as ONNX Runtime quantises it, without the nodes that a file lists: an oracle of bisect.

python benchmarks/judges/ort_score.py EXCLUDE.txt QUANTISED.onnx
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

_FOLDER = Path(__file__).resolve().parents[2] / "examples" / "digits"


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, images: NDArray[np.float32]) -> None:
        self._rows: Iterator[NDArray[np.float32]] = iter(images)

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        row = next(self._rows, None)
        return None if row is None else {"images": row[None]}


def main(exclude: str, out: str) -> None:
    """Print the score."""
    sys.path.insert(0, str(_FOLDER))
    from metric import score  # type: ignore[import-not-found, unused-ignore]

    onnxruntime.set_default_logger_severity(4)
    with np.load(_FOLDER / "calib.npz", allow_pickle=False) as file:
        calibration = file["images"].astype(np.float32)[:100]
    with np.load(_FOLDER / "eval.npz", allow_pickle=False) as file:
        images = file["images"].astype(np.float32)[:400]
        labels = {"label": file["label"][:400], "box": file["box"][:400]}
    model = _FOLDER / "digits.onnx"
    quantize_static(
        model,
        out,
        _Reader(calibration),
        quant_format=QuantFormat.QDQ,
        op_types_to_quantize=sorted({node.op_type for node in onnx.load(model).graph.node}),
        nodes_to_exclude=[line.strip() for line in Path(exclude).read_text().splitlines() if line.strip()],
        per_channel=True,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
    )
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = onnxruntime.InferenceSession(out, options, providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_outputs()]
    outputs = dict(zip(names, session.run(names, {"images": images}), strict=True))
    print("score", float(np.mean(score(outputs, labels))))


if __name__ == "__main__":
    main(*sys.argv[1:])
