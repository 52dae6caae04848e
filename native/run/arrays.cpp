#include "arrays.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include <sys/stat.h>

#include "error.h"

namespace {

constexpr size_t MAX_MEMBERS = 4096, MAX_HEADER = 1 << 16, MAX_SAMPLE = size_t(1) << 30;
constexpr const char *WRITE_AGAIN = "Write the file again.";
const char MAGIC[] = "\x93NUMPY";
constexpr size_t MAGIC_BYTES = 6, PREFIX_BYTES = 10, ALIGNMENT = 64;

// Where the bytes of an array come from.
class Stream {
  public:
    virtual ~Stream() = default;
    virtual void read(void *data, size_t size) = 0;
    virtual void finish() {}
};

class MemberStream : public Stream {
  public:
    MemberStream(const std::string &path, size_t member) : archive_(path, MAX_MEMBERS) { archive_.open(member); }
    void read(void *data, size_t size) override { archive_.read(data, size); }
    void finish() override { archive_.finish(); }

  private:
    ZipReader archive_;
};

class FileStream : public Stream {
  public:
    explicit FileStream(const std::string &path) : path_(path), file_(std::fopen(path.c_str(), "rb")) {
        if (file_ == nullptr) throw Error(path + ": cannot be read.");
    }
    ~FileStream() override { std::fclose(file_); }
    void read(void *data, size_t size) override {
        if (std::fread(data, 1, size, file_) != size) throw Error(path_ + ": the file ends early.", WRITE_AGAIN);
    }

  private:
    std::string path_;
    FILE *file_;
};

struct Header {
    const DTypeFacts *facts = nullptr;
    Shape shape;
};

// Read the text of a header, a Python dictionary with three entries, strictly.
class HeaderText {
  public:
    HeaderText(std::string text, std::string where) : text_(std::move(text)), where_(std::move(where)) {}

    Header parse() {
        Header found;
        std::string descr;
        bool fortran = false, has_shape = false;
        expect('{');
        while (!accept('}')) {
            const std::string key = quoted();
            expect(':');
            if (key == "descr")
                descr = quoted();
            else if (key == "fortran_order")
                fortran = truth();
            else if (key == "shape")
                found.shape = sizes(), has_shape = true;
            else
                damaged();
            accept(',');
        }
        if (descr.empty() || !has_shape) damaged();
        if (descr[0] == '=') descr[0] = '<';
        found.facts = find_npy_dtype(descr);
        if (found.facts == nullptr)
            throw Error(where_ + ": elements of type '" + plain(descr, 20) + "' are not read here.",
                        "Save little-endian numbers or truth values.");
        // Of one dimension both orders are the same.
        if (fortran && found.shape.size() > 1)
            throw Error(where_ + ": the array is in Fortran order.", "Save numpy.ascontiguousarray of it.");
        return found;
    }

  private:
    [[noreturn]] void damaged() const { throw Error(where_ + ": damaged .npy header.", WRITE_AGAIN); }

    void skip() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    }

    bool accept(char letter) {
        skip();
        if (at_ >= text_.size() || text_[at_] != letter) return false;
        ++at_;
        return true;
    }

    void expect(char letter) {
        if (!accept(letter)) damaged();
    }

    std::string quoted() {
        expect('\'');
        const size_t end = text_.find('\'', at_);
        if (end == std::string::npos) damaged();
        const std::string found = text_.substr(at_, end - at_);
        at_ = end + 1;
        return found;
    }

    bool truth() {
        skip();
        for (const std::string word : {"True", "False"})
            if (text_.compare(at_, word.size(), word) == 0) {
                at_ += word.size();
                return word == "True";
            }
        damaged();
    }

    Shape sizes() {
        Shape found;
        expect('(');
        while (!accept(')')) {
            skip();
            const size_t start = at_;
            while (at_ < text_.size() && std::isdigit(uint8_t(text_[at_]))) ++at_;
            if (start == at_ || at_ - start > 18 || found.size() == 32) damaged();
            found.push_back(std::stoll(text_.substr(start, at_ - start)));
            accept(',');
        }
        return found;
    }

    std::string text_, where_;
    size_t at_ = 0;
};

