"""Which Paddle operators the TIM-VX driver of Paddle Lite takes.

Source: `lite/kernels/nnadapter/converter/all.h` of Paddle Lite at 3d329c954c (2024-03-28), operators registered for
`verisilicon_timvx`: 101 of 124. Versions 2.11 to 2.13 take fewer (33, 45 and 91).
"""

from __future__ import annotations

_TIMVX = """
    abs arg_max arg_min assign batch_norm bilinear_interp bilinear_interp_v2 calib cast clip concat conv2d
    conv2d_transpose depthwise_conv2d dropout elementwise_add elementwise_div elementwise_floordiv
    elementwise_max elementwise_min elementwise_mul elementwise_pow elementwise_sub equal exp expand_v2 fc
    fill_any_like fill_constant fill_constant_batch_size_like fill_zeros_like flatten flatten2
    flatten_contiguous_range floor fusion_elementwise_add_activation fusion_elementwise_div_activation
    fusion_elementwise_floordiv_activation fusion_elementwise_max_activation
    fusion_elementwise_min_activation fusion_elementwise_mul_activation fusion_elementwise_pow_activation
    fusion_elementwise_sub_activation gather gelu greater_equal greater_than hard_sigmoid hard_swish
    instance_norm layer_norm leaky_relu less_equal less_than log log_softmax logical_and logical_not
    lookup_table lookup_table_v2 matmul matmul_v2 meshgrid mul nearest_interp nearest_interp_v2 norm
    not_equal pool2d pow prelu reduce_max reduce_mean reduce_sum relu relu6 reshape reshape2 scale shape
    shuffle_channel sigmoid sin slice softmax softplus split square squeeze squeeze2 stack strided_slice sum
    swish tanh transpose transpose2 unsqueeze unsqueeze2 unstack where
"""
TIMVX_OPERATORS = frozenset(_TIMVX.split())
"""Operators that can become part of an NPU subgraph; everything else runs on the CPU."""

BLOCK_EDGES = frozenset({"feed", "fetch"})
"""Operators that hand tensors in and out; they are always on the CPU."""

NORMALISATIONS = frozenset({"batch_norm"})
CONVOLUTIONS = frozenset({"conv2d", "conv2d_transpose", "depthwise_conv2d"})
ACTIVATIONS = frozenset({"hard_swish", "leaky_relu", "prelu", "relu", "relu6", "sigmoid", "swish", "tanh"})
"""What the driver fuses into the convolution before it: `NNA/optimizer` of the same source."""
