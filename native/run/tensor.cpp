#include "tensor.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include <nlohmann/json.hpp>

#include "error.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Bundles and .npy files are read as they are: the machine has to be little-endian."
#endif

namespace {

using nlohmann::json;

constexpr size_t MAX_RANK = 16;
constexpr int64_t MAX_DIM = 2147483647;

const DTypeFacts DTYPES[] = {
    {DType::F64, "f64", "<f8", 8, 'f'},   {DType::F32, "f32", "<f4", 4, 'f'}, {DType::F16, "f16", "<f2", 2, 'f'},
    {DType::BF16, "bf16", "<f4", 4, 'f'}, {DType::I8, "i8", "|i1", 1, 'i'},   {DType::U8, "u8", "|u1", 1, 'u'},
    {DType::I16, "i16", "<i2", 2, 'i'},   {DType::U16, "u16", "<u2", 2, 'u'}, {DType::I32, "i32", "<i4", 4, 'i'},
    {DType::U32, "u32", "<u4", 4, 'u'},   {DType::I64, "i64", "<i8", 8, 'i'}, {DType::U64, "u64", "<u8", 8, 'u'},
    {DType::BOOL, "bool", "|b1", 1, 'b'},
};

// Walk over the text of a type.
class Cursor {
  public:
    explicit Cursor(const std::string &text) : text_(text) {}

    [[noreturn]] void fail(const std::string &why) const {
        throw Error("type '" + plain(text_, 80) + "': " + why + ".", COPY_AGAIN);
    }

    bool accept(const std::string &token) {
        skip();
        if (text_.compare(at_, token.size(), token) != 0) return false;
        at_ += token.size();
        return true;
    }

    void expect(const std::string &token) {
        if (!accept(token)) fail("'" + token + "' is expected at column " + std::to_string(at_ + 1));
    }

    std::string word() {
        skip();
        const size_t start = at_;
        while (at_ < text_.size() && (std::isalnum(uint8_t(text_[at_])) || text_[at_] == '_')) ++at_;
        return text_.substr(start, at_ - start);
    }

    // A quoted name, a whole number or a list of numbers.
    json value() {
        skip();
        const size_t start = at_;
        if (at_ < text_.size() && text_[at_] == '"') {
            for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_)
                if (text_[at_] == '\\') ++at_;
            ++at_;
        } else if (at_ < text_.size() && text_[at_] == '[') {
            while (at_ < text_.size() && text_[at_] != ']') ++at_;
            ++at_;
        } else {
            while (at_ < text_.size() && (std::isalnum(uint8_t(text_[at_])) || text_[at_] == '-')) ++at_;
        }
        if (at_ > text_.size()) fail("it is cut short");
        try {
            return json::parse(text_.substr(start, at_ - start));
        } catch (const json::exception &) {
            fail("a name or a number is expected at column " + std::to_string(start + 1));
        }
    }

    bool at_end() {
        skip();
        return at_ == text_.size();
    }

  private:
    void skip() {
        while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    }

    const std::string &text_;
    size_t at_ = 0;
};

Dim read_dim(Cursor &cursor) {
    if (cursor.accept("?")) return {};
    const json value = cursor.value();
    if (value.is_string()) return {std::nullopt, value.get<std::string>()};
    if (!value.is_number_integer()) cursor.fail("a size is expected");
    const auto size = value.get<int64_t>();
    if (size < 0 || size > MAX_DIM) cursor.fail("a size lies outside 0.." + std::to_string(MAX_DIM));
    return {size, ""};
}

Quantization read_quantization(Cursor &cursor) {
    Quantization found;
    if (cursor.accept("axis=")) {
        const json axis = cursor.value();
        if (!axis.is_number_integer()) cursor.fail("an axis is expected");
        found.axis = axis.get<int>();
        cursor.expect(",");
    }
    cursor.expect("scale=");
    const json scale = cursor.value();
    cursor.expect(",");
    cursor.expect("zero=");
    const json zero = cursor.value();
    cursor.expect(")");
    if (!scale.is_array() || !zero.is_array()) cursor.fail("scale and zero are lists");
    for (const json &item : scale) {
        if (!item.is_number()) cursor.fail("a scale is no number");
        found.scale.push_back(item.get<double>());
        if (!std::isfinite(found.scale.back()) || found.scale.back() <= 0) cursor.fail("a scale is not positive");
    }
    for (const json &item : zero) {
        if (!item.is_number_integer()) cursor.fail("a zero point is no whole number");
        found.zero_point.push_back(item.get<int64_t>());
    }
    if (found.scale.empty() || found.scale.size() != found.zero_point.size() ||
        (!found.axis && found.scale.size() != 1))
        cursor.fail("its scales and zero points do not fit each other");
    return found;
}

}  // namespace

