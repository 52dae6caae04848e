// The interface of dovetail_vsi.h over libovxlib, compiled against the headers of the SDK that it will run with.

#include "dovetail_vsi.h"

#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <vector>

extern "C" {
#include "vsi_nn_pub.h"
}

namespace {

thread_local std::string last_error;

int fail(const std::string &reason) { return last_error = reason, -1; }

bool dtype_of(int32_t code, vsi_nn_type_e *found, uint32_t *size) {
    switch (code) {
        case DTV_F32: *found = VSI_NN_TYPE_FLOAT32; *size = 4; return true;
        case DTV_F16: *found = VSI_NN_TYPE_FLOAT16; *size = 2; return true;
        case DTV_BF16: *found = VSI_NN_TYPE_BFLOAT16; *size = 2; return true;
        case DTV_I8: *found = VSI_NN_TYPE_INT8; *size = 1; return true;
        case DTV_U8: *found = VSI_NN_TYPE_UINT8; *size = 1; return true;
        case DTV_I16: *found = VSI_NN_TYPE_INT16; *size = 2; return true;
        case DTV_U16: *found = VSI_NN_TYPE_UINT16; *size = 2; return true;
        case DTV_I32: *found = VSI_NN_TYPE_INT32; *size = 4; return true;
        case DTV_U32: *found = VSI_NN_TYPE_UINT32; *size = 4; return true;
        case DTV_I64: *found = VSI_NN_TYPE_INT64; *size = 8; return true;
        case DTV_BOOL: *found = VSI_NN_TYPE_BOOL8; *size = 1; return true;
        default: return false;
    }
}

}  // namespace

struct dtv_graph {
    vsi_nn_context_t context = nullptr;
    vsi_nn_graph_t *graph = nullptr;
    // ovxlib keeps pointers to shapes, axes and scales: they live as long as the graph does.
    std::deque<std::vector<uint32_t>> words;
    std::deque<std::vector<float>> reals;
    std::vector<uint8_t> binary;
    std::vector<uint64_t> sizes;
    uint32_t operators = 0;

    uint32_t *keep(const int32_t *first, size_t count) {
        words.emplace_back(first, first + count);
        return words.back().data();
    }
    int32_t *keep_signed(const int32_t *first, size_t count) { return reinterpret_cast<int32_t *>(keep(first, count)); }
};

namespace {

// What a setter of parameters sees: the node, the parameter block and the graph that owns copies.
struct Call {
    dtv_graph *owner;
    vsi_nn_node_t *node;
    const dtv_operator *op;

