// Read and write tensors: .npy files and raw bytes, reals and what the network stores for them.

#ifndef TENSOR_FILE_H
#define TENSOR_FILE_H

#include <string>
#include <vector>

#include "network.h"

struct Preprocessing {
    std::vector<float> mean;  // one for every channel (second dimension), or one for all; empty: 0
    float scale = 1.0f;       // real = (value - mean) * scale
    bool values_are_real = false;  // integers in .npy files are pixels or the like, not what the network stores

    bool changes() const { return values_are_real || !mean.empty() || scale != 1.0f; }
};

std::vector<uint8_t> read_file(const std::string &path);
void write_file(const std::string &path, const void *data, size_t size);

// Return what the network stores, for as many samples as the file holds.
std::vector<uint8_t> read_input(const std::string &path, const Edge &edge, const Preprocessing &how);

// Return the reals that stored bytes stand for.
std::vector<float> to_reals(const Edge &edge, const std::vector<uint8_t> &stored);

// Write <file>.npy with reals (or indices and truth values as they are), and <file>.stored.npy where they differ.
void write_output(const std::string &folder, const Edge &edge, const std::vector<uint8_t> &stored);

#endif
