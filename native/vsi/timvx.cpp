// The interface of dovetail_vsi.h over TIM-VX, for boards that ship it instead of libovxlib.
//
// TIM-VX takes the order of inputs and outputs from the order in which their tensors are made, so tensors and operators
// are kept as they are given and made in dtv_setup. Its enumerations differ between versions: they are used by name only.

#include "dovetail_vsi.h"

#include <array>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "tim/vx/context.h"
#include "tim/vx/graph.h"
#include "tim/vx/operation.h"
#include "tim/vx/ops.h"
#include "tim/vx/ops/nbg.h"
#include "tim/vx/ops/topk.h"
#include "tim/vx/tensor.h"
#include "tim/vx/types.h"

namespace {

namespace vx = tim::vx;
namespace ops = tim::vx::ops;

thread_local std::string last_error;

int fail(const std::string &reason) {
    last_error = reason;
    return -1;
}

bool dtype_of(int32_t code, vx::DataType *found, uint32_t *size) {
    switch (code) {
        case DTV_F32: *found = vx::DataType::FLOAT32; *size = 4; return true;
        case DTV_F16: *found = vx::DataType::FLOAT16; *size = 2; return true;
        case DTV_I8: *found = vx::DataType::INT8; *size = 1; return true;
        case DTV_U8: *found = vx::DataType::UINT8; *size = 1; return true;
        case DTV_I16: *found = vx::DataType::INT16; *size = 2; return true;
        case DTV_U16: *found = vx::DataType::UINT16; *size = 2; return true;
        case DTV_I32: *found = vx::DataType::INT32; *size = 4; return true;
        case DTV_U32: *found = vx::DataType::UINT32; *size = 4; return true;
        case DTV_I64: *found = vx::DataType::INT64; *size = 8; return true;
        case DTV_BOOL: *found = vx::DataType::BOOL8; *size = 1; return true;
        default: return false;
    }
}

struct HeldTensor {
    vx::TensorSpec spec;
    int32_t role;
    uint64_t bytes;
    std::vector<uint8_t> data;
    std::shared_ptr<vx::Tensor> made;
};

struct HeldOperator {
    std::string kind;
    std::vector<int32_t> inputs, outputs, ints;
    std::vector<float> floats;
};

}  // namespace

struct dtv_graph {
    std::shared_ptr<vx::Context> context;
    std::shared_ptr<vx::Graph> graph;
    std::vector<HeldTensor> tensors;
    std::vector<HeldOperator> operators;
    std::vector<uint8_t> binary;
    std::vector<int32_t> inputs, outputs;
};

namespace {

using Made = std::shared_ptr<vx::Operation>;
using Pair = std::array<uint32_t, 2>;
using Four = std::array<uint32_t, 4>;
using Words = std::vector<uint32_t>;
using Axes = std::vector<int32_t>;

// What a maker of operators sees. Layouts of the parameter blocks are those of ovxlib.cpp.
struct Call {
    vx::Graph &graph;
    const HeldOperator &op;

    int32_t i(size_t index) const { return op.ints[index]; }
    float f(size_t index) const { return op.floats[index]; }
    size_t count() const { return op.ints.size(); }
    Pair pair(size_t at) const { return {uint32_t(i(at)), uint32_t(i(at + 1))}; }
    Four four(size_t at) const { return {uint32_t(i(at)), uint32_t(i(at + 1)), uint32_t(i(at + 2)), uint32_t(i(at + 3))}; }
    Words words(size_t from, size_t to) const { return {op.ints.begin() + long(from), op.ints.begin() + long(to)}; }
    Axes axes(size_t from, size_t to) const { return {op.ints.begin() + long(from), op.ints.begin() + long(to)}; }

