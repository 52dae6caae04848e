// Programs for VeriSilicon's graph library, as bundles hold them: the bytes of a partition's blob, checked.

#ifndef DOVETAIL_RUN_PROGRAM_H
#define DOVETAIL_RUN_PROGRAM_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bundle.h"

struct ProgramTensor {
    int32_t dtype = 0, role = 0, quant = 0, zero_point = 0, fl = 0, axis = 0;
    float scale = 0;
    double stated_scale = 0;
    std::vector<uint32_t> shape;  // fastest dimension first
    std::vector<float> scales;
    std::vector<int32_t> zero_points;
    const uint8_t *data = nullptr;  // into the blob
    uint64_t data_bytes = 0;

    uint64_t size_bytes() const;
    Shape slow_shape() const;  // slowest dimension first, as everybody else counts
};

struct ProgramOperator {
    std::string kind;
    std::vector<int32_t> inputs, outputs, ints;
    std::vector<float> floats;
};

using Edges = std::vector<std::pair<std::string, int32_t>>;

struct Program {
    std::string target, sdk_name;
    uint32_t pid = 0;
    bool batched = false;
    std::vector<ProgramTensor> tensors;
    std::vector<ProgramOperator> operators;
    Edges inputs, outputs;
    const uint8_t *binary = nullptr;  // into the blob
    uint64_t binary_bytes = 0;
};

// Read the blob of a partition, which has to outlive the program; throw Error for damage, for a binary network of
// another part, and for edges that are not the partition's.
Program read_program(const Partition &part);

#endif
