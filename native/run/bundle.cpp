#include "bundle.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>

#include <nlohmann/json.hpp>

#include "error.h"

namespace {

using nlohmann::json;

constexpr uint64_t MAX_MANIFEST = uint64_t(256) << 20,
                   MAX_BLOB = sizeof(size_t) == 8 ? uint64_t(4) << 30 : uint64_t(1) << 30;
constexpr size_t MAX_PARTITIONS = 100000, MAX_MEMBERS = MAX_PARTITIONS + 2;
constexpr int MAX_DEPTH = 16;
constexpr int SCHEMA = 1;
const std::string MANIFEST = "manifest.json", PLAN = "plan.json";

// The files of a bundle by name: those of a folder, or of a zip archive, whose names are the same and lead nowhere
// else.
class Source {
  public:
    explicit Source(const std::string &path) : path_(path) {
        if (is_folder(path)) return;
        archive_ = std::make_unique<ZipReader>(path, MAX_MEMBERS);
        for (const ZipMember &member : archive_->members())
            if (!is_own(member.name))
                throw Error(path + ": holds '" + plain(member.name, 80) + "', which is no part of a bundle.");
    }

    Bytes read(const std::string &name, uint64_t limit) {
        if (!archive_) return read_in_folder(path_, name, limit);
        const auto &members = archive_->members();
        for (size_t index = 0; index < members.size(); ++index) {
            if (members[index].name != name) continue;
            if (members[index].size > limit)
                throw Error(path_ + "/" + name + ": larger than " + std::to_string(limit) + " bytes.");
            Bytes content(size_t(members[index].size));
            archive_->open(index);
            archive_->read(content.data(), content.size());
            archive_->finish();
            return content;
        }
        throw Error(path_ + "/" + name + ": missing.", COPY_AGAIN);
    }

  private:
    static bool is_own(const std::string &name) {
        static const std::string BEGIN = "partition-", END = ".blob";
        if (name == MANIFEST || name == PLAN) return true;
        if (name.size() <= BEGIN.size() + END.size() || name.compare(0, BEGIN.size(), BEGIN) != 0 ||
            name.compare(name.size() - END.size(), END.size(), END) != 0)
            return false;
        const std::string digits = name.substr(BEGIN.size(), name.size() - BEGIN.size() - END.size());
        return digits.find_first_not_of("0123456789") == std::string::npos;
    }

    std::string path_;
    std::unique_ptr<ZipReader> archive_;
};

// Write a number as Python's repr does, which the checksum is computed of.
std::string python_repr(double value) {
    char text[40];
    const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific).ptr;
    std::string digits(text, end), sign;
    const size_t mark = digits.find('e');
    const int exponent = std::atoi(digits.c_str() + mark + 1);
    digits.resize(mark);
    if (digits[0] == '-') {
        sign = "-";
        digits.erase(0, 1);
    }
    if (exponent < -4 || exponent >= 16) return std::string(text, end);
    digits.erase(std::remove(digits.begin(), digits.end(), '.'), digits.end());
    if (exponent < 0) return sign + "0." + std::string(size_t(-exponent - 1), '0') + digits;
    if (digits.size() <= size_t(exponent) + 1)
        return sign + digits + std::string(size_t(exponent) + 1 - digits.size(), '0') + ".0";
    return sign + digits.substr(0, size_t(exponent) + 1) + "." + digits.substr(size_t(exponent) + 1);
}

// Write a document as `json.dumps(document, sort_keys=True, separators=(",", ":"))`.
void canonical(const json &value, std::string *text) {
    if (value.is_object()) {
        *text += '{';
        for (auto item = value.begin(); item != value.end(); ++item) {
            if (item != value.begin()) *text += ',';
            *text += json(item.key()).dump(-1, ' ', true) + ":";
            canonical(item.value(), text);
        }
        *text += '}';
    } else if (value.is_array()) {
        *text += '[';
        for (size_t index = 0; index < value.size(); ++index) {
            if (index > 0) *text += ',';
            canonical(value[index], text);
        }
        *text += ']';
    } else {
        *text += value.is_number_float() ? python_repr(value.get<double>()) : value.dump(-1, ' ', true);
    }
}

json read_document(const std::string &where, const Bytes &content) {
    json document = json::parse(content.begin(), content.end(), [&](int depth, json::parse_event_t, json &) {
        if (depth > MAX_DEPTH) throw Error(where + ": malformed: it is nested too deep.", COPY_AGAIN);
        return true;
    });
    if (!document.is_object()) throw Error(where + ": malformed: a table is expected.", COPY_AGAIN);
    const auto seal = document.find("checksum");
    if (seal == document.end()) return document;
    const json stated = *seal;
    document.erase(seal);
    std::string text;
    canonical(document, &text);
    if (stated != sha256_of(text.data(), text.size()).substr(0, 16))
        throw Error(where + ": damaged, or edited by hand: the content does not have its checksum.", COPY_AGAIN);
    return document;
}

