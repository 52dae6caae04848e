#include "tensor_file.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>

size_t element_bytes(Element element) {
    switch (element) {
        case Element::F32: case Element::I32: case Element::U32: return 4;
        case Element::F16: case Element::BF16: case Element::I16: case Element::U16: return 2;
        default: return 1;
    }
}

size_t Edge::count() const {
    size_t found = 1;
    for (uint32_t size : shape) found *= size;
    return found;
}

namespace {

constexpr size_t MOST_BYTES = size_t(2) << 30;

// bfloat16 has no name in .npy: its bits are written as uint16.
const char *descr(Element element) {
    switch (element) {
        case Element::F32: return "<f4";
        case Element::F16: return "<f2";
        case Element::BF16: return "<u2";
        case Element::I8: return "|i1";
        case Element::U8: return "|u1";
        case Element::I16: return "<i2";
        case Element::U16: return "<u2";
        case Element::I32: return "<i4";
        case Element::U32: return "<u4";
        default: return "|b1";
    }
}

template <typename To, typename From>
To bits_of(From value) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To made;
    std::memcpy(&made, &value, sizeof made);
    return made;
}

float from_half(uint16_t half) {
    const float sign = half & 0x8000 ? -1.0f : 1.0f;
    const int exponent = (half >> 10) & 31, mantissa = half & 1023;
    if (exponent == 31)
        return sign * (mantissa ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity());
    return sign * (exponent ? std::ldexp(float(1024 + mantissa), exponent - 25) : std::ldexp(float(mantissa), -24));
}

// Round to nearest, ties to even, in both.
uint16_t to_half(float value) {
    const uint32_t bits = bits_of<uint32_t>(value);
    const uint16_t sign = uint16_t((bits >> 16) & 0x8000);
    const float size = std::fabs(value);
    if (std::isnan(value)) return uint16_t(sign | 0x7e00);
    if (size >= 65520.0f) return uint16_t(sign | 0x7c00);
    if (size < 6.103515625e-05f) return uint16_t(sign | uint16_t(std::nearbyint(std::ldexp(size, 24))));
    int exponent;
    const float fraction = std::frexp(size, &exponent);  // 0.5 <= fraction < 1
    const int mantissa = int(std::nearbyint(std::ldexp(fraction, 11)));  // 1024 to 2048: the carry is in the sum
    return uint16_t(sign | uint16_t(((exponent + 14) << 10) + mantissa - 1024));
}