    template <typename Op, typename... Params>
    Made make(Params... params) const {
        return graph.CreateOperation<Op>(params...);
    }
};

template <typename Op>
Made plain(const Call &call) {
    return call.make<Op>();
}

template <typename Op>
Made on_axis(const Call &call) {
    return call.make<Op>(call.i(0));
}

template <typename Op>
Made with_float(const Call &call) {
    return call.make<Op>(call.f(0));
}

template <typename Op>
Made with_floats(const Call &call) {
    return call.make<Op>(call.f(0), call.f(1));
}

template <typename Op>
Made with_axes(const Call &call) {
    return call.make<Op>(call.axes(0, call.count()));
}

template <typename Op>
Made with_words(const Call &call) {
    return call.make<Op>(call.words(0, call.count()));
}

Made conv2d(const Call &call) {
    return call.make<ops::Conv2d>(call.i(12), vx::PadType::AUTO, call.pair(0), call.pair(2), call.pair(8), call.four(4),
                                  call.i(11));
}

Made grouped_conv2d(const Call &call) {
    return call.make<ops::GroupedConv2d>(call.four(4), call.pair(2), call.pair(8), call.i(10));
}

Made deconv2d(const Call &call) {
    return call.make<ops::DeConv2d>(call.i(11), vx::PadType::AUTO, call.pair(0), call.pair(2), call.pair(8),
                                    call.four(4), uint32_t(call.i(10)));
}

Made fully_connected(const Call &call) {
    return call.make<ops::FullyConnected>(uint32_t(call.i(1)), uint32_t(call.i(0)));
}

Made matmul(const Call &call) { return call.make<ops::Matmul>(call.i(0) != 0, call.i(1) != 0); }

Made pool2d(const Call &call) {
    static const vx::PoolType types[] = {vx::PoolType::AVG_ANDROID, vx::PoolType::AVG, vx::PoolType::MAX};
    if (call.i(0) < 0 || call.i(0) > 2) return nullptr;
    const vx::RoundType round = call.i(9) ? vx::RoundType::CEILING : vx::RoundType::FLOOR;
    return call.make<ops::Pool2d>(types[call.i(0)], call.four(5), call.pair(1), call.pair(3), round);
}

Made reduce(const Call &call) {
    const Axes axes = call.axes(2, call.count());
    const bool keep = call.i(1) != 0;
    switch (call.i(0)) {
        case 0: return call.make<ops::ReduceMean>(axes, keep);
        case 1: return call.make<ops::ReduceMax>(axes, keep);
        case 2: return call.make<ops::ReduceMin>(axes, keep);
        case 3: return call.make<ops::ReduceSum>(axes, keep);
        case 4: return call.make<ops::ReduceProd>(axes, keep);
        case 5: return call.make<ops::ReduceAll>(axes, keep);
        case 6: return call.make<ops::ReduceAny>(axes, keep);
        default: return nullptr;
    }
}

Made compare(const Call &call) {
    switch (call.i(0)) {
        case 0: return call.make<ops::Greater>();
        case 1: return call.make<ops::GreaterOrEqual>();
        case 2: return call.make<ops::Less>();
        case 3: return call.make<ops::LessOrEqual>();
        case 4: return call.make<ops::NotEqual>();
        case 5: return call.make<ops::Equal>();
        default: return nullptr;
    }
}

// There is no exclusive or: truth values that differ are.
Made logical(const Call &call) {
    switch (call.i(0)) {
        case 0: return call.make<ops::LogicalAnd>();
        case 1: return call.make<ops::LogicalOr>();
        case 2: return call.make<ops::NotEqual>();
        default: return nullptr;
    }
}

Made gelu(const Call &call) { return call.make<ops::Gelu>(call.i(0) != 0); }
Made softmax(const Call &call) { return call.make<ops::Softmax>(call.f(0), call.i(0)); }
Made log_softmax(const Call &call) { return call.make<ops::LogSoftmax>(call.i(0), call.f(0)); }

// TIM-VX's has no slope.
Made swish(const Call &call) { return call.f(0) == 1.0f ? call.make<ops::Swish>() : nullptr; }

Made concat(const Call &call) {
    return call.make<ops::Concat>(uint32_t(call.i(0)), int(call.op.inputs.size()));
}

Made stack(const Call &call) { return call.make<ops::Stack>(uint32_t(call.i(0)), int(call.op.inputs.size())); }

Made unstack(const Call &call) {
    return call.make<ops::Unstack>(call.i(0), uint32_t(call.op.outputs.size()));
}

Made split(const Call &call) { return call.make<ops::Split>(uint32_t(call.i(0)), call.words(1, call.count())); }

Made strided_slice(const Call &call) {
    const size_t rank = call.count() / 3;
    return call.make<ops::StridedSlice>(call.axes(0, rank), call.axes(rank, 2 * rank), call.axes(2 * rank, 3 * rank), 0,
                                        0, 0);
}

Made slice(const Call &call) {
    const size_t rank = call.count() / 2;
    return call.make<ops::Slice>(uint32_t(rank), call.axes(0, rank), call.axes(rank, 2 * rank));
}

Made pad(const Call &call) {
    static const ops::PadV2::pad_mode_type modes[] = {ops::PadV2::PAD_MODE_CONSTANT, ops::PadV2::PAD_MODE_EDGE,
                                                      ops::PadV2::PAD_MODE_SYMMETRIC, ops::PadV2::PAD_MODE_REFLECT};
    const size_t rank = (call.count() - 1) / 2;
    if (call.i(0) < 0 || call.i(0) > 3 || call.count() != 1 + 2 * rank) return nullptr;
    return call.make<ops::PadV2>(call.words(1, 1 + rank), call.words(1 + rank, 1 + 2 * rank), call.f(0),
                                 modes[call.i(0)]);
}

Made resize(const Call &call) {
    const vx::ResizeType type = call.i(0) ? vx::ResizeType::BILINEAR : vx::ResizeType::NEAREST_NEIGHBOR;
    return call.make<ops::Resize>(type, 0.0f, call.i(3) != 0, call.i(4) != 0, int(call.i(2)), int(call.i(1)));
}

Made depth_to_space(const Call &call) {
    const auto mode = call.i(1) ? ops::DepthToSpace::CRD_mode : ops::DepthToSpace::DCR_mode;
    return call.make<ops::DepthToSpace>(int(call.i(0)), mode);
}

Made space_to_depth(const Call &call) {
    return call.make<ops::SpaceToDepth>(std::vector<int>{int(call.i(0)), int(call.i(0))});
}

Made shuffle_channel(const Call &call) { return call.make<ops::ShuffleChannel>(call.i(0), call.i(1)); }
Made topk(const Call &call) { return call.make<ops::Topk>(uint32_t(call.i(0)), call.i(1)); }
Made gather(const Call &call) { return call.make<ops::Gather>(int(call.i(0)), int(call.i(1))); }

Made one_hot(const Call &call) {
    return call.make<ops::OneHot>(call.i(0), call.f(0), call.f(1), call.i(1));
}

#ifdef VSI_FEAT_OP_CUMSUM
Made cumsum(const Call &call) { return call.make<ops::CumSum>(call.i(0), call.i(1), call.i(2)); }
#endif
Made layer_norm(const Call &call) { return call.make<ops::LayerNormalization>(call.i(0), call.f(0)); }

Made lrn(const Call &call) {
    return call.make<ops::LRN>(uint32_t(call.i(0)), call.f(0), call.f(1), call.f(2), call.i(1));
}

struct Row {
    const char *kind;
    size_t ints;  // length of the integer block, or the least length where `open`
    size_t floats;
    Made (*make)(const Call &);  // null where the parameters have no form here
    bool open = false;
};

const Row ROWS[] = {
    {"conv2d", 13, 0, conv2d},
    {"grouped_conv2d", 13, 0, grouped_conv2d},
    {"deconv2d", 12, 0, deconv2d},
    {"fully_connected", 2, 0, fully_connected},
    {"matmul", 2, 0, matmul},
    {"add", 0, 0, plain<ops::Add>},
    {"sub", 0, 0, plain<ops::Sub>},
    {"mul", 0, 0, plain<ops::Multiply>},
    {"div", 0, 0, plain<ops::Div>},
    {"pow", 0, 0, plain<ops::Pow>},
    {"maximum", 0, 0, plain<ops::Maximum>},
    {"minimum", 0, 0, plain<ops::Minimum>},
#ifdef VSI_FEAT_OP_MOD
    {"mod", 1, 0, on_axis<ops::Mod>},
#endif
    {"compare", 1, 0, compare},
    {"logical", 1, 0, logical},
    {"logical_not", 0, 0, plain<ops::LogicalNot>},
    {"select", 0, 0, plain<ops::Select>},
    {"relu", 0, 0, plain<ops::Relu>},
    {"relu6", 0, 0, plain<ops::Relu6>},
    {"relu1", 0, 0, plain<ops::Relu1>},
    {"clip", 0, 2, with_floats<ops::Clip>},
    {"leaky_relu", 0, 1, with_float<ops::LeakyRelu>},
    {"prelu", 1, 0, on_axis<ops::Prelu>},
    {"elu", 0, 1, with_float<ops::Elu>},
    {"celu", 0, 1, with_float<ops::Celu>},
    {"selu", 0, 2, with_floats<ops::Selu>},
    {"sigmoid", 0, 0, plain<ops::Sigmoid>},
    {"tanh", 0, 0, plain<ops::Tanh>},
    {"swish", 0, 1, swish},
    {"hard_swish", 0, 0, plain<ops::HardSwish>},
    {"hard_sigmoid", 0, 2, with_floats<ops::HardSigmoid>},
    {"gelu", 1, 0, gelu},
    {"mish", 0, 0, plain<ops::Mish>},
    {"softplus", 0, 0, plain<ops::SoftRelu>},
    {"softsign", 0, 0, plain<ops::SoftSign>},
    {"exp", 0, 0, plain<ops::Exp>},
    {"log", 0, 0, plain<ops::Log>},
    {"sqrt", 0, 0, plain<ops::Sqrt>},
    {"rsqrt", 0, 0, plain<ops::Rsqrt>},
    {"abs", 0, 0, plain<ops::Abs>},
    {"neg", 0, 0, plain<ops::Neg>},
    {"square", 0, 0, plain<ops::Square>},
    {"erf", 0, 0, plain<ops::Erf>},
    {"sin", 0, 0, plain<ops::Sin>},
    {"floor", 0, 0, plain<ops::Floor>},
    {"ceil", 0, 0, plain<ops::Ceil>},
    {"round", 0, 0, plain<ops::Round>},
    {"sign", 0, 0, plain<ops::Sign>},
    {"reciprocal", 0, 0, plain<ops::Rcp>},
    {"linear", 0, 2, with_floats<ops::Linear>},
    {"softmax", 1, 1, softmax},
    {"log_softmax", 1, 1, log_softmax},
    {"pool2d", 10, 0, pool2d},
    {"reduce", 3, 0, reduce, true},
    {"concat", 1, 0, concat},
    {"stack", 1, 0, stack},
    {"unstack", 1, 0, unstack},
    {"split", 2, 0, split, true},
    {"strided_slice", 3, 0, strided_slice, true},
    {"slice", 2, 0, slice, true},
    {"reshape", 1, 0, with_words<ops::Reshape>, true},
    {"transpose", 1, 0, with_words<ops::Transpose>, true},
    {"pad", 3, 1, pad, true},
    {"tile", 1, 0, with_axes<ops::Tile>, true},
    {"expand", 1, 0, with_axes<ops::Broadcast>, true},
    {"resize", 5, 0, resize},
    {"depth_to_space", 2, 0, depth_to_space},
    {"space_to_depth", 1, 0, space_to_depth},
    {"shuffle_channel", 2, 0, shuffle_channel},
    {"reverse", 1, 0, with_axes<ops::Reverse>, true},
    {"argmax", 2, 0, on_axis<ops::ArgMax>},
    {"argmin", 2, 0, on_axis<ops::ArgMin>},
    {"topk", 2, 0, topk},
    {"gather", 2, 0, gather},
    {"gather_elements", 1, 0, on_axis<ops::GatherElements>},
    {"gather_nd", 1, 0, plain<ops::GatherNd>},
    {"scatter_nd", 1, 0, with_words<ops::ScatterND>, true},
    {"one_hot", 2, 2, one_hot},
#ifdef VSI_FEAT_OP_CUMSUM
    {"cumsum", 3, 0, cumsum},
#endif
    {"layer_norm", 1, 1, layer_norm},
    {"instance_norm", 1, 1, with_float<ops::InstanceNormalization>, true},
    {"batch_norm", 0, 1, with_float<ops::BatchNorm>},
    {"l2_norm", 1, 0, on_axis<ops::L2Normalization>},
    {"lrn", 2, 3, lrn},
    {"data_convert", 0, 0, plain<ops::DataConvert>},
    {"cast", 0, 0, plain<ops::Cast>},
};

const Row *find_row(const std::string &kind) {
    for (const Row &row : ROWS)
        if (kind == row.kind) return &row;
    return nullptr;
}

bool known_tensor(const dtv_graph *graph, int32_t id) { return id >= 0 && size_t(id) < graph->tensors.size(); }

bool quantisation_of(const dtv_tensor &tensor, vx::Quantization *found) {
    switch (tensor.quant) {
        case DTV_QUANT_NONE: return true;
        case DTV_QUANT_AFFINE:
            *found = vx::Quantization(vx::QuantType::ASYMMETRIC, tensor.scale, tensor.zero_point);
            return true;
        case DTV_QUANT_FIXED_POINT:
            *found = vx::Quantization(vx::QuantType::DYNAMIC_FIXED_POINT, static_cast<int8_t>(tensor.fl));
            return true;
        case DTV_QUANT_CHANNEL_SYMMETRIC:
            *found = vx::Quantization(vx::QuantType::SYMMETRIC_PER_CHANNEL, tensor.axis,
                                      std::vector<float>(tensor.scales, tensor.scales + tensor.channels),
                                      std::vector<int32_t>(size_t(tensor.channels), 0));
            return true;
        default: return false;
    }
}

// Every tensor is made once: inputs first, then outputs, each in the order of the edges.
bool make_tensor(dtv_graph *graph, int32_t id, vx::TensorAttribute attribute) {
    HeldTensor &held = graph->tensors[size_t(id)];
    if (held.made) return true;
    held.spec.attr_ = attribute;
    held.made = graph->graph->CreateTensor(held.spec, held.data.empty() ? nullptr : held.data.data());
    return held.made != nullptr;
}

int make_tensors(dtv_graph *graph) {
    bool good = true;
    for (int32_t id : graph->inputs) good = good && make_tensor(graph, id, vx::TensorAttribute::INPUT);
    for (int32_t id : graph->outputs) good = good && make_tensor(graph, id, vx::TensorAttribute::OUTPUT);
    for (size_t id = 0; id < graph->tensors.size(); ++id) {
        const int32_t role = graph->tensors[id].role;
        good = good && make_tensor(graph, int32_t(id), role == DTV_CONSTANT ? vx::TensorAttribute::CONSTANT
                                                       : role == DTV_INNER  ? vx::TensorAttribute::TRANSIENT
                                                                            : vx::TensorAttribute::VARIABLE);
    }
    return good ? 0 : fail("tensor: the driver refused one");
}

void bind(dtv_graph *graph, vx::Operation &made, const HeldOperator &op) {
    size_t given = op.inputs.size();
    while (given > 0 && op.inputs[given - 1] == -1) --given;  // trailing ones that are left out
    for (size_t index = 0; index < given; ++index)
        made.BindInput(op.inputs[index] == -1 ? graph->graph->CreateTensorPlaceHolder()
                                              : graph->tensors[size_t(op.inputs[index])].made);
    for (int32_t id : op.outputs) made.BindOutput(graph->tensors[size_t(id)].made);
}

int hold(dtv_graph *graph, const dtv_operator *op) {
    HeldOperator held{op->kind, {op->inputs, op->inputs + op->input_count},
                      {op->outputs, op->outputs + op->output_count}, {op->ints, op->ints + op->int_count},
                      {op->floats, op->floats + op->float_count}};
    for (int32_t id : held.inputs)
        if (id != -1 && !known_tensor(graph, id)) return fail(held.kind + ": unknown input tensor");
    for (int32_t id : held.outputs)
        if (!known_tensor(graph, id)) return fail(held.kind + ": unknown output tensor");
    graph->operators.push_back(std::move(held));
    return 0;
}

int make_operators(dtv_graph *graph) {
    for (const HeldOperator &op : graph->operators) {
        Made made;
        if (op.kind == "binary") {
            made = graph->graph->CreateOperation<ops::NBG>(reinterpret_cast<const char *>(graph->binary.data()),
                                                           op.inputs.size(), op.outputs.size());
        } else {
            made = find_row(op.kind)->make(Call{*graph->graph, op});
        }
        if (!made) return fail(op.kind + ": these parameters have no form in TIM-VX");
        bind(graph, *made, op);
    }
    return 0;
}

template <typename Work>
int guarded(const char *what, Work work) {
    try {
        return work();
    } catch (const std::exception &error) {
        return fail(std::string(what) + ": " + error.what());
    }
}

}  // namespace