Types read_types(const json &table) {
    Types types;
    if (!table.is_object()) throw Error("a table of types is expected.", COPY_AGAIN);
    for (const auto &item : table.items()) types.emplace_back(item.key(), parse_type(item.value().get<std::string>()));
    return types;
}

Types read_side(const json &names, const json &tensors) {
    Types types;
    if (!names.is_array()) throw Error("inputs and outputs are lists.", COPY_AGAIN);
    for (const json &name : names) {
        if (find_type(types, name.get<std::string>()) != nullptr) throw Error("a tensor is named twice.", COPY_AGAIN);
        types.emplace_back(name.get<std::string>(), parse_type(tensors.at(name.get<std::string>()).get<std::string>()));
    }
    return types;
}

Bytes read_checked(Source *source, const std::string &path, const std::string &name, uint64_t limit,
                   const json &sha256) {
    Bytes content = source->read(name, limit);
    if (sha256.get<std::string>() != sha256_of(content.data(), content.size()))
        throw Error(path + "/" + name + ": damaged: its checksum differs.", COPY_AGAIN);
    return content;
}

Partition read_partition(Source *source, const std::string &path, size_t index, const json &entry) {
    Partition part;
    part.index = index;
    part.target = entry.at("target").get<std::string>();
    part.backend = entry.at("backend").get<std::string>();
    part.backend_version = entry.at("backend_version").get<std::string>();
    part.format = entry.at("format").get<std::string>();
    const json &tensors = entry.at("tensors");
    if (!tensors.is_object()) throw Error("a table of tensors is expected.", COPY_AGAIN);
    part.inputs = read_side(entry.at("inputs"), tensors);
    part.outputs = read_side(entry.at("outputs"), tensors);
    const json needs = entry.value("needs", json::object());
    for (const auto &item : needs.items()) part.needs[item.key()] = item.value().get<std::string>();
    const std::string name = "partition-" + std::to_string(index) + ".blob";
    part.blob = read_checked(source, path, name, MAX_BLOB, entry.at("sha256"));
    return part;
}

// Refuse a partition that reads what nothing before it makes, and outputs that are missing.
void check_flow(const Bundle &bundle, const std::string &path) {
    std::map<std::string, TensorType> known(bundle.inputs.begin(), bundle.inputs.end());
    for (const Partition &part : bundle.partitions) {
        for (const auto &[name, kind] : part.inputs) {
            const auto found = known.find(name);
            if (found == known.end() || !(found->second == kind))
                throw Error(path + ": partition " + std::to_string(part.index) + " reads '" + plain(name, 80) + "' " +
                                (found == known.end() ? "which nothing before it makes." : "as another type."),
                            COMPILE_AGAIN);
        }
        for (const auto &[name, kind] : part.outputs) known.insert_or_assign(name, kind);
    }
    for (const auto &[name, kind] : bundle.outputs) {
        const auto found = known.find(name);
        if (found == known.end() || !(found->second == kind))
            throw Error(path + ": no partition makes output '" + plain(name, 80) + "'" +
                            (found == known.end() ? "." : " of this type."),
                        COMPILE_AGAIN);
    }
}

Bundle read_bundle(const std::string &path) {
    Source source(path);
    const std::string where = path + "/" + MANIFEST;
    const Bytes manifest = source.read(MANIFEST, MAX_MANIFEST);
    const json document = read_document(where, manifest);
    if (document.at("kind") != "dovetail-bundle") throw Error(path + ": not a Dovetail bundle.");
    if (!document.at("schema").is_number_integer() || document.at("schema") != SCHEMA)
        throw Error(path + ": made for schema " + plain(document.at("schema").dump(), 20) + "; this version reads " +
                        std::to_string(SCHEMA) + ".",
                    COMPILE_AGAIN);
    read_checked(&source, path, PLAN, MAX_MANIFEST, document.at("plan_sha256"));
    const json &entries = document.at("partitions");
    if (!entries.is_array() || entries.size() > MAX_PARTITIONS)
        throw Error(path + ": the list of partitions is malformed.", COPY_AGAIN);
    Bundle bundle;
    bundle.name = document.at("name").get<std::string>();
    bundle.digest = sha256_of(manifest.data(), manifest.size());
    bundle.inputs = read_types(document.at("inputs"));
    bundle.outputs = read_types(document.at("outputs"));
    for (size_t index = 0; index < entries.size(); ++index)
        bundle.partitions.push_back(read_partition(&source, path, index, entries[index]));
    check_flow(bundle, path);
    return bundle;
}

}  // namespace

std::string Partition::where() const { return "partition " + std::to_string(index) + " (" + plain(target, 80) + ")"; }

const TensorType *find_type(const Types &types, const std::string &name) {
    for (const auto &[known, kind] : types)
        if (known == name) return &kind;
    return nullptr;
}

Bundle load_bundle(const std::string &path) {
    try {
        return read_bundle(path);
    } catch (const json::exception &error) {
        throw Error(path + "/" + MANIFEST + ": malformed: " + plain(error.what()) + ".", COPY_AGAIN);
    }
}