    vsi_nn_nn_param_t &param() const { return node->nn_param; }
    int32_t i(int index) const { return op->ints[index]; }
    float f(int index) const { return op->floats[index]; }
    int count() const { return op->int_count; }
};

using Setter = int (*)(const Call &);

struct Row {
    const char *kind;
    vsi_nn_op_t op;
    int ints;    // length of the integer block, or the least length where `open`
    int floats;
    Setter set;
    bool open = false;
};

int none(const Call &) { return 0; }

// Saturate, round to nearest with ties to even, and give sizes rounded down or up.
int exact(const Call &call, bool up = false) {
    call.node->vx_param.overflow_policy = VX_CONVERT_POLICY_SATURATE;
    call.node->vx_param.rounding_policy = VX_ROUND_POLICY_TO_NEAREST_EVEN;
    call.node->vx_param.down_scale_size_rounding = up ? VX_CONVOLUTIONAL_NETWORK_DS_SIZE_ROUNDING_CEILING
                                                      : VX_CONVOLUTIONAL_NETWORK_DS_SIZE_ROUNDING_FLOOR;
    return 0;
}

template <typename Param>
void set_window(const Call &call, Param &param) {
    for (int axis = 0; axis < 2; ++axis) {
        param.ksize[axis] = call.i(axis);
        param.stride[axis] = call.i(2 + axis);
    }
    for (int side = 0; side < 4; ++side) param.pad[side] = call.i(4 + side);
    param.pad_type = static_cast<decltype(param.pad_type)>(VSI_NN_PAD_AUTO);
}

// ints: kernel w h, stride w h, pad left right top bottom, dilation w h, group, multiplier, output channels
template <typename Param>
int set_convolution(const Call &call, Param &param) {
    set_window(call, param);
    param.dilation[0] = call.i(8);
    param.dilation[1] = call.i(9);
    param.group = call.i(10);
    param.multiplier = call.i(11);
    param.weights = call.i(12);
    param.pad_mode = VSI_NN_PAD_MODE_CONSTANT;
    return exact(call);
}

int conv2d(const Call &call) { return set_convolution(call, call.param().conv2d); }
int grouped_conv2d(const Call &call) { return set_convolution(call, call.param().grouped_conv2d); }

// ints: kernel w h, stride w h, pad left right top bottom, output padding w h, group, output channels
int deconv2d(const Call &call) {
    auto &param = call.param().deconv;
    set_window(call, param);
    param.output_padding[0] = call.i(8);
    param.output_padding[1] = call.i(9);
    param.group = call.i(10);
    param.weights = call.i(11);
    return 0;
}

// ints: output channels, axis (elements up to and with this axis are flattened)
int fully_connected(const Call &call) {
    call.param().fcl.weights = call.i(0);
    call.param().fcl.axis = call.i(1);
    return 0;
}

// ints: transpose of the first, of the second
int matmul(const Call &call) {
    for (int side = 0; side < 2; ++side) {
        call.param().matrixmul.transpose[side] = call.i(side) ? vx_true_e : vx_false_e;
        call.param().matrixmul.adjoint[side] = vx_false_e;
    }
    return 0;
}

int scaled(const Call &call) { call.param().multiply.scale = 1.0f; return exact(call); }
int divide(const Call &call) { call.param().divide.scale = 1.0f; return exact(call); }

// ints: 0 average without padding, 1 average with padding, 2 maximum, then
// kernel w h, stride w h, pad left right top bottom
int pool2d(const Call &call) {
    auto &param = call.param().pool;
    static const vsi_enum types[] = {VX_CONVOLUTIONAL_NETWORK_POOLING_AVG_ANDROID,
                                     VX_CONVOLUTIONAL_NETWORK_POOLING_AVG, VX_CONVOLUTIONAL_NETWORK_POOLING_MAX};
    if (call.i(0) < 0 || call.i(0) > 2) return fail("pool2d: unknown kind of pooling");
    param.type = types[call.i(0)];
    for (int axis = 0; axis < 2; ++axis) {
        param.ksize[axis] = call.i(1 + axis);
        param.stride[axis] = call.i(3 + axis);
    }
    for (int side = 0; side < 4; ++side) param.pad[side] = call.i(5 + side);
    param.pad_type = VSI_NN_PAD_AUTO;
    param.round_type = call.i(9) ? VSI_NN_ROUND_CEIL : VSI_NN_ROUND_FLOOR;
    return exact(call, call.i(9) != 0);
}

// ints: 0 mean, 1 maximum, 2 minimum, 3 sum, 4 product, 5 all, 6 any; keep dimensions; axes
int reduce(const Call &call) {
    static const vsi_enum types[] = {VSI_NN_REDUCE_MEAN, VSI_NN_REDUCE_MAX, VSI_NN_REDUCE_MIN, VSI_NN_REDUCE_SUM,
                                     VSI_NN_REDUCE_PROD, VSI_NN_REDUCE_ALL, VSI_NN_REDUCE_ANY};
    if (call.i(0) < 0 || call.i(0) > 6) return fail("reduce: unknown kind of reduction");
    auto &param = call.param().reduce;
    param.type = types[call.i(0)];
    param.keep_dim = call.i(1) ? vx_true_e : vx_false_e;
    param.axis = call.owner->keep_signed(call.op->ints + 2, call.count() - 2);
    param.axis_num = call.count() - 2;
    return 0;
}

// ints: 0 >, 1 >=, 2 <, 3 <=, 4 !=, 5 ==
int compare(const Call &call) {
    static const vsi_nn_relational_ops_type_t types[] = {
        VSI_NN_RELATIONAL_OPS_GREAT,      VSI_NN_RELATIONAL_OPS_GREAT_EQUAL, VSI_NN_RELATIONAL_OPS_LESS,
        VSI_NN_RELATIONAL_OPS_LESS_EQUAL, VSI_NN_RELATIONAL_OPS_NOT_EQUAL,   VSI_NN_RELATIONAL_OPS_EQUAL};
    if (call.i(0) < 0 || call.i(0) > 5) return fail("compare: unknown relation");
    call.param().relational_ops.op = types[call.i(0)];
    return 0;
}

// ints: 0 and, 1 or, 2 exclusive or
int logical(const Call &call) {
    static const vsi_nn_logical_ops_type_t types[] = {VSI_NN_LOGICAL_AND, VSI_NN_LOGICAL_OR, VSI_NN_LOGICAL_XOR};
    if (call.i(0) < 0 || call.i(0) > 2) return fail("logical: unknown operation");
    call.param().logical_ops.op = types[call.i(0)];
    return 0;
}

// floats: lowest, highest
int clip(const Call &call) {
    call.param().clip.min = call.f(0);
    call.param().clip.max = call.f(1);
    return 0;
}

int leaky_relu(const Call &call) { call.param().activation.leaky_ratio = call.f(0); return 0; }
int elu(const Call &call) { call.param().elu.alpha = call.f(0); return 0; }
int celu(const Call &call) { call.param().celu.alpha = call.f(0); return 0; }
int prelu(const Call &call) { call.param().prelu.axis = call.i(0); return 0; }
int gelu(const Call &call) { call.param().gelu.approximate = call.i(0) ? TRUE : FALSE; return 0; }

int tanh_(const Call &call) {
    call.param().tanh.scale_a = 1.0f;
    call.param().tanh.scale_b = 1.0f;
    return 0;
}

int swish(const Call &call) {
    call.param().swish.type = VSI_NN_SWISH;
    call.param().swish.beta = call.f(0);
    return 0;
}

int hard_swish(const Call &call) {
    call.param().swish.type = VSI_NN_HSWISH;
    call.param().swish.beta = 1.0f;
    return 0;
}

// floats: alpha, beta
int hard_sigmoid(const Call &call) {
    call.param().hard_sigmoid.alpha = call.f(0);
    call.param().hard_sigmoid.beta = call.f(1);
    return 0;
}

int selu(const Call &call) {
    call.param().selu.alpha = call.f(0);
    call.param().selu.gamma = call.f(1);
    return 0;
}

// floats: a, b of a * x + b
int linear(const Call &call) {
    call.param().linear.a = call.f(0);
    call.param().linear.b = call.f(1);
    return 0;
}

// ints: axis; floats: beta
int softmax(const Call &call) {
    call.param().softmax.axis = call.i(0);
    call.param().softmax.beta = call.f(0);
    return 0;
}

int log_softmax(const Call &call) {
    call.param().log_softmax.axis = call.i(0);
    call.param().log_softmax.betaValue = call.f(0);
    return 0;
}

int concat(const Call &call) { call.param().concat.axis = call.i(0); return 0; }
int stack(const Call &call) { call.param().stack.axis = call.i(0); return 0; }
int unstack(const Call &call) { call.param().unstack.axis = call.i(0); return 0; }

// ints: axis, sizes
int split(const Call &call) {
    call.param().split.axis = call.i(0);
    call.param().split.slices = call.owner->keep(call.op->ints + 1, call.count() - 1);
    call.param().split.slices_num = call.count() - 1;
    return 0;
}

// ints: begins, ends, strides (each as long as the rank)
int strided_slice(const Call &call) {
    auto &param = call.param().strided_slice;
    const int rank = call.count() / 3;
    if (rank < 1 || call.count() != 3 * rank) return fail("strided_slice: needs three numbers a dimension");
    param.begin_dims = call.owner->keep_signed(call.op->ints, rank);
    param.end_dims = call.owner->keep_signed(call.op->ints + rank, rank);
    param.stride_dims = call.owner->keep_signed(call.op->ints + 2 * rank, rank);
    param.begin_dims_num = param.end_dims_num = param.stride_dims_num = rank;
    param.begin_mask = param.end_mask = param.shrink_axis_mask = param.new_axis_mask = 0;
    return 0;
}

// ints: starts, lengths (each as long as the rank)
int slice(const Call &call) {
    auto &param = call.param().slice;
    const int rank = call.count() / 2;
    if (rank < 1 || call.count() != 2 * rank) return fail("slice: needs two numbers a dimension");
    param.dims = rank;
    param.start = call.owner->keep(call.op->ints, rank);
    param.length = call.owner->keep(call.op->ints + rank, rank);
    return 0;
}

// ints: shape
int reshape(const Call &call) {
    call.owner->words.emplace_back();
    std::vector<uint32_t> &held = call.owner->words.back();
    held.resize(call.count() * sizeof(vsi_size_t) / sizeof(uint32_t));
    auto *sizes = reinterpret_cast<vsi_size_t *>(held.data());
    for (int axis = 0; axis < call.count(); ++axis) sizes[axis] = call.i(axis);
    call.param().reshape2.size = sizes;
    call.param().reshape2.dim_num = call.count();
    return 0;
}

// ints: order
int transpose(const Call &call) {
    call.param().permute.perm = call.owner->keep(call.op->ints, call.count());
    call.param().permute.dim_num = call.count();
    return 0;
}

// ints: 0 constant, 1 edge, 2 symmetric, 3 reflect; front, back (each as long as the rank); floats: value
int pad(const Call &call) {
    static const vsi_nn_pad_mode_e modes[] = {VSI_NN_PAD_MODE_CONSTANT, VSI_NN_PAD_MODE_REPLICATE,
                                              VSI_NN_PAD_MODE_SYMMETRIC, VSI_NN_PAD_MODE_REFLECT};
    const int rank = (call.count() - 1) / 2;
    if (call.i(0) < 0 || call.i(0) > 3 || call.count() != 1 + 2 * rank) return fail("pad: damaged parameters");
    auto &param = call.param().pad2;
    param.mode = modes[call.i(0)];
    param.dim_num = static_cast<uint8_t>(rank);
    param.front_size = call.owner->keep(call.op->ints + 1, rank);
    param.back_size = call.owner->keep(call.op->ints + 1 + rank, rank);
    param.const_val = call.f(0);
    return 0;
}

int tile(const Call &call) {
    call.param().tile.multiples = call.owner->keep_signed(call.op->ints, call.count());
    call.param().tile.multiples_num = call.count();
    return 0;
}

// ints: output shape
int expand(const Call &call) {
    call.param().expand_broadcast.shape = call.owner->keep(call.op->ints, call.count());
    call.param().expand_broadcast.dim_num = call.count();
    call.param().expand_broadcast.dimensions = nullptr;
    call.param().expand_broadcast.dimensions_num = 0;
    return 0;
}

// ints: 0 nearest, 1 bilinear; width, height; align corners; half pixel centres
int resize(const Call &call) {
    auto &param = call.param().resize;
    param.type = call.i(0) ? VSI_NN_INTERPOLATION_BILINEAR : VSI_NN_INTERPOLATION_NEAREST_NEIGHBOR;
    param.size[0] = call.i(1);
    param.size[1] = call.i(2);
    param.factor = 0.0f;
    param.align_corners = call.i(3) ? TRUE : FALSE;
    param.half_pixel_centers = call.i(4) ? TRUE : FALSE;
    param.layout = VSI_NN_RESIZE_LAYOUT_NCHW;
    return 0;
}

// ints: block, 0 depth first or 1 channel first
int depth_to_space(const Call &call) {
    call.param().depth2space.block_size = call.i(0);
    call.param().depth2space.mode = call.i(1) ? VSI_NN_DEPTH2SPACE_CRD : VSI_NN_DEPTH2SPACE_DCR;
    return 0;
}

int space_to_depth(const Call &call) {
    call.param().space2depth.block_size[0] = call.i(0);
    call.param().space2depth.block_size[1] = call.i(0);
    return 0;
}

// ints: axis, keep dimensions
int argmax(const Call &call) {
    call.param().argmax.axis = call.i(0);
    call.param().argmax.keep_dims = call.i(1) ? TRUE : FALSE;
    return 0;
}

int argmin(const Call &call) {
    call.param().argmin.axis = call.i(0);
    call.param().argmin.keep_dims = call.i(1) ? TRUE : FALSE;
    return 0;
}

// ints: axis, batch dimensions
int gather(const Call &call) {
    call.param().gather.axis = call.i(0);
    call.param().gather.batch_dims = call.i(1);
    return 0;
}

int gather_elements(const Call &call) { call.param().gather_elements.axis = call.i(0); return 0; }
int gather_nd(const Call &call) { call.param().gather_nd.batch_dims = call.i(0); return 0; }

// ints: axis; floats: epsilon
int layer_norm(const Call &call) {
    call.param().layernorm.axis = call.i(0);
    call.param().layernorm.eps = call.f(0);
    return 0;
}

// ints: axes; floats: epsilon
int instance_norm(const Call &call) {
    auto &param = call.param().instancenorm;
    param.eps = call.f(0);
    param.axis = call.owner->keep_signed(call.op->ints, call.count());
    param.axis_num = call.count();
    return 0;
}

int batch_norm(const Call &call) { call.param().batch_norm.eps = call.f(0); return 0; }

// ints: groups; floats: epsilon
int group_norm(const Call &call) {
    call.param().groupnorm.group_num = call.i(0);
    call.param().groupnorm.eps = call.f(0);
    return 0;
}

int l2_norm(const Call &call) { call.param().l2_normalize.axis = call.i(0); return 0; }

// ints: size, axis; floats: alpha, beta, bias
int lrn(const Call &call) {
    auto &param = call.param().lrn;
    param.type = VX_CONVOLUTIONAL_NETWORK_NORM_ACROSS_MAPS;
    param.size = call.i(0);
    param.axis = call.i(1);
    param.alpha = call.f(0);
    param.beta = call.f(1);
    param.bias = call.f(2);
    return 0;
}

// ints: axis, exclusive, reverse
int cumsum(const Call &call) {
    call.param().cumsum.axis = call.i(0);
    call.param().cumsum.exclusive = call.i(1) ? TRUE : FALSE;
    call.param().cumsum.reverse = call.i(2) ? TRUE : FALSE;
    return 0;
}

// ints: k, axis
int topk(const Call &call) {
    call.param().topk.k = call.i(0);
    call.param().topk.axis = call.i(1);
    return 0;
}

// ints: groups, axis
int shuffle_channel(const Call &call) {
    call.param().shufflechannel.group_number = call.i(0);
    call.param().shufflechannel.axis = call.i(1);
    return 0;
}

// ints: axes
int reverse(const Call &call) {
    call.param().reverse.axis = call.owner->keep_signed(call.op->ints, call.count());
    call.param().reverse.axis_num = call.count();
    return 0;
}

// ints: 1 remainder with the sign of the dividend, 0 with the divisor's
int mod(const Call &call) { call.param().mod.fmod = call.i(0); return 0; }

// ints: shape of the result
int scatter_nd(const Call &call) {
    call.param().scatter_nd.shape = call.owner->keep(call.op->ints, call.count());
    call.param().scatter_nd.dim_num = call.count();
    return 0;
}

// ints: keep dimensions; axes
int reduce_l2(const Call &call) {
    call.param().reducel2.keep_dim = call.i(0) ? vx_true_e : vx_false_e;
    call.param().reducel2.axis = call.owner->keep_signed(call.op->ints + 1, call.count() - 1);
    call.param().reducel2.axis_num = call.count() - 1;
    return 0;
}

// ints: depth, axis; floats: on, off
int one_hot(const Call &call) {
    call.param().one_hot.depth = call.i(0);
    call.param().one_hot.axis = call.i(1);
    call.param().one_hot.on_value = call.f(0);
    call.param().one_hot.off_value = call.f(1);
    return 0;
}

const Row ROWS[] = {
    {"conv2d", VSI_NN_OP_CONV2D, 13, 0, conv2d},
    {"grouped_conv2d", VSI_NN_OP_GROUPED_CONV2D, 13, 0, grouped_conv2d},
    {"deconv2d", VSI_NN_OP_DECONVOLUTION, 12, 0, deconv2d},
    {"fully_connected", VSI_NN_OP_FCL2, 2, 0, fully_connected},
    {"matmul", VSI_NN_OP_MATRIXMUL, 2, 0, matmul},
    {"add", VSI_NN_OP_ADD, 0, 0, none},
    {"sub", VSI_NN_OP_SUBTRACT, 0, 0, none},
    {"mul", VSI_NN_OP_MULTIPLY, 0, 0, scaled},
    {"div", VSI_NN_OP_DIVIDE, 0, 0, divide},
    {"pow", VSI_NN_OP_POW, 0, 0, none},
    {"maximum", VSI_NN_OP_MAXIMUM, 0, 0, none},
    {"minimum", VSI_NN_OP_MINIMUM, 0, 0, none},
    {"mod", VSI_NN_OP_MOD, 1, 0, mod},
    {"compare", VSI_NN_OP_RELATIONAL_OPS, 1, 0, compare},
    {"logical", VSI_NN_OP_LOGICAL_OPS, 1, 0, logical},
    {"logical_not", VSI_NN_OP_LOGICAL_NOT, 0, 0, none},
    {"select", VSI_NN_OP_SELECT, 0, 0, none},
    {"relu", VSI_NN_OP_RELU, 0, 0, none},
    {"relu6", VSI_NN_OP_RELU6, 0, 0, none},
    {"relu1", VSI_NN_OP_RELU1, 0, 0, none},
    {"clip", VSI_NN_OP_CLIP, 0, 2, clip},
    {"leaky_relu", VSI_NN_OP_LEAKY_RELU, 0, 1, leaky_relu},
    {"prelu", VSI_NN_OP_PRELU, 1, 0, prelu},
    {"elu", VSI_NN_OP_ELU, 0, 1, elu},
    {"celu", VSI_NN_OP_CELU, 0, 1, celu},
    {"selu", VSI_NN_OP_SELU, 0, 2, selu},
    {"sigmoid", VSI_NN_OP_SIGMOID, 0, 0, none},
    {"tanh", VSI_NN_OP_TANH, 0, 0, tanh_},
    {"swish", VSI_NN_OP_SWISH, 0, 1, swish},
    {"hard_swish", VSI_NN_OP_SWISH, 0, 0, hard_swish},
    {"hard_sigmoid", VSI_NN_OP_HARD_SIGMOID, 0, 2, hard_sigmoid},
    {"gelu", VSI_NN_OP_GELU, 1, 0, gelu},
    {"mish", VSI_NN_OP_MISH, 0, 0, none},
    {"softplus", VSI_NN_OP_SOFTRELU, 0, 0, none},
    {"softsign", VSI_NN_OP_SOFTSIGN, 0, 0, none},
    {"exp", VSI_NN_OP_EXP, 0, 0, none},
    {"log", VSI_NN_OP_LOG, 0, 0, none},
    {"sqrt", VSI_NN_OP_SQRT, 0, 0, none},
    {"rsqrt", VSI_NN_OP_RSQRT, 0, 0, none},
    {"abs", VSI_NN_OP_ABS, 0, 0, none},
    {"neg", VSI_NN_OP_NEG, 0, 0, none},
    {"square", VSI_NN_OP_SQUARE, 0, 0, none},
    {"erf", VSI_NN_OP_ERF, 0, 0, none},
    {"sin", VSI_NN_OP_SIN, 0, 0, none},
    {"cos", VSI_NN_OP_COS, 0, 0, none},
#if VSI_NN_VERSION_MAJOR > 1 || VSI_NN_VERSION_MINOR > 1
    {"tan", VSI_NN_OP_TAN, 0, 0, none},
#endif
    {"atan", VSI_NN_OP_ATAN, 0, 0, none},
    {"atanh", VSI_NN_OP_ATANH, 0, 0, none},
    {"acosh", VSI_NN_OP_ACOSH, 0, 0, none},
    {"floor", VSI_NN_OP_FLOOR, 0, 0, none},
    {"ceil", VSI_NN_OP_CEIL, 0, 0, none},
    {"round", VSI_NN_OP_ROUND, 0, 0, none},
    {"sign", VSI_NN_OP_SIGN, 0, 0, none},
    {"reciprocal", VSI_NN_OP_RCP, 0, 0, none},
    {"linear", VSI_NN_OP_LINEAR, 0, 2, linear},
    {"softmax", VSI_NN_OP_SOFTMAX, 1, 1, softmax},
    {"log_softmax", VSI_NN_OP_LOG_SOFTMAX, 1, 1, log_softmax},
    {"pool2d", VSI_NN_OP_POOL, 10, 0, pool2d},
    {"reduce", VSI_NN_OP_REDUCE, 3, 0, reduce, true},
    {"concat", VSI_NN_OP_CONCAT, 1, 0, concat},
    {"stack", VSI_NN_OP_STACK, 1, 0, stack},
    {"unstack", VSI_NN_OP_UNSTACK, 1, 0, unstack},
    {"split", VSI_NN_OP_SPLIT, 2, 0, split, true},
    {"strided_slice", VSI_NN_OP_STRIDED_SLICE, 3, 0, strided_slice, true},
    {"slice", VSI_NN_OP_SLICE, 2, 0, slice, true},
    {"reshape", VSI_NN_OP_RESHAPE2, 1, 0, reshape, true},
    {"transpose", VSI_NN_OP_PERMUTE, 1, 0, transpose, true},
    {"pad", VSI_NN_OP_PAD2, 3, 1, pad, true},
    {"tile", VSI_NN_OP_TILE, 1, 0, tile, true},
    {"expand", VSI_NN_OP_EXPAND_BROADCAST, 1, 0, expand, true},
    {"resize", VSI_NN_OP_RESIZE, 5, 0, resize},
    {"depth_to_space", VSI_NN_OP_DEPTH2SPACE, 2, 0, depth_to_space},
    {"space_to_depth", VSI_NN_OP_SPACE2DEPTH, 1, 0, space_to_depth},
    {"shuffle_channel", VSI_NN_OP_SHUFFLECHANNEL, 2, 0, shuffle_channel},
    {"reverse", VSI_NN_OP_REVERSE, 1, 0, reverse, true},
    {"argmax", VSI_NN_OP_ARGMAX, 2, 0, argmax},
    {"argmin", VSI_NN_OP_ARGMIN, 2, 0, argmin},
    {"topk", VSI_NN_OP_TOPK, 2, 0, topk},
    {"gather", VSI_NN_OP_GATHER, 2, 0, gather},
    {"gather_elements", VSI_NN_OP_GATHER_ELEMENTS, 1, 0, gather_elements},
    {"gather_nd", VSI_NN_OP_GATHER_ND, 1, 0, gather_nd},
    {"scatter_nd", VSI_NN_OP_SCATTER_ND, 1, 0, scatter_nd, true},
    {"reduce_l2", VSI_NN_OP_REDUCEL2, 2, 0, reduce_l2, true},
    {"one_hot", VSI_NN_OP_ONE_HOT, 2, 2, one_hot},
    {"cumsum", VSI_NN_OP_CUMSUM, 3, 0, cumsum},
    {"layer_norm", VSI_NN_OP_LAYER_NORM, 1, 1, layer_norm},
    {"instance_norm", VSI_NN_OP_INSTANCE_NORM, 1, 1, instance_norm, true},
    {"group_norm", VSI_NN_OP_GROUP_NORM, 1, 1, group_norm},
    {"batch_norm", VSI_NN_OP_BATCH_NORM, 0, 1, batch_norm},
    {"l2_norm", VSI_NN_OP_L2_NORMALIZE, 1, 0, l2_norm},
    {"lrn", VSI_NN_OP_LRN2, 2, 3, lrn},
    {"data_convert", VSI_NN_OP_DATACONVERT, 0, 0, none},
    {"cast", VSI_NN_OP_CAST, 0, 0, none},
};

const Row *find_row(const char *kind) {
    for (const Row &row : ROWS)
        if (std::strcmp(row.kind, kind) == 0) return &row;
    return nullptr;
}

bool set_quantisation(dtv_graph *graph, const dtv_tensor &tensor, vsi_nn_dtype_t *found) {
    switch (tensor.quant) {
        case DTV_QUANT_NONE:
            found->qnt_type = VSI_NN_QNT_TYPE_NONE;
            return true;
        case DTV_QUANT_AFFINE:
            found->qnt_type = VSI_NN_QNT_TYPE_AFFINE_ASYMMETRIC;
            found->scale = tensor.scale;
            found->zero_point = tensor.zero_point;
            return true;
        case DTV_QUANT_FIXED_POINT:
            found->qnt_type = VSI_NN_QNT_TYPE_DFP;
            found->fl = static_cast<int8_t>(tensor.fl);
            return true;
        case DTV_QUANT_CHANNEL_SYMMETRIC:
        case DTV_QUANT_CHANNEL_AFFINE: {
            const bool affine = tensor.quant == DTV_QUANT_CHANNEL_AFFINE;
            found->qnt_type = affine ? VSI_NN_QNT_TYPE_AFFINE_PERCHANNEL_ASYMMETRIC
                                     : VSI_NN_QNT_TYPE_AFFINE_PERCHANNEL_SYMMETRIC;
            graph->reals.emplace_back(tensor.scales, tensor.scales + tensor.channels);
            found->scales = graph->reals.back().data();
            found->scale_dim = tensor.channels;
            found->channel_dim = tensor.axis;
            std::vector<int32_t> zeros(tensor.channels, 0);
            found->zero_points = graph->keep_signed(affine ? tensor.zero_points : zeros.data(), tensor.channels);
            found->zero_points_dim = tensor.channels;
            return true;
        }
        default:
            return false;
    }
}

bool known_tensor(const dtv_graph *graph, int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < graph->sizes.size();
}

int bind(dtv_graph *graph, vsi_nn_node_t *node, const dtv_operator *op) {
    for (int32_t index = 0; index < op->input_count; ++index) {
        const int32_t id = op->inputs[index];
        if (id != -1 && !known_tensor(graph, id)) return fail(std::string(op->kind) + ": unknown input tensor");
        node->input.tensors[index] = id == -1 ? VSI_NN_TENSOR_ID_NA : static_cast<vsi_nn_tensor_id_t>(id);
    }
    for (int32_t index = 0; index < op->output_count; ++index) {
        if (!known_tensor(graph, op->outputs[index])) return fail(std::string(op->kind) + ": unknown output tensor");
        node->output.tensors[index] = static_cast<vsi_nn_tensor_id_t>(op->outputs[index]);
    }
    node->uid = op->uid;
    return 0;
}

// The driver's performance records tell an operator by what its results are called.
void name_results(vsi_nn_graph_t *graph) {
    char text[64];
    for (uint32_t index = 0; index < graph->node_num; ++index) {
        const vsi_nn_node_t *node = vsi_nn_GetNode(graph, index);
        for (uint32_t output = 0; node != nullptr && output < node->output.num; ++output) {
            vsi_nn_tensor_t *tensor = vsi_nn_GetTensor(graph, node->output.tensors[output]);
            if (tensor == nullptr || tensor->t == nullptr) continue;
            std::snprintf(text, sizeof text, "uid_%u_sub_uid_0_out_%u", node->uid, output);
            vxSetReferenceName(reinterpret_cast<vx_reference>(tensor->t), text);
        }
    }
}

int check(vsi_status status, const char *what) {
    if (status == VSI_SUCCESS) return 0;
    return fail(std::string(what) + " failed with status " + std::to_string(status));
}

}  // namespace

