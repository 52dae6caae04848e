"""Families of ONNX operators that the VeriSilicon stack has, and why it lacks the others.

Sources: the operator list of TIM-VX (`docs/Operators.md`) and the converters of Paddle Lite's `verisilicon_timvx`
driver.
"""

from __future__ import annotations

CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
FULLY_CONNECTED = frozenset({"Gemm"})
SUMS = frozenset({"Add", "Sub"})
CHOICES = frozenset({"Mean", "Shrink", "Where"})
BINARY = frozenset({"Div", "Max", "Min", "Mod", "Mul", "Pow", "PRelu", "Sum"})
LOOKUPS = frozenset(
    {
        "Celu",
        "Clip",
        "Elu",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Mish",
        "Relu",
        "Selu",
        "Sigmoid",
        "Softplus",
        "Softsign",
        "Tanh",
    }
)
"""Activations: 256-entry tables in the tensor processor at 8 bits."""
UNARY = frozenset(
    {
        "Abs",
        "Acosh",
        "Atan",
        "Atanh",
        "Ceil",
        "Cos",
        "Erf",
        "Exp",
        "Floor",
        "Log",
        "Neg",
        "Reciprocal",
        "Round",
        "Sign",
        "Sin",
        "Sqrt",
        "Tan",
        "ThresholdedRelu",
    }
)
NORMALISATIONS = frozenset(
    {
        "BatchNormalization",
        "GroupNormalization",
        "InstanceNormalization",
        "LayerNormalization",
        "LogSoftmax",
        "LpNormalization",
        "LRN",
        "Softmax",
    }
)
REDUCTIONS = frozenset({"GlobalAveragePool", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"})
GLOBAL_MAX = frozenset({"GlobalMaxPool"})
MOVEMENT = frozenset(
    {
        "Concat",
        "DepthToSpace",
        "Dropout",
        "Expand",
        "Flatten",
        "Identity",
        "Pad",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    }
)
GATHERS = frozenset({"CumSum", "Gather", "GatherElements", "GatherND", "ReverseSequence", "ScatterND"})
COMPARISONS = frozenset(
    {"ArgMax", "ArgMin", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Not", "Or"}
)
REGIONS = frozenset({"MaxRoiPool", "RoiAlign"})
BOUNDARIES = frozenset({"Cast", "DequantizeLinear", "QuantizeLinear", "Requantize"})

_STATE = "it keeps a state over time and the compiler unrolls no sequence"
_CONTROL = "control flow does not run on the NPU"
_SHAPES = "it computes shapes or indices, which the compiler wants as constants"
_DATA_DEPENDENT = "the shape of its output depends on the data"

REFUSALS: dict[str, str] = {
    "LSTM": _STATE,
    "GRU": _STATE,
    "RNN": _STATE,
    "If": _CONTROL,
    "Loop": _CONTROL,
    "Scan": _CONTROL,
    "Shape": _SHAPES,
    "Size": _SHAPES,
    "Range": _SHAPES,
    "ConstantOfShape": _SHAPES,
    "NonZero": _DATA_DEPENDENT,
    "NonMaxSuppression": _DATA_DEPENDENT,
    "Unique": _DATA_DEPENDENT,
    "Compress": _DATA_DEPENDENT,
    "Einsum": "the compiler has no general contraction; rewrite it with MatMul and Transpose",
    "GridSample": "the driver has no sampling by coordinates",
    "DeformConv": "the driver has no deformable convolution",
    "STFT": "the driver has no Fourier transform",
    "DFT": "the driver has no Fourier transform",
    "TopK": "it computes indices; the vendors' converters leave it to the CPU",
}
"""Operators that no VeriSilicon target runs at any precision, with the reason."""
