#include "program.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>

#include <nlohmann/json.hpp>
#include <zlib.h>

#include "dovetail_vsi.h"
#include "error.h"

namespace {

using nlohmann::json;

constexpr size_t SEAL_BYTES = 32, MAX_TEXT = 512u << 20;
constexpr int64_t MOST_ELEMENTS = int64_t(1) << 31;
const std::string OPENING = "dovetail vsi 2 ";

struct View {
    const uint8_t *data;
    size_t size;
};

uint32_t word_at(const View &view, size_t at) {
    if (view.size < 4 || at > view.size - 4) throw Error("it is cut short.", COMPILE_AGAIN);
    uint32_t value;
    std::memcpy(&value, view.data + at, sizeof value);
    return value;
}

uint64_t long_at(const View &view, size_t at) { return word_at(view, at) | uint64_t(word_at(view, at + 4)) << 32; }

std::string hex(uint32_t value) {
    char text[16];
    std::snprintf(text, sizeof text, "%#x", value);
    return text;
}

// How many items a section of a binary network has.
size_t items_of(const View &file, uint32_t wanted) {
    const size_t directory = word_at(file, 24);
    const size_t table = word_at(file, directory), entry = word_at(file, directory + 4),
                 count = word_at(file, directory + 8);
    if (count > 256 || entry < 44) throw Error("it claims impossible sections.", COMPILE_AGAIN);
    size_t items = 0;
    for (size_t index = 0; index < count; ++index) {
        const size_t at = table + index * entry;
        const uint64_t start = long_at(file, at + 4), size = long_at(file, at + 12);
        const uint32_t item = word_at(file, at + 32);
        if (start > file.size || size > file.size - start)
            throw Error("a section lies outside the file.", COMPILE_AGAIN);
        if (word_at(file, at) == wanted) items = item ? size_t(size / item) : 0;
    }
    return items;
}

// Check a binary network against its own header: the vendor's library notices hardly any damage.
void check_binary(const View &file, const Program &program) {
    constexpr uint32_t CHECKED_VERSION = 0x00020005;
    if (file.size < 32 || std::memcmp(file.data, "VPMN", 4) != 0)
        throw Error("it is no binary network.", COMPILE_AGAIN);
    const uint32_t pid = word_at(file, 8);
    if (pid != program.pid)
        throw Error("it is for the part with PID " + hex(pid) + ", not for " + hex(program.pid) + ".", COMPILE_AGAIN);
    if (word_at(file, 4) != CHECKED_VERSION) return;
    if (long_at(file, 16) != file.size) throw Error("it is cut short, or too long.", COMPILE_AGAIN);
    const uint8_t blank[4] = {};
    uLong sum = crc32_z(0, file.data, 12);
    sum = crc32_z(sum, blank, sizeof blank);
    sum = crc32_z(sum, file.data + 16, file.size - 16);
    if (uint32_t(sum) != word_at(file, 12)) throw Error("its checksum differs.", COMPILE_AGAIN);
    if (items_of(file, 1) != program.inputs.size() || items_of(file, 2) != program.outputs.size())
        throw Error("it has other inputs or outputs.", COMPILE_AGAIN);
}

int32_t small(const json &value) {
    const auto found = value.get<int64_t>();
    if (found < INT32_MIN || found > INT32_MAX) throw Error("a number is too large.", COMPILE_AGAIN);
    return int32_t(found);
}

std::vector<int32_t> numbers(const json &values, int64_t least = INT32_MIN, int64_t end = int64_t(INT32_MAX) + 1) {
    std::vector<int32_t> found;
    for (const json &value : values) {
        found.push_back(small(value));
        if (found.back() < least || found.back() >= end)
            throw Error("it names a tensor that is not there.", COMPILE_AGAIN);
    }
    return found;
}

std::vector<float> reals(const json &values) {
    std::vector<float> found;
    for (const json &value : values) found.push_back(float(value.get<double>()));
    return found;
}

View piece(const json &where, const View &raw) {
    const auto at = where.at(0).get<uint64_t>(), size = where.at(1).get<uint64_t>();
    if (where.at(0) < 0 || where.at(1) < 0 || at > raw.size || size > raw.size - at)
        throw Error("a constant lies outside the blob.", COMPILE_AGAIN);
    return {raw.data + at, size_t(size)};
}

ProgramTensor read_tensor(const json &entry, const View &raw) {
    ProgramTensor tensor;
    tensor.dtype = small(entry.at("dtype"));
    tensor.role = small(entry.at("role"));
    tensor.quant = small(entry.at("quant"));
    tensor.zero_point = small(entry.value("zero_point", json(0)));
    tensor.fl = small(entry.value("fl", json(0)));
    tensor.axis = small(entry.value("axis", json(0)));
    tensor.stated_scale = entry.value("scale", 0.0);
    tensor.scale = float(tensor.stated_scale);
    tensor.scales = reals(entry.value("scales", json::array()));
    tensor.zero_points = numbers(entry.value("zero_points", json::array()));
    // A shim may read as many of one as there are of the other.
    if (!tensor.zero_points.empty() && tensor.zero_points.size() != tensor.scales.size())
        throw Error("scales and zero points do not fit each other.", COMPILE_AGAIN);
    int64_t elements = 1;
    for (const json &item : entry.at("shape")) {
        const auto size = item.get<int64_t>();
        if (size < 1 || size >= MOST_ELEMENTS || elements >= MOST_ELEMENTS / size)
            throw Error("a tensor is too large, or empty.", COMPILE_AGAIN);
        elements *= size;
        tensor.shape.push_back(uint32_t(size));
    }
    const bool channels = tensor.quant == DTV_QUANT_CHANNEL_SYMMETRIC || tensor.quant == DTV_QUANT_CHANNEL_AFFINE;
    if (tensor.shape.empty() || tensor.shape.size() > 8 || tensor.dtype < DTV_F32 || tensor.dtype > DTV_BOOL ||
        tensor.quant < DTV_QUANT_NONE || tensor.quant > DTV_QUANT_CHANNEL_AFFINE || tensor.role < DTV_INNER ||
        tensor.role > DTV_CONSTANT || (channels && tensor.scales.empty()) ||
        (tensor.quant == DTV_QUANT_CHANNEL_AFFINE && tensor.zero_points.empty()))
        throw Error("a tensor is of no known form.", COMPILE_AGAIN);
    if (entry.contains("data")) {
        const View data = piece(entry.at("data"), raw);
        tensor.data = data.data;
        tensor.data_bytes = data.size;
    }
    const bool constant = tensor.role == DTV_CONSTANT;
    if (constant != entry.contains("data") || (constant && tensor.data_bytes != tensor.size_bytes()))
        throw Error("a constant has the wrong size.", COMPILE_AGAIN);
    return tensor;
}

Edges read_edges(const json &names, const json &ids, size_t count) {
    const std::vector<int32_t> found = numbers(ids, 0, int64_t(count));
    if (names.size() != found.size()) throw Error("names and tensors do not fit each other.", COMPILE_AGAIN);
    Edges edges;
    for (size_t index = 0; index < found.size(); ++index)
        edges.emplace_back(names[index].get<std::string>(), found[index]);
    return edges;
}

Program from_text(const json &facts, const View &raw) {
    Program program;
    program.target = facts.at("target").get<std::string>();
    program.sdk_name = facts.at("sdk_name").get<std::string>();
    program.pid = facts.at("pid").get<uint32_t>();
    program.batched = facts.at("batched").get<bool>();
    for (const json &entry : facts.at("tensors")) program.tensors.push_back(read_tensor(entry, raw));
    const auto count = int64_t(program.tensors.size());
    for (const json &entry : facts.at("operators"))
        program.operators.push_back({entry.at("kind").get<std::string>(), numbers(entry.at("inputs"), -1, count),
                                     numbers(entry.at("outputs"), 0, count), numbers(entry.at("ints")),
                                     reals(entry.at("floats"))});
    program.inputs = read_edges(facts.at("names").at(0), facts.at("inputs"), program.tensors.size());
    program.outputs = read_edges(facts.at("names").at(1), facts.at("outputs"), program.tensors.size());
    if (facts.contains("binary")) {
        const View binary = piece(facts.at("binary").at("data"), raw);
        program.binary = binary.data;
        program.binary_bytes = binary.size;
        check_binary(binary, program);
    }
    return program;
}

bool same_quantization(const ProgramTensor &tensor, const std::optional<Quantization> &quant) {
    if (tensor.quant == DTV_QUANT_NONE || !quant) return tensor.quant == DTV_QUANT_NONE && !quant;
    if (quant->axis || quant->scale.size() != 1) return false;
    const bool fixed = tensor.quant == DTV_QUANT_FIXED_POINT;
    return (fixed || tensor.quant == DTV_QUANT_AFFINE) &&
           quant->scale[0] == (fixed ? std::ldexp(1.0, -tensor.fl) : tensor.stated_scale) &&
           quant->zero_point[0] == (fixed ? 0 : tensor.zero_point);
}

void check_edges(const Program &program, const Edges &edges, const Types &types) {
    std::set<std::string> names;
    for (const auto &[name, id] : edges) {
        const TensorType *kind = find_type(types, name);
        if (kind == nullptr || !names.insert(name).second)
            throw Error("it has other inputs or outputs than the bundle says.", COMPILE_AGAIN);
        const ProgramTensor &tensor = program.tensors[size_t(id)];
        if (!same_quantization(tensor, kind->quant))
            throw Error("'" + plain(name, 80) + "' was compiled with another scale.", COMPILE_AGAIN);
        Shape sizes;
        for (const Dim &dim : kind->shape.value_or(std::vector<Dim>()))
            sizes.push_back(dim.size ? *dim.size : sizes.empty() && !dim.symbol.empty() ? 1 : -1);
        if (sizes.empty()) sizes.push_back(1);
        if (sizes != tensor.slow_shape())
            throw Error("'" + plain(name, 80) + "' was compiled with shape " + print_shape(tensor.slow_shape()) + ".",
                        COMPILE_AGAIN);
    }
    if (names.size() != types.size())
        throw Error("it has other inputs or outputs than the bundle says.", COMPILE_AGAIN);
}

Program read_blob(const Partition &part) {
    View view{part.blob.data(), part.blob.size()};
    const bool sealed = part.format == "nbg";
    if (sealed) {
        if (view.size <= SEAL_BYTES) throw Error("it is cut short.", COMPILE_AGAIN);
        std::string seal;
        for (size_t index = 0; index < SEAL_BYTES; ++index) {
            char pair[3];
            std::snprintf(pair, sizeof pair, "%02x", view.data[index]);
            seal += pair;
        }
        view = {view.data + SEAL_BYTES, view.size - SEAL_BYTES};
        if (sha256_of(view.data, view.size) != seal) throw Error("its digest is not that of its bytes.", COMPILE_AGAIN);
    }
    const auto *text = reinterpret_cast<const char *>(view.data);
    const auto *end = static_cast<const char *>(std::memchr(text, '\n', std::min<size_t>(view.size, 32)));
    if (end == nullptr || size_t(end - text) <= OPENING.size() || std::string(text, OPENING.size()) != OPENING)
        throw Error("it was not made by this backend.", COMPILE_AGAIN);
    const std::string digits(text + OPENING.size(), end);
    if (digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos)
        throw Error("it was not made by this backend.", COMPILE_AGAIN);
    const size_t start = size_t(end - text) + 1, size = size_t(std::stoul(digits));
    if (size > MAX_TEXT || size > view.size - start) throw Error("it is cut short.", COMPILE_AGAIN);
    const json facts = json::parse(text + start, text + start + size);
    Program program = from_text(facts, {view.data + start + size, view.size - start - size});
    if ((program.binary != nullptr) != sealed)
        throw Error("it is not what its format '" + part.format + "' says.", COMPILE_AGAIN);
    check_edges(program, program.inputs, part.inputs);
    check_edges(program, program.outputs, part.outputs);
    return program;
}

}  // namespace

uint64_t ProgramTensor::size_bytes() const {
    static const uint64_t SIZES[] = {0, 4, 2, 2, 1, 1, 2, 2, 4, 4, 8, 1};
    uint64_t bytes = SIZES[dtype];
    for (const uint32_t size : shape) bytes *= size;
    return bytes;
}

Shape ProgramTensor::slow_shape() const { return Shape(shape.rbegin(), shape.rend()); }

Program read_program(const Partition &part) {
    try {
        return read_blob(part);
    } catch (const json::exception &error) {
        throw Error(part.where() + ": the blob is damaged: " + plain(error.what(), 80) + ".", COMPILE_AGAIN);
    } catch (const Error &error) {
        throw Error(part.where() + ": the blob does not load: " + error.what());
    }
}
