// Types of tensors, as bundles write them, and tensors in memory.

#ifndef DOVETAIL_RUN_TENSOR_H
#define DOVETAIL_RUN_TENSOR_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

enum class DType { F64, F32, F16, BF16, I8, U8, I16, U16, I32, U32, I64, U64, BOOL };

// How an element type is called in bundles, in .npy files, and how many bytes an element has in memory. The elements of
// bf16 are float32 in memory.
struct DTypeFacts {
    DType dtype;
    const char *name;
    const char *npy;
    size_t bytes;
    char kind;  // f, i, u or b
};

const DTypeFacts &facts_of(DType dtype);
const DTypeFacts *find_dtype(const std::string &name);
const DTypeFacts *find_npy_dtype(const std::string &descr);

// A size: known, the name of one, or neither.
struct Dim {
    std::optional<int64_t> size;
    std::string symbol;

    bool operator==(const Dim &other) const { return size == other.size && symbol == other.symbol; }
};

struct Quantization {
    std::vector<double> scale;
    std::vector<int64_t> zero_point;
    std::optional<int> axis;

    bool operator==(const Quantization &other) const {
        return scale == other.scale && zero_point == other.zero_point && axis == other.axis;
    }
};

struct TensorType {
    DType dtype = DType::F32;
    std::optional<std::vector<Dim>> shape;  // none: even the rank is unknown
    std::optional<Quantization> quant;

    bool operator==(const TensorType &other) const {
        return dtype == other.dtype && shape == other.shape && quant == other.quant;
    }
};

using Shape = std::vector<int64_t>;

// Elements in C order, in the machine's byte order (little-endian: others are refused when this is compiled).
struct Tensor {
    DType dtype = DType::F32;
    Shape shape;
    std::vector<uint8_t> data;
};

// Read a type such as `i8["N", 3] q(scale=[0.5], zero=[3])`; throw Error.
TensorType parse_type(const std::string &text);

// Write a shape as `[1, ?, 224]`.
std::string print_shape(const Shape &shape);
std::string print_shape(const std::vector<Dim> &shape);

// Return the bytes of a shape; throw Error naming `where` above `most`.
size_t bytes_of(const Shape &shape, size_t element, size_t most, const std::string &where);

// Tell whether a shape is one of a type; sizes with the same name have to be equal.
bool fits(const std::vector<Dim> &expected, const Shape &shape);

#endif
