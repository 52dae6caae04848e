#include "builder.h"

#include <cstring>
#include <stdexcept>
#include <string>

Quantised plain() { return {}; }

Quantised affine(float scale, int32_t zero_point) {
    return {VSI_NN_QNT_TYPE_AFFINE_ASYMMETRIC, scale, zero_point, 0, {}, {}, 0};
}

Quantised fixed_point(int fl) { return {VSI_NN_QNT_TYPE_DFP, 0.0f, 0, int8_t(fl), {}, {}, 0}; }

Quantised per_channel(int axis, std::vector<float> scales) {
    std::vector<int32_t> zeros(scales.size(), 0);
    return {VSI_NN_QNT_TYPE_AFFINE_PERCHANNEL_SYMMETRIC, 0.0f, 0, 0, std::move(scales), std::move(zeros), axis};
}

Quantised per_channel(int axis, std::vector<float> scales, std::vector<int32_t> zero_points) {
    return {VSI_NN_QNT_TYPE_AFFINE_PERCHANNEL_ASYMMETRIC, 0.0f, 0, 0, std::move(scales), std::move(zero_points), axis};
}

Id Builder::add(vsi_nn_type_e type, const std::vector<uint32_t> &sizes, Quantised how, const uint8_t *data,
                bool inner) {
    vsi_nn_tensor_attr_t attr;
    std::memset(&attr, 0, sizeof attr);
    for (size_t axis = 0; axis < sizes.size(); ++axis) attr.size[axis] = sizes[axis];
    attr.dim_num = uint32_t(sizes.size());
    attr.vtl = inner ? TRUE : FALSE;
    attr.is_const = data != nullptr ? TRUE : FALSE;
    attr.dtype.fmt = VSI_NN_DIM_FMT_NCHW;
    attr.dtype.vx_type = type;
    attr.dtype.qnt_type = how.kind;
    if (how.kind == VSI_NN_QNT_TYPE_DFP) {
        attr.dtype.fl = how.fl;
    } else if (!how.scales.empty()) {
        kept_.push_back(std::move(how));
        Quantised &held = kept_.back();
        attr.dtype.scales = held.scales.data();
        attr.dtype.scale_dim = int32_t(held.scales.size());
        attr.dtype.zero_points = held.zero_points.data();
        attr.dtype.zero_points_dim = int32_t(held.zero_points.size());
        attr.dtype.channel_dim = held.axis;
    } else {
        attr.dtype.scale = how.scale;
        attr.dtype.zero_point = how.zero_point;
    }
    if (vsi_nn_AddTensor(graph_, next_, &attr, const_cast<uint8_t *>(data)) != next_)
        throw std::runtime_error("the driver refuses tensor " + std::to_string(next_));
    return next_++;
}

Id Builder::inner(vsi_nn_type_e type, std::vector<uint32_t> sizes, Quantised how) {
    return add(type, sizes, std::move(how), nullptr, true);
}

Id Builder::edge(vsi_nn_type_e type, std::vector<uint32_t> sizes, Quantised how) {
    return add(type, sizes, std::move(how), nullptr, false);
}

Id Builder::constant(vsi_nn_type_e type, std::vector<uint32_t> sizes, Quantised how, size_t offset, size_t size) {
    if (offset + size > weights_->size()) throw std::runtime_error("the weights are cut short");
    return add(type, sizes, std::move(how), weights_->data() + offset, false);
}

vsi_nn_node_t *Builder::node(vsi_nn_op_t kind, std::initializer_list<Id> inputs, std::initializer_list<Id> outputs) {
    vsi_nn_node_t *made = vsi_nn_AddNode(graph_, kind, uint32_t(inputs.size()), uint32_t(outputs.size()), nullptr);
    if (made == nullptr) throw std::runtime_error("the driver refuses operator " + std::to_string(int(kind)));
    size_t index = 0;
    for (Id tensor : inputs) made->input.tensors[index++] = tensor;
    index = 0;
    for (Id tensor : outputs) made->output.tensors[index++] = tensor;
    return made;
}

