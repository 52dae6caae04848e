"""What a bundle says of partitions that do not fit each other."""

from __future__ import annotations

import pytest

from dovetail.backend.protocols import Blob
from dovetail.bundle.bundle import Bundle, CompiledPartition
from dovetail.errors import BundleError
from dovetail.ir import DType, TensorType
from dovetail.plan import Override, Plan, parse_placement

F32, U8 = TensorType(DType.F32, (1, 2)), TensorType(DType.U8, (1, 2))


def _bundle(reads: TensorType, output: TensorType, source: str = "x") -> Bundle:
    part = CompiledPartition("cpu", "ort", "1", Blob("text", b""), (source,), ("y",), {source: reads, "y": F32})
    plan = Plan("digest", parse_placement("cpu@fp32"), dict[str, Override]())
    return Bundle("net", plan, {"x": F32}, {"y": output}, (part,), {})


def test_partitions_that_fit_are_fine() -> None:
    bundle = _bundle(F32, F32)
    bundle.check()
    assert bundle.tensors == {"x": F32, "y": F32}


@pytest.mark.parametrize(
    ("bundle", "words"),
    [
        (_bundle(U8, F32), "partition 0 reads 'x' as another type."),
        (_bundle(F32, F32, "z"), "partition 0 reads 'z' which nothing before it makes."),
        (_bundle(F32, U8), "no partition makes output 'y' of this type."),
    ],
)
def test_what_does_not_fit_is_named(bundle: Bundle, words: str) -> None:
    with pytest.raises(BundleError) as caught:
        bundle.check()
    assert str(caught.value).startswith(f"bundle 'net': {words}")