uint16_t to_bfloat(float value) {
    const uint32_t bits = bits_of<uint32_t>(value);
    if (std::isnan(value)) return uint16_t((bits >> 16) | 0x40);
    return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <typename Stored>
void put(uint8_t *place, Stored value) {
    std::memcpy(place, &value, sizeof value);
}

template <typename Stored>
Stored get(const uint8_t *place) {
    Stored value;
    std::memcpy(&value, place, sizeof value);
    return value;
}

// As ONNX's QuantizeLinear: a float32 division, ties to even, then the zero point; not-a-number becomes 0.
template <typename Stored>
void quantise(const Edge &edge, float real, uint8_t *place) {
    const float steps = edge.quantised ? real / edge.scale : real;
    double found = std::isnan(steps) ? 0.0 : std::nearbyint(double(steps)) + edge.zero_point;
    found = std::fmax(found, double(std::numeric_limits<Stored>::min()));
    found = std::fmin(found, double(std::numeric_limits<Stored>::max()));
    put(place, Stored(found));
}

void store(const Edge &edge, float real, uint8_t *place) {
    switch (edge.element) {
        case Element::F32: put(place, real); break;
        case Element::F16: put(place, to_half(real)); break;
        case Element::BF16: put(place, to_bfloat(real)); break;
        case Element::I8: quantise<int8_t>(edge, real, place); break;
        case Element::U8: quantise<uint8_t>(edge, real, place); break;
        case Element::I16: quantise<int16_t>(edge, real, place); break;
        case Element::U16: quantise<uint16_t>(edge, real, place); break;
        case Element::I32: quantise<int32_t>(edge, real, place); break;
        case Element::U32: quantise<uint32_t>(edge, real, place); break;
        case Element::BOOL: put(place, uint8_t(real != 0.0f)); break;
    }
}

float real_of(const Edge &edge, const uint8_t *place) {
    int64_t stored = 0;
    switch (edge.element) {
        case Element::F32: return get<float>(place);
        case Element::F16: return from_half(get<uint16_t>(place));
        case Element::BF16: return bits_of<float>(uint32_t(get<uint16_t>(place)) << 16);
        case Element::I8: stored = get<int8_t>(place); break;
        case Element::U8: case Element::BOOL: stored = get<uint8_t>(place); break;
        case Element::I16: stored = get<int16_t>(place); break;
        case Element::U16: stored = get<uint16_t>(place); break;
        case Element::I32: stored = get<int32_t>(place); break;
        case Element::U32: stored = get<uint32_t>(place); break;
    }
    return edge.quantised ? float(stored - edge.zero_point) * edge.scale : float(stored);
}

struct Array {
    std::string descr;
    std::vector<uint8_t> data;
};

std::string field(const std::string &header, const std::string &key) {
    const size_t at = header.find("'" + key + "'");
    if (at == std::string::npos) throw std::runtime_error("its header has no " + key);
    const size_t start = header.find_first_not_of(" :", at + key.size() + 2);
    const size_t stop = header[start] == '\'' ? header.find('\'', start + 1) : header.find_first_of(",}", start);
    if (start == std::string::npos || stop == std::string::npos) throw std::runtime_error("its header is damaged");
    return header[start] == '\'' ? header.substr(start + 1, stop - start - 1) : header.substr(start, stop - start);
}

Array parse_npy(const std::vector<uint8_t> &file) {
    const size_t wide = file.size() > 8 && file[6] >= 2 ? 4 : 2;
    if (file.size() < 8 + wide) throw std::runtime_error("it is cut short");
    const size_t length = wide == 2 ? size_t(get<uint16_t>(&file[8])) : size_t(get<uint32_t>(&file[8]));
    if (length > file.size() - 8 - wide) throw std::runtime_error("its header is cut short");
    const auto start = file.begin() + std::ptrdiff_t(8 + wide);
    const std::string header(start, start + std::ptrdiff_t(length));
    if (field(header, "fortran_order") != "False") throw std::runtime_error("it is in Fortran order");
    return {field(header, "descr"), {start + std::ptrdiff_t(length), file.end()}};
}

std::vector<float> reals_in(const Array &array) {
    Edge like{"", "", Element::F32, {}, false, 0.0f, 0};
    const Element known[] = {Element::F32, Element::F16, Element::U8, Element::I8, Element::I16,
                             Element::U16, Element::I32, Element::U32, Element::BOOL};
    for (Element one : known) {
        if (array.descr != descr(one)) continue;
        like.element = one;
        return to_reals(like, array.data);
    }
    throw std::runtime_error("it holds '" + array.descr + "': float32, float16 and integers can be read");
}

std::vector<uint8_t> stored_from(const std::vector<float> &values, const Edge &edge, const Preprocessing &how) {
    const size_t channels = edge.shape.size() > 1 ? edge.shape[1] : 1;
    const size_t per_sample = edge.count();
    const size_t per_channel = per_sample / (edge.shape.empty() ? 1 : edge.shape[0]) / channels;
    if (how.mean.size() > 1 && how.mean.size() != channels)
        throw std::runtime_error("--mean has " + std::to_string(how.mean.size()) + " values for " +
                                 std::to_string(channels) + " channels");
    const size_t width = element_bytes(edge.element);
    std::vector<uint8_t> made(values.size() * width);
    for (size_t index = 0; index < values.size(); ++index) {
        float value = values[index];
        if (how.changes()) {
            const size_t channel = per_channel ? index / per_channel % channels : 0;
            const float mean = how.mean.empty() ? 0.0f : how.mean[how.mean.size() > 1 ? channel : 0];
            value = (value - mean) * how.scale;
        }
        store(edge, value, &made[index * width]);
    }
    return made;
}

void write_npy(const std::string &path, const char *kind, const Edge &edge, size_t samples, const void *data,
               size_t size) {
    std::string shape;
    for (size_t axis = 0; axis < edge.shape.size(); ++axis)
        shape += std::to_string(axis == 0 ? edge.shape[0] * samples : edge.shape[axis]) + ",";
    std::string text = std::string("{'descr': '") + kind + "', 'fortran_order': False, 'shape': (" + shape + "), }";
    text.resize((10 + text.size() + 1 + 63) / 64 * 64 - 10 - 1, ' ');
    text += '\n';
    std::vector<uint8_t> file = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, uint8_t(text.size()), uint8_t(text.size() >> 8)};
    file.insert(file.end(), text.begin(), text.end());
    const auto *bytes = static_cast<const uint8_t *>(data);
    file.insert(file.end(), bytes, bytes + size);
    write_file(path, file.data(), file.size());
}

}  // namespace

