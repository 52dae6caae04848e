// Add tensors and operations to a TIM-VX graph; a refusal is a std::runtime_error.

#ifndef BUILDER_H
#define BUILDER_H

#include <array>
#include <memory>
#include <vector>

#include "../network.h"
#include "tim/vx/context.h"
#include "tim/vx/graph.h"
#include "tim/vx/operation.h"
#include "tim/vx/ops.h"
#include "tim/vx/ops/topk.h"
#include "tim/vx/tensor.h"
#include "tim/vx/types.h"

namespace vx = tim::vx;
namespace ops = tim::vx::ops;

using Tensor = std::shared_ptr<vx::Tensor>;
using Pair = std::array<uint32_t, 2>;
using Four = std::array<uint32_t, 4>;
using Words = std::vector<uint32_t>;
using Axes = std::vector<int32_t>;

vx::Quantization plain();
vx::Quantization affine(float scale, int32_t zero_point);
vx::Quantization fixed_point(int fl);  // real = stored * 2^-fl
vx::Quantization per_channel(int axis, std::vector<float> scales);  // the axis counts from the fastest dimension

class Builder {
   public:
    Builder(std::shared_ptr<vx::Graph> graph, const std::vector<uint8_t> &weights)
        : graph(std::move(graph)), weights_(&weights) {}

    // Sizes are given fastest dimension first (W, H, C, N). Inputs and outputs count in the order of these calls.
    Tensor input(vx::DataType type, Words sizes, vx::Quantization how);
    Tensor output(vx::DataType type, Words sizes, vx::Quantization how);
    Tensor inner(vx::DataType type, Words sizes, vx::Quantization how);
    Tensor kept(vx::DataType type, Words sizes, vx::Quantization how);  // an inner one that stays in memory
    Tensor constant(vx::DataType type, Words sizes, vx::Quantization how, size_t offset, size_t size);
    void bind(std::shared_ptr<vx::Operation> made, const std::vector<Tensor> &inputs,
              const std::vector<Tensor> &outputs);
    Tensor nothing() { return graph->CreateTensorPlaceHolder(); }

    std::shared_ptr<vx::Graph> graph;
    std::vector<Tensor> inputs, outputs;

   private:
    Tensor add(vx::DataType type, const Words &sizes, const vx::Quantization &how, vx::TensorAttribute attribute,
               const void *data = nullptr);

    const std::vector<uint8_t> *weights_;
};

// Defined in network.cpp.
void add_network(Builder &net);
void add_edges(Builder &net);  // the inputs and outputs alone, for a network in binary form

#endif
