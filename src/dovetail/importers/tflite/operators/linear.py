"""Matrix products and lookups."""

from __future__ import annotations

import math

from dovetail.importers.tflite.operators.hybrid import finish_hybrid, is_hybrid_matmul, run_hybrid_matmul
from dovetail.importers.tflite.operators.table import Converters
from dovetail.importers.tflite.operators.weights import Kernel, is_hybrid, read_bias, read_weight
from dovetail.importers.tflite.site import Site
from dovetail.ir import TensorType

_KERNEL = Kernel(0, 1, 2, (0, 1))


def _fully_connected(site: Site) -> None:
    """Multiply rows of the data by a weight `[O, I]`; all but the last dimension count rows."""
    if site.rank(1) != 2 or 0 in site.shape(1):
        raise site.fail(f"its weight has shape {list(site.shape(1))}")
    if site.operator.options.integer("WeightsFormat"):
        raise site.fail("its weights are shuffled")
    outputs, width = site.shape(1)
    rows, rest = divmod(math.prod(site.shape(0)), width)
    if rest:
        raise site.fail(f"its data {list(site.shape(0))} is no multiple of {width}")
    x = site.read_flat(0)
    kind = site.scope.types[x]
    if kind.shape != (rows, width):
        flat = TensorType(kind.dtype, (rows, width), kind.quant)
        x = site.emit("Reshape", (x, site.number((rows, width), "rows")), flat, stem=f"{site.stem}/rows")
    if is_hybrid(site, _KERNEL) and site.scope.settings.exact_hybrid and site.value(1) is not None:
        finish_hybrid(site, _KERNEL, "Gemm", {"transB": 1}, x)
        return
    weight = read_weight(site, _KERNEL)
    bias = read_bias(site, _KERNEL, weight)
    result = site.result_type()
    if result.shape == (rows, outputs):
        site.finish("Gemm", (x, weight, *bias), {"transB": 1})
        return
    product = TensorType(result.dtype, (rows, outputs), result.quant)
    name = site.emit("Gemm", (x, weight, *bias), product, {"transB": 1})
    site.conclude(0, "Reshape", (site.activated(name), site.number(site.output().shape, "shape")))


def _batch_matmul(site: Site) -> None:
    options = site.operator.options
    names: list[str] = []
    for index, flag in ((0, "AdjX"), (1, "AdjY")):
        rank = site.rank(index)
        if rank < 2:
            raise site.fail(f"input {index} has rank {rank}")
        turn = (*range(rank - 2), rank - 1, rank - 2) if options.flag(flag) else tuple(range(rank))
        if index == 1 and site.scope.settings.exact_hybrid and is_hybrid_matmul(site):
            run_hybrid_matmul(site, names[0], turn)
            return
        kernel = Kernel(1 - index, index, 99, turn)
        names.append(read_weight(site, kernel))
    site.finish("MatMul", names)


def _embedding(site: Site) -> None:
    table, mixed = site.tensor(1), site.output().is_float
    rows = site.read_real(1) if table.is_quantized and mixed else site.read(1)
    site.finish("Gather", (rows, site.read_int64(0)), {"axis": 0})


CONVERTERS: Converters = {
    "BATCH_MATMUL": _batch_matmul,
    "EMBEDDING_LOOKUP": _embedding,
    "FULLY_CONNECTED": _fully_connected,
}