std::vector<uint8_t> read_file(const std::string &path) {
    std::ifstream stream(path, std::ios::binary | std::ios::ate);
    if (!stream) throw std::runtime_error(path + ": cannot be read");
    const auto size = size_t(stream.tellg());
    if (size > MOST_BYTES) throw std::runtime_error(path + ": it is too large");
    std::vector<uint8_t> data(size);
    stream.seekg(0);
    if (!stream.read(reinterpret_cast<char *>(data.data()), std::streamsize(size)))
        throw std::runtime_error(path + ": cannot be read");
    return data;
}

void write_file(const std::string &path, const void *data, size_t size) {
    std::ofstream stream(path, std::ios::binary);
    stream.write(static_cast<const char *>(data), std::streamsize(size));
    stream.close();
    if (!stream) throw std::runtime_error(path + ": cannot be written");
}

std::vector<uint8_t> read_input(const std::string &path, const Edge &edge, const Preprocessing &how) {
    std::vector<uint8_t> data = read_file(path);
    static const uint8_t magic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    try {
        if (data.size() > sizeof magic && std::memcmp(data.data(), magic, sizeof magic) == 0) {
            const Array array = parse_npy(data);
            const bool is_stored = array.descr == descr(edge.element) && !how.changes();
            const bool is_real = array.descr == "<f4" || array.descr == "<f2";
            if (!is_stored && !is_real && !how.values_are_real && edge.quantised)
                throw std::runtime_error("it holds '" + array.descr + "', the network stores '" + descr(edge.element) +
                                         "'; give float32, or --real if its integers are values, not stored ones");
            data = is_stored ? array.data : stored_from(reals_in(array), edge, how);
        }
        if (data.empty() || data.size() % edge.bytes() != 0)
            throw std::runtime_error("it holds " + std::to_string(data.size() / element_bytes(edge.element)) +
                                     " values; a sample has " + std::to_string(edge.count()));
    } catch (const std::runtime_error &error) {
        throw std::runtime_error(path + ", for input '" + edge.name + "': " + error.what());
    }
    return data;
}

std::vector<float> to_reals(const Edge &edge, const std::vector<uint8_t> &stored) {
    const size_t width = element_bytes(edge.element);
    std::vector<float> made(stored.size() / width);
    for (size_t index = 0; index < made.size(); ++index) made[index] = real_of(edge, &stored[index * width]);
    return made;
}

void write_output(const std::string &folder, const Edge &edge, const std::vector<uint8_t> &stored) {
    const size_t samples = stored.size() / edge.bytes();
    const std::string path = folder + "/" + edge.file;
    const bool is_float = edge.element == Element::F32 || edge.element == Element::F16 || edge.element == Element::BF16;
    if (!edge.quantised && !is_float) {
        write_npy(path + ".npy", descr(edge.element), edge, samples, stored.data(), stored.size());
        return;
    }
    const std::vector<float> reals = to_reals(edge, stored);
    write_npy(path + ".npy", "<f4", edge, samples, reals.data(), reals.size() * sizeof(float));
    if (edge.element != Element::F32)
        write_npy(path + ".stored.npy", descr(edge.element), edge, samples, stored.data(), stored.size());
}