void Builder::set_edges(std::initializer_list<Id> given, std::initializer_list<Id> made) {
    inputs = given;
    outputs = made;
    if (!vsi_nn_SetGraphInputs(graph_, inputs.data(), uint32_t(inputs.size())) ||
        !vsi_nn_SetGraphOutputs(graph_, outputs.data(), uint32_t(outputs.size())))
        throw std::runtime_error("the driver refuses the inputs and outputs");
}

void saturate(vsi_nn_node_t *node, vsi_enum sizes) {
    node->vx_param.overflow_policy = VX_CONVERT_POLICY_SATURATE;
    node->vx_param.rounding_policy = VX_ROUND_POLICY_TO_NEAREST_EVEN;
    node->vx_param.down_scale_size_rounding = sizes;
}

namespace {

void check(vsi_status status, const char *what) {
    if (status != VSI_SUCCESS) throw std::runtime_error(std::string(what) + " fails with status " + std::to_string(status));
}

class OvxNetwork final : public Network {
   public:
    OvxNetwork(const std::vector<uint8_t> &weights, const std::vector<uint8_t> *binary)
        : context_(vsi_nn_CreateContext()), weights_(weights), builder_(nullptr, weights_) {
        if (context_ == nullptr) throw std::runtime_error("the driver or simulator does not start");
        graph_ = vsi_nn_CreateGraph(context_, 0, 0);
        if (graph_ == nullptr) throw std::runtime_error("the driver refuses a graph");
        vsi_nn_SetGraphVersion(graph_, vsi_nn_GetVersionMajor(), vsi_nn_GetVersionMinor(), vsi_nn_GetVersionPatch());
        builder_ = Builder(graph_, weights_);
        if (binary == nullptr)
            add_network(builder_);
        else
            add_binary(*binary);
        check(vsi_nn_SetupGraph(graph_, TRUE), "setting the graph up");
    }

    void compile() override { check(vsi_nn_VerifyGraph(graph_), "compiling"); }

    std::vector<uint8_t> binary() override {
        size_t size = 0;
        check(vsi_nn_GenerateNBG(graph_, nullptr, &size), "writing the binary network");
        std::vector<uint8_t> made(size);
        check(vsi_nn_GenerateNBG(graph_, made.data(), &size), "writing the binary network");
        made.resize(size);
        return made;
    }

    void write(size_t input, const uint8_t *data) override {
        check(vsi_nn_CopyDataToTensor(graph_, tensor(builder_.inputs.at(input)), const_cast<uint8_t *>(data)),
              "writing an input");
    }

    void run() override { check(vsi_nn_RunGraph(graph_), "running"); }

    void read(size_t output, uint8_t *data) override {
        if (vsi_nn_CopyTensorToBuffer(graph_, tensor(builder_.outputs.at(output)), data) == 0)
            throw std::runtime_error("an output cannot be read");
    }

   private:
    vsi_nn_tensor_t *tensor(Id id) { return vsi_nn_GetTensor(graph_, id); }

    void add_binary(const std::vector<uint8_t> &binary) {
        binary_ = binary;
        add_edges(builder_);
        vsi_nn_node_t *node = vsi_nn_AddNode(graph_, VSI_NN_OP_NBG, uint32_t(builder_.inputs.size()),
                                             uint32_t(builder_.outputs.size()), nullptr);
        if (node == nullptr) throw std::runtime_error("the driver refuses the binary network");
        node->nn_param.nbg.type = VSI_NN_NBG_POINTER;
        node->nn_param.nbg.url = reinterpret_cast<const char *>(binary_.data());
        for (size_t index = 0; index < builder_.inputs.size(); ++index)
            node->input.tensors[index] = builder_.inputs[index];
        for (size_t index = 0; index < builder_.outputs.size(); ++index)
            node->output.tensors[index] = builder_.outputs[index];
    }

    vsi_nn_context_t context_;
    vsi_nn_graph_t *graph_ = nullptr;
    std::vector<uint8_t> weights_, binary_;
    Builder builder_;
};

}  // namespace

std::unique_ptr<Network> build_network(const std::vector<uint8_t> &weights) {
    return std::make_unique<OvxNetwork>(weights, nullptr);
}

std::unique_ptr<Network> load_network(const std::vector<uint8_t> &binary) {
    return std::make_unique<OvxNetwork>(std::vector<uint8_t>(), &binary);
}