// Read a header and compare what it promises with the bytes that are there.
Header read_header(Stream *stream, uint64_t total, const std::string &where) {
    uint8_t prefix[12];
    stream->read(prefix, PREFIX_BYTES);
    if (std::memcmp(prefix, MAGIC, MAGIC_BYTES) != 0) throw Error(where + ": not an .npy array.", WRITE_AGAIN);
    size_t length = prefix[8] | size_t(prefix[9]) << 8, start = PREFIX_BYTES;
    if (prefix[6] == 2) {
        stream->read(prefix + PREFIX_BYTES, 2);
        length |= size_t(prefix[10]) << 16 | size_t(prefix[11]) << 24;
        start += 2;
    } else if (prefix[6] != 1) {
        throw Error(where + ": .npy version " + std::to_string(prefix[6]) + " is not read here.", WRITE_AGAIN);
    }
    if (length > MAX_HEADER) throw Error(where + ": a header of " + std::to_string(length) + " bytes.", WRITE_AGAIN);
    std::string text(length, '\0');
    stream->read(text.data(), length);
    const Header header = HeaderText(text, where).parse();
    const size_t most = std::numeric_limits<size_t>::max() / 2;
    if (start + length + bytes_of(header.shape, header.facts->bytes, most, where) != total)
        throw Error(where + ": the header promises another number of bytes than the file holds.",
                    "The file is truncated or damaged.");
    return header;
}

std::string without_suffix(const std::string &name) {
    return ends_with(name, ".npy") ? name.substr(0, name.size() - 4) : name;
}

Shape without_ones(const Shape &shape) {
    Shape found;
    for (const int64_t size : shape)
        if (size != 1) found.push_back(size);
    return found;
}

bool matches(const Shape &found, const std::vector<Dim> &wanted, size_t from) {
    if (found.size() != wanted.size() - from) return false;
    for (size_t index = 0; index < found.size(); ++index)
        if (wanted[index + from].size && *wanted[index + from].size != found[index]) return false;
    return true;
}

// Return the shape of one sample as the model wants it; only a batch, a channel or a height of 1 is added.
std::optional<Shape> fitted(const Shape &shape, const std::vector<Dim> &wanted) {
    if (matches(shape, wanted, 0)) return shape;
    if (wanted.empty() || wanted[0].size.value_or(1) != 1) return std::nullopt;
    if (matches(shape, wanted, 1)) {
        Shape found{1};
        found.insert(found.end(), shape.begin(), shape.end());
        return found;
    }
    Shape known{1};
    for (size_t index = 1; index < wanted.size(); ++index) {
        if (!wanted[index].size) return std::nullopt;
        known.push_back(*wanted[index].size);
    }
    if (shape.size() < wanted.size() && without_ones(known) == without_ones(shape)) return known;
    return std::nullopt;
}

template <typename From, typename To>
void cast_all(const Tensor &from, Tensor *to, const std::string &where) {
    const size_t count = from.data.size() / sizeof(From);
    for (size_t index = 0; index < count; ++index) {
        From value;
        std::memcpy(&value, from.data.data() + index * sizeof(From), sizeof value);
        bool good = true;
        if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
            // The limits are powers of two, which floats hold exactly.
            good = value >= From(std::numeric_limits<To>::min()) &&
                   value < std::ldexp(From(1), std::numeric_limits<To>::digits) && std::trunc(value) == value;
        } else if constexpr (std::is_integral_v<From> && std::is_integral_v<To>) {
            good = std::is_signed_v<From> && value < From(0)
                       ? std::is_signed_v<To> && int64_t(value) >= int64_t(std::numeric_limits<To>::min())
                       : uint64_t(value) <= uint64_t(std::numeric_limits<To>::max());
        } else if constexpr (std::is_floating_point_v<From>) {
            good = std::isfinite(To(value));
        } else {
            // Integers in floats: exact, or refused.
            good = std::fabs(double(To(value))) < 9.2e18 && From(To(value)) == value;
        }
        if (!good)
            throw Error(where + ": a value is not exact in " + facts_of(to->dtype).name + ".",
                        "Scale or round the data first.");
        const To cast = To(value);
        std::memcpy(to->data.data() + index * sizeof(To), &cast, sizeof cast);
    }
}

template <typename From>
bool cast_from(const Tensor &from, Tensor *to, const std::string &where) {
    switch (to->dtype) {
        case DType::F64: cast_all<From, double>(from, to, where); return true;
        case DType::BF16:
        case DType::F32: cast_all<From, float>(from, to, where); return true;
        case DType::I8: cast_all<From, int8_t>(from, to, where); return true;
        case DType::U8: cast_all<From, uint8_t>(from, to, where); return true;
        case DType::I16: cast_all<From, int16_t>(from, to, where); return true;
        case DType::U16: cast_all<From, uint16_t>(from, to, where); return true;
        case DType::I32: cast_all<From, int32_t>(from, to, where); return true;
        case DType::U32: cast_all<From, uint32_t>(from, to, where); return true;
        case DType::I64: cast_all<From, int64_t>(from, to, where); return true;
        case DType::U64: cast_all<From, uint64_t>(from, to, where); return true;
        default: return false;
    }
}

