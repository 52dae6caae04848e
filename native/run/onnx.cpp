#include "onnx.h"

#include <string_view>

#include "error.h"

namespace {

constexpr int MAX_DEPTH = 64;

struct Field {
    uint64_t number = 0;
    uint64_t value = 0;  // of a varint
    std::string_view bytes;
    bool is_message = false;
};

// Walk over the fields of one message.
class Message {
  public:
    explicit Message(std::string_view data) : data_(data) {}

    bool next(Field *field) {
        if (at_ == data_.size()) return false;
        const uint64_t key = varint();
        *field = {key >> 3, 0, {}, false};
        switch (key & 7) {
            case 0: field->value = varint(); return true;
            case 1: take(8); return true;
            case 5: take(4); return true;
            case 2:
                field->bytes = take(varint());
                field->is_message = true;
                return true;
            default: throw Error("it is no protocol-buffer message");
        }
    }

  private:
    std::string_view take(uint64_t size) {
        if (size > data_.size() - at_) throw Error("it is cut short");
        const std::string_view found = data_.substr(at_, size_t(size));
        at_ += size_t(size);
        return found;
    }

    uint64_t varint() {
        uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            if (at_ == data_.size()) throw Error("it is cut short");
            const auto byte = uint8_t(data_[at_++]);
            value |= uint64_t(byte & 0x7f) << shift;
            if (byte < 0x80) return value;
        }
        throw Error("a number in it is too long");
    }

    std::string_view data_;
    size_t at_ = 0;
};

// Messages of onnx.proto in which a tensor can lie; by field, what the field holds.
enum class Kind { MODEL, GRAPH, NODE, ATTRIBUTE, TENSOR, SPARSE, FUNCTION };

struct Holds {
    Kind outer;
    uint64_t field;
    Kind inner;
};

const Holds HOLDS[] = {
    {Kind::MODEL, 7, Kind::GRAPH},         {Kind::MODEL, 25, Kind::FUNCTION},   {Kind::GRAPH, 1, Kind::NODE},
    {Kind::GRAPH, 5, Kind::TENSOR},        {Kind::GRAPH, 15, Kind::SPARSE},     {Kind::NODE, 5, Kind::ATTRIBUTE},
    {Kind::ATTRIBUTE, 5, Kind::TENSOR},    {Kind::ATTRIBUTE, 6, Kind::GRAPH},   {Kind::ATTRIBUTE, 10, Kind::TENSOR},
    {Kind::ATTRIBUTE, 11, Kind::GRAPH},    {Kind::ATTRIBUTE, 22, Kind::SPARSE}, {Kind::ATTRIBUTE, 23, Kind::SPARSE},
    {Kind::SPARSE, 1, Kind::TENSOR},       {Kind::SPARSE, 2, Kind::TENSOR},     {Kind::FUNCTION, 7, Kind::NODE},
    {Kind::FUNCTION, 11, Kind::ATTRIBUTE},
};
constexpr uint64_t EXTERNAL_DATA = 13, DATA_LOCATION = 14, METADATA = 14;

bool reads_files(std::string_view data, Kind kind, int depth) {
    if (depth > MAX_DEPTH) throw Error("its graphs are nested too deep");
    Message message(data);
    for (Field field; message.next(&field);) {
        if (kind == Kind::TENSOR &&
            (field.number == EXTERNAL_DATA || (field.number == DATA_LOCATION && field.value != 0)))
            return true;
        if (!field.is_message) continue;
        for (const Holds &one : HOLDS)
            if (one.outer == kind && one.field == field.number && reads_files(field.bytes, one.inner, depth + 1))
                return true;
    }
    return false;
}

}  // namespace

OnnxFacts read_onnx(const uint8_t *data, size_t size) {
    const std::string_view whole(reinterpret_cast<const char *>(data), size);
    OnnxFacts facts;
    facts.reads_files = reads_files(whole, Kind::MODEL, 0);
    Message model(whole);
    for (Field field; model.next(&field);) {
        if (field.number != METADATA || !field.is_message) continue;
        std::string entry[2];
        Message pair(field.bytes);
        for (Field part; pair.next(&part);)
            if (part.is_message && (part.number == 1 || part.number == 2)) entry[part.number - 1] = part.bytes;
        facts.metadata[entry[0]] = entry[1];
    }
    return facts;
}