extern "C" {

int dtv_abi(void) { return DTV_ABI; }

const char *dtv_version(void) {
    static char text[64];
    std::snprintf(text, sizeof text, "ovxlib %u.%u.%u", vsi_nn_GetVersionMajor(), vsi_nn_GetVersionMinor(),
                  vsi_nn_GetVersionPatch());
    return text;
}

const char *dtv_last_error(void) { return last_error.c_str(); }

int dtv_has_operator(const char *kind) { return find_row(kind) != nullptr; }

dtv_graph *dtv_create(void) {
    auto made = std::unique_ptr<dtv_graph>(new (std::nothrow) dtv_graph);
    if (!made) return nullptr;
    made->context = vsi_nn_CreateContext();
    if (made->context == nullptr) {
        fail("no context: the driver or simulator did not start");
        return nullptr;
    }
    made->graph = vsi_nn_CreateGraph(made->context, 0, 0);
    if (made->graph == nullptr) {
        vsi_nn_ReleaseContext(&made->context);
        fail("no graph: the driver refused to create one");
        return nullptr;
    }
    vsi_nn_SetGraphVersion(made->graph, vsi_nn_GetVersionMajor(), vsi_nn_GetVersionMinor(), vsi_nn_GetVersionPatch());
    return made.release();
}

void dtv_destroy(dtv_graph *graph) {
    if (graph == nullptr) return;
    if (graph->graph != nullptr) vsi_nn_ReleaseGraph(&graph->graph);
    if (graph->context != nullptr) vsi_nn_ReleaseContext(&graph->context);
    delete graph;
}

int dtv_add_tensor(dtv_graph *graph, const dtv_tensor *tensor) {
    vsi_nn_tensor_attr_t attr;
    std::memset(&attr, 0, sizeof attr);
    uint32_t element = 0;
    if (!dtype_of(tensor->dtype, &attr.dtype.vx_type, &element)) return fail("tensor: unknown element type");
    if (tensor->rank < 1 || tensor->rank > VSI_NN_MAX_DIM_NUM) return fail("tensor: 1 to 8 dimensions are possible");
    uint64_t bytes = element;
    for (int32_t axis = 0; axis < tensor->rank; ++axis) {
        attr.size[axis] = tensor->shape[axis];
        bytes *= tensor->shape[axis];
    }
    attr.dim_num = tensor->rank;
    attr.vtl = tensor->role == DTV_INNER ? TRUE : FALSE;
    attr.is_const = tensor->role == DTV_CONSTANT ? TRUE : FALSE;
    attr.dtype.fmt = VSI_NN_DIM_FMT_NCHW;
    if (!set_quantisation(graph, *tensor, &attr.dtype)) return fail("tensor: unknown kind of quantisation");
    if (tensor->role == DTV_CONSTANT && (tensor->data == nullptr || tensor->data_bytes != bytes))
        return fail("tensor: a constant of " + std::to_string(bytes) + " bytes was given " +
                    std::to_string(tensor->data_bytes));
    auto *data = static_cast<uint8_t *>(const_cast<void *>(tensor->role == DTV_CONSTANT ? tensor->data : nullptr));
    const auto wanted = static_cast<vsi_nn_tensor_id_t>(graph->sizes.size());
    if (vsi_nn_AddTensor(graph->graph, wanted, &attr, data) != wanted) return fail("tensor: the driver refused it");
    graph->sizes.push_back(bytes);
    return static_cast<int>(wanted);
}

int dtv_add_operator(dtv_graph *graph, const dtv_operator *op) {
    const Row *row = find_row(op->kind);
    if (row == nullptr) return fail(std::string(op->kind) + ": no such operator here");
    const bool fits = row->open ? op->int_count >= row->ints : op->int_count == row->ints;
    if (!fits || op->float_count != row->floats) return fail(std::string(op->kind) + ": damaged parameters");
    vsi_nn_node_t *node = vsi_nn_AddNode(graph->graph, row->op, op->input_count, op->output_count, nullptr);
    if (node == nullptr) return fail(std::string(op->kind) + ": the driver refused the operator");
    graph->operators += 1;
    const Call call{graph, node, op};
    if (row->set(call) != 0) return -1;
    return bind(graph, node, op);
}

int dtv_add_binary(dtv_graph *graph, const void *binary, uint64_t size_bytes, const dtv_operator *op) {
    const auto *bytes = static_cast<const uint8_t *>(binary);
    graph->binary.assign(bytes, bytes + size_bytes);
    vsi_nn_node_t *node = vsi_nn_AddNode(graph->graph, VSI_NN_OP_NBG, op->input_count, op->output_count, nullptr);
    if (node == nullptr) return fail("binary: the driver refused the operator");
    graph->operators += 1;
    node->nn_param.nbg.type = VSI_NN_NBG_POINTER;
    node->nn_param.nbg.url = reinterpret_cast<const char *>(graph->binary.data());
    return bind(graph, node, op);
}

int dtv_set_edges(dtv_graph *graph, const int32_t *inputs, int32_t input_count, const int32_t *outputs,
                  int32_t output_count) {
    for (int32_t index = 0; index < input_count; ++index)
        if (!known_tensor(graph, inputs[index])) return fail("edges: unknown input tensor");
    for (int32_t index = 0; index < output_count; ++index)
        if (!known_tensor(graph, outputs[index])) return fail("edges: unknown output tensor");
    if (!vsi_nn_SetGraphInputs(graph->graph, nullptr, input_count) ||
        !vsi_nn_SetGraphOutputs(graph->graph, nullptr, output_count))
        return fail("edges: the driver refused them");
    for (int32_t index = 0; index < input_count; ++index) graph->graph->input.tensors[index] = inputs[index];
    for (int32_t index = 0; index < output_count; ++index) graph->graph->output.tensors[index] = outputs[index];
    return 0;
}

int dtv_setup(dtv_graph *graph) {
    if (graph->operators == 0) return fail("the graph has no operator");
    if (check(vsi_nn_SetupGraph(graph->graph, TRUE), "setting the graph up") != 0) return -1;
    name_results(graph->graph);
    return 0;
}

int dtv_compile(dtv_graph *graph) { return check(vsi_nn_VerifyGraph(graph->graph), "compiling the graph"); }

int dtv_write_binary(dtv_graph *graph, void *buffer, uint64_t *size_bytes) {
    size_t size = *size_bytes;
    if (check(vsi_nn_GenerateNBG(graph->graph, buffer, &size), "writing the binary network") != 0) return -1;
    *size_bytes = size;
    return 0;
}

int dtv_write(dtv_graph *graph, int32_t tensor, const void *data, uint64_t size_bytes) {
    if (!known_tensor(graph, tensor)) return fail("write: unknown tensor");
    if (size_bytes != graph->sizes[tensor]) return fail("write: wrong number of bytes");
    vsi_nn_tensor_t *found = vsi_nn_GetTensor(graph->graph, static_cast<vsi_nn_tensor_id_t>(tensor));
    if (found == nullptr) return fail("write: the tensor has gone");
    return check(vsi_nn_CopyDataToTensor(graph->graph, found, const_cast<void *>(data)), "writing an input");
}

int dtv_run(dtv_graph *graph) { return check(vsi_nn_RunGraph(graph->graph), "running the graph"); }

int dtv_read(dtv_graph *graph, int32_t tensor, void *data, uint64_t size_bytes) {
    if (!known_tensor(graph, tensor)) return fail("read: unknown tensor");
    if (size_bytes != graph->sizes[tensor]) return fail("read: wrong number of bytes");
    vsi_nn_tensor_t *found = vsi_nn_GetTensor(graph->graph, static_cast<vsi_nn_tensor_id_t>(tensor));
    if (found == nullptr) return fail("read: the tensor has gone");
    const vsi_size_t copied = vsi_nn_CopyTensorToBuffer(graph->graph, found, data);
    if (copied == 0) return fail("read: the driver gave no data");
    return 0;
}

}  // extern "C"