bool cast(const Tensor &from, Tensor *to, const std::string &where) {
    switch (from.dtype) {
        case DType::F64: return cast_from<double>(from, to, where);
        case DType::F32: return cast_from<float>(from, to, where);
        case DType::I8: return cast_from<int8_t>(from, to, where);
        case DType::BOOL:
        case DType::U8: return cast_from<uint8_t>(from, to, where);
        case DType::I16: return cast_from<int16_t>(from, to, where);
        case DType::U16: return cast_from<uint16_t>(from, to, where);
        case DType::I32: return cast_from<int32_t>(from, to, where);
        case DType::U32: return cast_from<uint32_t>(from, to, where);
        case DType::I64: return cast_from<int64_t>(from, to, where);
        case DType::U64: return cast_from<uint64_t>(from, to, where);
        default: return false;
    }
}

void check_finite(const Tensor &tensor, const std::string &where) {
    const DTypeFacts &facts = facts_of(tensor.dtype);
    if (facts.kind != 'f') return;
    // All bits of the exponent set: infinity or NaN.
    const uint64_t mask = facts.bytes == 8 ? uint64_t(0x7ff) << 52 : facts.bytes == 4 ? 0x7f800000u : 0x7c00u;
    for (size_t at = 0; at < tensor.data.size(); at += facts.bytes) {
        uint64_t bits = 0;
        std::memcpy(&bits, tensor.data.data() + at, facts.bytes);
        if ((bits & mask) == mask)
            throw Error(where + ": a value is NaN or infinite.", "Remove or repair this sample.");
    }
}

// Return a sample as the model wants it.
Tensor conform(Tensor sample, const TensorType &kind, const std::string &where) {
    if (!kind.shape)
        throw Error(where + ": the model does not say its rank.", "Fix its shape when the model is loaded.");
    const std::optional<Shape> shape = fitted(sample.shape, *kind.shape);
    if (!shape)
        throw Error(
            where + ": expected shape " + print_shape(*kind.shape) + ", found " + print_shape(sample.shape) + ".",
            "Give arrays [N, ...] of N samples.");
    if (sample.data.empty()) throw Error(where + ": it holds no value.");
    sample.shape = *shape;
    check_finite(sample, where);
    const DTypeFacts &wanted = facts_of(kind.dtype);
    if (std::strcmp(facts_of(sample.dtype).npy, wanted.npy) == 0) {
        sample.dtype = kind.dtype;
        return sample;
    }
    Tensor made{kind.dtype, sample.shape, Bytes(sample.data.size() / facts_of(sample.dtype).bytes * wanted.bytes)};
    if (!cast(sample, &made, where))
        throw Error(where + ": " + facts_of(sample.dtype).name + " is not turned into " + wanted.name + " here.",
                    std::string("Save it as ") + wanted.name + ".");
    return made;
}

void write_array(const DTypeFacts &facts, const Shape &shape, const std::function<void(const void *, size_t)> &write) {
    std::string text = std::string("{'descr': '") + facts.npy + "', 'fortran_order': False, 'shape': (";
    for (size_t index = 0; index < shape.size(); ++index)
        text += (index > 0 ? ", " : "") + std::to_string(shape[index]);
    text += shape.size() == 1 ? ",), }" : "), }";
    text.append(ALIGNMENT - 1 - (PREFIX_BYTES + text.size()) % ALIGNMENT, ' ');
    text += '\n';
    uint8_t prefix[PREFIX_BYTES] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, uint8_t(text.size()), uint8_t(text.size() >> 8)};
    write(prefix, sizeof prefix);
    write(text.data(), text.size());
}

bool same_shapes(const std::vector<Feed> &rows, const std::string &name) {
    for (const Feed &row : rows)
        if (row.at(name).shape != rows.front().at(name).shape) return false;
    return true;
}

Shape stacked(const std::vector<Feed> &rows, const std::string &name) {
    Shape shape = rows.front().at(name).shape;
    shape.insert(shape.begin(), int64_t(rows.size()));
    return shape;
}