const DTypeFacts &facts_of(DType dtype) { return DTYPES[static_cast<size_t>(dtype)]; }

const DTypeFacts *find_dtype(const std::string &name) {
    for (const DTypeFacts &facts : DTYPES)
        if (name == facts.name) return &facts;
    return nullptr;
}

const DTypeFacts *find_npy_dtype(const std::string &descr) {
    for (const DTypeFacts &facts : DTYPES)
        if (descr == facts.npy && facts.dtype != DType::BF16) return &facts;
    return nullptr;
}

TensorType parse_type(const std::string &text) {
    Cursor cursor(text);
    TensorType kind;
    const DTypeFacts *facts = find_dtype(cursor.word());
    if (facts == nullptr) cursor.fail("it has no known element type");
    kind.dtype = facts->dtype;
    cursor.expect("[");
    if (cursor.accept("*")) {
        cursor.expect("]");
    } else {
        kind.shape.emplace();
        while (!cursor.accept("]")) {
            if (kind.shape->size() == MAX_RANK) cursor.fail("it has more than 16 dimensions");
            kind.shape->push_back(read_dim(cursor));
            cursor.accept(",");
        }
    }
    if (cursor.accept("q(")) {
        kind.quant = read_quantization(cursor);
        if (facts->kind != 'i' && facts->kind != 'u') cursor.fail("only integers are quantised");
        if (kind.quant->axis &&
            (!kind.shape || *kind.quant->axis < 0 || size_t(*kind.quant->axis) >= kind.shape->size()))
            cursor.fail("its axis lies outside its rank");
    }
    if (!cursor.at_end()) cursor.fail("something is left over");
    return kind;
}

std::string print_shape(const Shape &shape) {
    std::string text = "[";
    for (const int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
    return text + "]";
}

std::string print_shape(const std::vector<Dim> &shape) {
    std::string text = "[";
    for (const Dim &dim : shape)
        text += (text.size() > 1 ? ", " : "") + (dim.size             ? std::to_string(*dim.size)
                                                 : dim.symbol.empty() ? "?"
                                                                      : plain(dim.symbol, 40));
    return text + "]";
}

size_t bytes_of(const Shape &shape, size_t element, size_t most, const std::string &where) {
    uint64_t bytes = element;
    bool empty = false;
    for (const int64_t size : shape) {
        if (size < 0) throw Error(where + ": a size of " + std::to_string(size) + ".");
        if (size == 0) empty = true;
        if (size > 0 && bytes > most / uint64_t(size) && !empty)
            bytes = most + uint64_t(1);
        else if (size > 0 && bytes <= most)
            bytes *= uint64_t(size);
    }
    if (empty) return 0;
    if (bytes > most)
        throw Error(where + ": shape " + print_shape(shape) + " has more than " + std::to_string(most) + " bytes.",
                    "Give fewer or smaller samples.");
    return size_t(bytes);
}

bool fits(const std::vector<Dim> &expected, const Shape &shape) {
    if (expected.size() != shape.size()) return false;
    std::map<std::string, int64_t> symbols;
    for (size_t index = 0; index < shape.size(); ++index) {
        const Dim &dim = expected[index];
        if (dim.size ? *dim.size != shape[index]
                     : !dim.symbol.empty() && symbols.emplace(dim.symbol, shape[index]).first->second != shape[index])
            return false;
    }
    return true;
}

std::string plain(const std::string &text, size_t longest) {
    std::string found;
    for (size_t at = 0; at < text.size();) {
        if (found.size() >= longest) return found + "...";
        const auto byte = uint8_t(text[at]);
        const size_t length = byte < 0x80                   ? 1
                              : byte >= 0xc2 && byte < 0xe0 ? 2
                              : byte >= 0xe0 && byte < 0xf0 ? 3
                              : byte >= 0xf0 && byte < 0xf5 ? 4
                                                            : 0;
        bool good = length > 0 && length <= text.size() - at;
        for (size_t next = 1; good && next < length; ++next) good = (uint8_t(text[at + next]) & 0xc0) == 0x80;
        // Overlong forms, surrogates, and control characters that have two bytes.
        const uint8_t second = good && length > 1 ? uint8_t(text[at + 1]) : 0;
        good = good && !(byte == 0xc2 && second < 0xa0) && !(byte == 0xe0 && second < 0xa0) &&
               !(byte == 0xed && second > 0x9f) && !(byte == 0xf0 && second < 0x90) && !(byte == 0xf4 && second > 0x8f);
        if (!good)
            found += '?';
        else if (byte < 0x20 || byte == 0x7f)
            found += ' ';
        else
            found.append(text, at, length);
        at += good ? length : 1;
    }
    return found;
}