extern "C" {

int dtv_abi(void) { return DTV_ABI; }

const char *dtv_version(void) { return "TIM-VX"; }

const char *dtv_last_error(void) { return last_error.c_str(); }

int dtv_has_operator(const char *kind) { return find_row(kind) != nullptr; }

dtv_graph *dtv_create(void) {
    auto made = std::unique_ptr<dtv_graph>(new (std::nothrow) dtv_graph);
    if (!made) return nullptr;
    const int status = guarded("no graph", [&]() {
        made->context = vx::Context::Create();
        if (!made->context) return fail("no context: the driver or simulator did not start");
        made->graph = made->context->CreateGraph();
        return made->graph ? 0 : fail("no graph: the driver refused to create one");
    });
    return status == 0 ? made.release() : nullptr;
}

void dtv_destroy(dtv_graph *graph) { delete graph; }

int dtv_add_tensor(dtv_graph *graph, const dtv_tensor *tensor) {
    vx::DataType type = vx::DataType::UNKNOWN;
    vx::Quantization quantisation;
    uint32_t element = 0;
    if (!dtype_of(tensor->dtype, &type, &element)) return fail("tensor: TIM-VX has no such element type");
    if (tensor->rank < 1 || tensor->rank > 6) return fail("tensor: 1 to 6 dimensions are possible");
    if (!quantisation_of(*tensor, &quantisation)) return fail("tensor: TIM-VX has no such kind of quantisation");
    uint64_t bytes = element;
    for (int32_t axis = 0; axis < tensor->rank; ++axis) bytes *= tensor->shape[axis];
    const bool constant = tensor->role == DTV_CONSTANT;
    if (constant && (tensor->data == nullptr || tensor->data_bytes != bytes))
        return fail("tensor: a constant of " + std::to_string(bytes) + " bytes was given " +
                    std::to_string(tensor->data_bytes));
    const auto *data = static_cast<const uint8_t *>(tensor->data);
    vx::TensorSpec spec(type, vx::ShapeType(tensor->shape, tensor->shape + tensor->rank), vx::TensorAttribute::TRANSIENT,
                        quantisation);
    graph->tensors.push_back({spec, tensor->role, bytes, {}, nullptr});
    if (constant) graph->tensors.back().data.assign(data, data + bytes);
    return static_cast<int>(graph->tensors.size()) - 1;
}

int dtv_add_operator(dtv_graph *graph, const dtv_operator *op) {
    const Row *row = find_row(op->kind);
    if (row == nullptr) return fail(std::string(op->kind) + ": TIM-VX has no such operator");
    const auto ints = static_cast<size_t>(op->int_count);
    const bool fits = row->open ? ints >= row->ints : ints == row->ints;
    if (!fits || static_cast<size_t>(op->float_count) != row->floats)
        return fail(std::string(op->kind) + ": damaged parameters");
    return hold(graph, op);
}

int dtv_add_binary(dtv_graph *graph, const void *binary, uint64_t size_bytes, const dtv_operator *op) {
    const auto *bytes = static_cast<const uint8_t *>(binary);
    graph->binary.assign(bytes, bytes + size_bytes);
    return hold(graph, op);
}

int dtv_set_edges(dtv_graph *graph, const int32_t *inputs, int32_t input_count, const int32_t *outputs,
                  int32_t output_count) {
    graph->inputs.assign(inputs, inputs + input_count);
    graph->outputs.assign(outputs, outputs + output_count);
    for (int32_t id : graph->inputs)
        if (!known_tensor(graph, id)) return fail("edges: unknown input tensor");
    for (int32_t id : graph->outputs)
        if (!known_tensor(graph, id)) return fail("edges: unknown output tensor");
    return 0;
}

int dtv_setup(dtv_graph *graph) {
    if (graph->operators.empty()) return fail("the graph has no operator");
    return guarded("building", [&]() { return make_tensors(graph) != 0 ? -1 : make_operators(graph); });
}

int dtv_compile(dtv_graph *graph) {
    return guarded("compiling", [&]() { return graph->graph->Compile() ? 0 : fail("compiling the graph failed"); });
}

int dtv_write_binary(dtv_graph *graph, void *buffer, uint64_t *size_bytes) {
    return guarded("writing the binary network", [&]() {
        size_t size = *size_bytes;
        if (!graph->graph->CompileToBinary(buffer, &size)) return fail("writing the binary network failed");
        *size_bytes = size;
        return 0;
    });
}

int dtv_write(dtv_graph *graph, int32_t tensor, const void *data, uint64_t size_bytes) {
    if (!known_tensor(graph, tensor)) return fail("write: unknown tensor");
    HeldTensor &held = graph->tensors[size_t(tensor)];
    if (size_bytes != held.bytes) return fail("write: wrong number of bytes");
    return held.made->CopyDataToTensor(data, uint32_t(size_bytes)) ? 0 : fail("writing an input failed");
}

int dtv_run(dtv_graph *graph) {
    return guarded("running", [&]() { return graph->graph->Run() ? 0 : fail("running the graph failed"); });
}

int dtv_read(dtv_graph *graph, int32_t tensor, void *data, uint64_t size_bytes) {
    if (!known_tensor(graph, tensor)) return fail("read: unknown tensor");
    HeldTensor &held = graph->tensors[size_t(tensor)];
    if (size_bytes != held.bytes) return fail("read: wrong number of bytes");
    return held.made->CopyDataFromTensor(data) ? 0 : fail("read: the driver gave no data");
}

}  // extern "C"
