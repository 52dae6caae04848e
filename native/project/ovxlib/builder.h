// Add tensors and nodes to an ovxlib graph; a refusal is a std::runtime_error.

#ifndef BUILDER_H
#define BUILDER_H

#include <deque>
#include <initializer_list>
#include <vector>

#include "../network.h"

extern "C" {
#include "vsi_nn_pub.h"
}

using Id = vsi_nn_tensor_id_t;

// How a tensor is quantised. Per channel: `axis` counts from the fastest dimension.
struct Quantised {
    vsi_nn_qnt_type_e kind = VSI_NN_QNT_TYPE_NONE;
    float scale = 0.0f;
    int32_t zero_point = 0;
    int8_t fl = 0;
    std::vector<float> scales = {};
    std::vector<int32_t> zero_points = {};
    int32_t axis = 0;
};

Quantised plain();
Quantised affine(float scale, int32_t zero_point);
Quantised fixed_point(int fl);  // real = stored * 2^-fl
Quantised per_channel(int axis, std::vector<float> scales);
Quantised per_channel(int axis, std::vector<float> scales, std::vector<int32_t> zero_points);

class Builder {
   public:
    Builder(vsi_nn_graph_t *graph, const std::vector<uint8_t> &weights) : graph_(graph), weights_(&weights) {}

    // Sizes are given fastest dimension first (W, H, C, N).
    Id inner(vsi_nn_type_e type, std::vector<uint32_t> sizes, Quantised how);
    Id edge(vsi_nn_type_e type, std::vector<uint32_t> sizes, Quantised how);  // kept in memory
    Id constant(vsi_nn_type_e type, std::vector<uint32_t> sizes, Quantised how, size_t offset, size_t size);
    vsi_nn_node_t *node(vsi_nn_op_t kind, std::initializer_list<Id> inputs, std::initializer_list<Id> outputs);
    void set_edges(std::initializer_list<Id> inputs, std::initializer_list<Id> outputs);

    std::vector<Id> inputs, outputs;

   private:
    Id add(vsi_nn_type_e type, const std::vector<uint32_t> &sizes, Quantised how, const uint8_t *data, bool inner);

    vsi_nn_graph_t *graph_;
    const std::vector<uint8_t> *weights_;
    std::deque<Quantised> kept_;  // ovxlib keeps pointers to scales
    Id next_ = 0;
};

// Tell the graph library to saturate, and to round to nearest with ties to even.
void saturate(vsi_nn_node_t *node, vsi_enum sizes = VX_CONVOLUTIONAL_NETWORK_DS_SIZE_ROUNDING_FLOOR);

// Defined in network.cpp.
void add_network(Builder &net);
void add_edges(Builder &net);  // the inputs and outputs alone, for a network in binary form

#endif