void write_npz(const std::string &draft, const Types &outputs, const std::vector<Feed> &rows) {
    ZipWriter archive(draft);
    const auto write = [&](const void *data, size_t size) { archive.write(data, size); };
    for (const auto &[name, kind] : outputs) {
        if (rows.empty()) break;
        const DTypeFacts &facts = facts_of(kind.dtype);
        const bool together = same_shapes(rows, name);
        for (size_t number = 0; number < rows.size(); ++number) {
            const Tensor &tensor = rows[number].at(name);
            if (number == 0 || !together) {
                archive.open((together ? name : name + "@" + std::to_string(number)) + ".npy");
                write_array(facts, together ? stacked(rows, name) : tensor.shape, write);
            }
            archive.write(tensor.data.data(), tensor.data.size());
        }
    }
    archive.close();
}

void write_npy(const std::string &draft, const std::string &path, const Types &outputs, const std::vector<Feed> &rows) {
    if (outputs.size() != 1 || rows.empty() || !same_shapes(rows, outputs[0].first))
        throw Error(path + ": an .npy holds one array, and there is more than one.", "Write an .npz.");
    FILE *file = std::fopen(draft.c_str(), "wb");
    bool good = file != nullptr;
    const auto write = [&](const void *data, size_t size) { good = good && std::fwrite(data, 1, size, file) == size; };
    if (good) {
        write_array(facts_of(outputs[0].second.dtype), stacked(rows, outputs[0].first), write);
        for (const Feed &row : rows) write(row.at(outputs[0].first).data.data(), row.at(outputs[0].first).data.size());
        good = std::fclose(file) == 0 && good;
    }
    if (!good) throw Error(path + ": cannot be written.", "Choose another place.");
}

}  // namespace

struct Samples::Column {
    std::unique_ptr<Stream> stream;
    Header header;
};

Samples::Samples(const std::string &path, const Types &inputs) : path_(path), inputs_(inputs) {
    struct stat facts;
    if (::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode))
        throw Error(path + ": no such file.", "Give an .npz with arrays named like the model's inputs.");
    std::vector<ZipMember> members;
    if (ends_with(path, ".npy"))
        members = {{"", uint64_t(facts.st_size)}};
    else
        members = ZipReader(path, MAX_MEMBERS).members();
    for (const auto &[name, kind] : inputs) {
        size_t member = 0;
        while (member < members.size() && without_suffix(members[member].name) != name) ++member;
        if (member == members.size() && inputs.size() == 1 && members.size() == 1) member = 0;
        if (member == members.size()) {
            std::string found;
            for (const ZipMember &one : members) found += (found.empty() ? "" : ", ") + without_suffix(one.name);
            throw Error(path + ": no array for input '" + plain(name, 80) + "'; found " + plain(found) + ".");
        }
        auto column = std::make_unique<Column>();
        if (ends_with(path, ".npy"))
            column->stream = std::make_unique<FileStream>(path);
        else
            column->stream = std::make_unique<MemberStream>(path, member);
        const std::string where = path + ": '" + plain(name, 80) + "'";
        column->header = read_header(column->stream.get(), members[member].size, where);
        if (column->header.shape.empty()) throw Error(where + " is a single number, not [N, ...].");
        if (!columns_.empty() && columns_[0]->header.shape[0] != column->header.shape[0])
            throw Error(path + ": the inputs differ in their number of samples.");
        columns_.push_back(std::move(column));
    }
}

Samples::~Samples() = default;

size_t Samples::count() const { return columns_.empty() ? 0 : size_t(columns_[0]->header.shape[0]); }

Feed Samples::next() {
    Feed feed;
    for (size_t index = 0; index < columns_.size(); ++index) {
        Column &column = *columns_[index];
        const auto &[name, kind] = inputs_[index];
        const std::string where = path_ + ": sample " + std::to_string(at_) + ", input '" + plain(name, 80) + "'";
        Tensor row{column.header.facts->dtype, Shape(column.header.shape.begin() + 1, column.header.shape.end()), {}};
        row.data.resize(bytes_of(row.shape, column.header.facts->bytes, MAX_SAMPLE, where));
        column.stream->read(row.data.data(), row.data.size());
        feed[name] = conform(std::move(row), kind, where);
    }
    ++at_;
    if (at_ == count())
        for (const auto &column : columns_) column->stream->finish();
    return feed;
}

bool ends_with(const std::string &text, const std::string &end) {
    return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void write_rows(const std::string &path, const Types &outputs, const std::vector<Feed> &rows) {
    write_whole(path, [&](const std::string &draft) {
        if (ends_with(path, ".npy"))
            write_npy(draft, path, outputs, rows);
        else
            write_npz(draft, outputs, rows);
    });
}
