#include "builder.h"

#include <stdexcept>

#include "tim/vx/ops/nbg.h"

vx::Quantization plain() { return {}; }

vx::Quantization affine(float scale, int32_t zero_point) {
    return vx::Quantization(vx::QuantType::ASYMMETRIC, scale, zero_point);
}

vx::Quantization fixed_point(int fl) { return vx::Quantization(vx::QuantType::DYNAMIC_FIXED_POINT, int8_t(fl)); }

vx::Quantization per_channel(int axis, std::vector<float> scales) {
    std::vector<int32_t> zeros(scales.size(), 0);
    return vx::Quantization(vx::QuantType::SYMMETRIC_PER_CHANNEL, axis, std::move(scales), std::move(zeros));
}

Tensor Builder::add(vx::DataType type, const Words &sizes, const vx::Quantization &how, vx::TensorAttribute attribute,
                    const void *data) {
    Tensor made = graph->CreateTensor(vx::TensorSpec(type, sizes, attribute, how), data);
    if (!made) throw std::runtime_error("the driver refuses a tensor");
    return made;
}

Tensor Builder::input(vx::DataType type, Words sizes, vx::Quantization how) {
    inputs.push_back(add(type, sizes, how, vx::TensorAttribute::INPUT));
    return inputs.back();
}

Tensor Builder::output(vx::DataType type, Words sizes, vx::Quantization how) {
    outputs.push_back(add(type, sizes, how, vx::TensorAttribute::OUTPUT));
    return outputs.back();
}

Tensor Builder::inner(vx::DataType type, Words sizes, vx::Quantization how) {
    return add(type, sizes, how, vx::TensorAttribute::TRANSIENT);
}

Tensor Builder::kept(vx::DataType type, Words sizes, vx::Quantization how) {
    return add(type, sizes, how, vx::TensorAttribute::VARIABLE);
}

Tensor Builder::constant(vx::DataType type, Words sizes, vx::Quantization how, size_t offset, size_t size) {
    if (offset + size > weights_->size()) throw std::runtime_error("the weights are cut short");
    return add(type, sizes, how, vx::TensorAttribute::CONSTANT, weights_->data() + offset);
}

void Builder::bind(std::shared_ptr<vx::Operation> made, const std::vector<Tensor> &given,
                   const std::vector<Tensor> &results) {
    made->BindInputs(given).BindOutputs(results);
}

namespace {

void check(bool good, const char *what) {
    if (!good) throw std::runtime_error(std::string(what) + " fails");
}

class TimNetwork final : public Network {
   public:
    TimNetwork(const std::vector<uint8_t> &weights, const std::vector<uint8_t> *binary)
        : context_(vx::Context::Create()), weights_(weights) {
        if (!context_) throw std::runtime_error("the driver or simulator does not start");
        builder_ = std::make_unique<Builder>(context_->CreateGraph(), weights_);
        if (!builder_->graph) throw std::runtime_error("the driver refuses a graph");
        if (binary == nullptr) {
            add_network(*builder_);
            return;
        }
        binary_ = *binary;
        add_edges(*builder_);
        const auto node = builder_->graph->CreateOperation<ops::NBG>(
            reinterpret_cast<const char *>(binary_.data()), builder_->inputs.size(), builder_->outputs.size());
        builder_->bind(node, builder_->inputs, builder_->outputs);
    }

    void compile() override { check(builder_->graph->Compile(), "compiling"); }

    std::vector<uint8_t> binary() override {
        size_t size = 0;
        check(builder_->graph->CompileToBinary(nullptr, &size), "writing the binary network");
        std::vector<uint8_t> made(size);
        check(builder_->graph->CompileToBinary(made.data(), &size), "writing the binary network");
        made.resize(size);
        return made;
    }

    void write(size_t input, const uint8_t *data) override {
        const size_t size = network_inputs().at(input).bytes();
        check(builder_->inputs.at(input)->CopyDataToTensor(data, uint32_t(size)), "writing an input");
    }

    void run() override { check(builder_->graph->Run(), "running"); }

    void read(size_t output, uint8_t *data) override {
        check(builder_->outputs.at(output)->CopyDataFromTensor(data), "reading an output");
    }

   private:
    std::shared_ptr<vx::Context> context_;
    std::vector<uint8_t> weights_, binary_;
    std::unique_ptr<Builder> builder_;
};

}  // namespace

std::unique_ptr<Network> build_network(const std::vector<uint8_t> &weights) {
    return std::make_unique<TimNetwork>(weights, nullptr);
}

std::unique_ptr<Network> load_network(const std::vector<uint8_t> &binary) {
    return std::make_unique<TimNetwork>(std::vector<uint8_t>(), &binary);
}
