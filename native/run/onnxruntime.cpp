// Partitions that ONNX Runtime runs on its CPU provider, by a library that is opened when the first of them is.

#include <cstring>
#include <memory>

#include <dlfcn.h>

#include <nlohmann/json.hpp>

#include "error.h"
#include "executable.h"
#include "onnx.h"
#include "ort_abi.h"

namespace {

using nlohmann::json;

constexpr size_t MAX_BLOB_HEADER = 1 << 16, MAX_OUTPUT = size_t(1) << 30;
constexpr const char *REVISION_OF_ORT = "1";  // of what the backend `ort` writes
constexpr const char *GET_LIBRARY =
    "Give the path of libonnxruntime.so with --ort: it is in ONNX Runtime's package for Python and in its releases.";

// The library, which stays open.
class Library {
  public:
    explicit Library(const std::string &path) {
        void *handle = path.empty() ? nullptr : ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (path.empty())
            for (const char *name : {"libonnxruntime.so.1", "libonnxruntime.so"})
                if (handle == nullptr) handle = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (handle == nullptr) throw Error("ONNX Runtime cannot be loaded: " + plain(::dlerror()) + ".", GET_LIBRARY);
        const auto base = reinterpret_cast<const ort::ApiBase *(*)()>(::dlsym(handle, "OrtGetApiBase"));
        if (base == nullptr) throw Error(path + ": this is no library of ONNX Runtime.", GET_LIBRARY);
        version_ = base()->version();
        table_ = base()->get_api(ort::TABLE_VERSION);
        if (table_ == nullptr) throw Error("ONNX Runtime " + version_ + " is too old.", "1.7 or newer is needed.");
        ask(ort::CREATE_ENV, ort::LOG_FATAL, "dovetail-run", &env_);
        ask(ort::DISABLE_TELEMETRY, env_);
    }

    const std::string &version() const { return version_; }
    const ort::Env *env() const { return env_; }

    // Call a function that returns a status; throw Error where it is one.
    template <typename... Given>
    void ask(ort::Place place, Given... given) const {
        const auto function = reinterpret_cast<ort::Status *(*)(Given...)>(const_cast<void *>(table_[place]));
        ort::Status *status = function(given...);
        if (status == nullptr) return;
        const auto message =
            reinterpret_cast<const char *(*)(const ort::Status *)>(const_cast<void *>(table_[ort::GET_ERROR_MESSAGE]));
        const std::string said = plain(message(status));
        release(ort::RELEASE_STATUS, status);
        throw Error(said);
    }

    template <typename Held>
    void release(ort::Place place, Held *held) const {
        if (held != nullptr) reinterpret_cast<void (*)(Held *)>(const_cast<void *>(table_[place]))(held);
    }

  private:
    const void *const *table_ = nullptr;
    ort::Env *env_ = nullptr;
    std::string version_;
};

const Library &library_of(const Board &board) {
    static const Library library(board.ort_library);
    return library;
}

// Something of the library's that is released at the end.
template <typename Held>
class Owned {
  public:
    Owned(const Library &library, ort::Place place) : library_(library), place_(place) {}
    ~Owned() { library_.release(place_, held_); }
    Owned(const Owned &) = delete;
    Owned &operator=(const Owned &) = delete;
    Held **out() { return &held_; }
    Held *get() const { return held_; }

  private:
    const Library &library_;
    ort::Place place_;
    Held *held_ = nullptr;
};

struct Model {
    const uint8_t *data;
    size_t size;
    int threads;
};

int threads_of(const std::string &text, const std::string &where) {
    if (text.empty() || text.size() > 4 || text.find_first_not_of("0123456789") != std::string::npos)
        throw Error(where + ": '" + plain(text, 20) + "' is no number of threads.", COMPILE_AGAIN);
    return std::stoi(text);
}

// Return the model in a blob of `cpu`: the blob itself.
Model plain_model(const Partition &part) {
    const auto threads = read_onnx(part.blob.data(), part.blob.size()).metadata;
    const auto found = threads.find("dovetail.threads");
    return {part.blob.data(), part.blob.size(), found == threads.end() ? 0 : threads_of(found->second, part.where())};
}

// Return the model in a blob of `ort`: a line of JSON goes before it.
Model headed_model(const Partition &part, const std::string &version) {
    const auto *begin = reinterpret_cast<const char *>(part.blob.data());
    const auto *end = static_cast<const char *>(std::memchr(begin, '\n', std::min(part.blob.size(), MAX_BLOB_HEADER)));
    if (end == nullptr) throw Error(part.where() + ": the blob has no header.", COMPILE_AGAIN);
    const json header = json::parse(begin, end);
    const auto device = header.at("device").get<std::string>(), mark = header.at("mark").get<std::string>();
    if (device != "CPU")
        throw Error(
            part.where() + ": it is compiled for ONNX Runtime's '" + plain(device, 80) + "'; here only CPU runs.",
            "Compile it for cpu.");
    if (!mark.empty() && !version.empty() && mark != version)
        throw Error(part.where() + ": the blob was compiled for '" + plain(mark, 80) + "'; here is '" + version + "'.",
                    COMPILE_AGAIN);
    const size_t start = size_t(end - begin) + 1;
    Model model{part.blob.data() + start, part.blob.size() - start, 0};
    if (header.at("sha256") != sha256_of(model.data, model.size))
        throw Error(part.where() + ": the blob is damaged: its checksum differs.", COMPILE_AGAIN);
    for (const json &pair : header.at("properties"))
        if (pair.at(0) == "dovetail.threads") model.threads = threads_of(pair.at(1).get<std::string>(), part.where());
    return model;
}

class Session : public Executable {
  public:
    Session(const Partition &part, const Library &library, const Model &model)
        : part_(part),
          library_(library),
          session_(library, ort::RELEASE_SESSION),
          memory_(library, ort::RELEASE_MEMORY) {
        Owned<ort::SessionOptions> options(library, ort::RELEASE_OPTIONS);
        library.ask(ort::CREATE_SESSION_OPTIONS, options.out());
        library.ask(ort::SET_LOG_SEVERITY, options.get(), ort::LOG_FATAL);
        library.ask(ort::SET_INTRA_THREADS, options.get(), model.threads);
        library.ask(ort::SET_INTER_THREADS, options.get(), 1);
        library.ask(ort::SET_OPTIMIZATION_LEVEL, options.get(), ort::OPTIMIZE_ALL);
        // The same as the runtime in Python: exact sums of bytes on processors without VNNI, and no pass of ONNX
        // Runtime that changes a quantised graph's numbers (src/dovetail/backends/sessions.py says which, and why).
        library.ask(ort::ADD_CONFIG, options.get(), "session.x64quantprecision", "1");
        library.ask(ort::ADD_CONFIG, options.get(), "optimization.disable_specified_optimizers",
                    "WeightBiasQuantization;Pad_Fusion;QDQPropagationTransformer");
        library.ask(ort::CREATE_SESSION_FROM_ARRAY, library.env(), static_cast<const void *>(model.data), model.size,
                    static_cast<const ort::SessionOptions *>(options.get()), session_.out());
        library.ask(ort::CREATE_CPU_MEMORY, ort::ARENA_ALLOCATOR, ort::DEFAULT_MEMORY, memory_.out());
        check_side(ort::INPUT_COUNT, ort::INPUT_NAME, ort::INPUT_TYPE, part.inputs, "inputs");
        check_side(ort::OUTPUT_COUNT, ort::OUTPUT_NAME, ort::OUTPUT_TYPE, part.outputs, "outputs");
        for (const auto &[name, kind] : part.inputs) inputs_.push_back(name.c_str());
        for (const auto &[name, kind] : part.outputs) outputs_.push_back(name.c_str());
    }

    std::string device() const override { return part_.backend == "cpu" ? "cpu" : part_.backend + ":CPU"; }

    Feed run(const Feed &inputs) override {
        try {
            return run_all(inputs);
        } catch (const Error &error) {
            throw Error(part_.where() + ": " + error.what());
        }
    }

  private:
    Feed run_all(const Feed &inputs) {
        std::vector<std::unique_ptr<Owned<ort::Value>>> held;
        std::vector<const ort::Value *> given;
        for (const auto &[name, kind] : part_.inputs) {
            const Tensor &tensor = inputs.at(name);
            held.push_back(std::make_unique<Owned<ort::Value>>(library_, ort::RELEASE_VALUE));
            library_.ask(ort::CREATE_TENSOR, static_cast<const ort::MemoryInfo *>(memory_.get()),
                         const_cast<void *>(static_cast<const void *>(tensor.data.data())), tensor.data.size(),
                         tensor.shape.data(), tensor.shape.size(), ort::ELEMENTS[size_t(kind.dtype)],
                         held.back()->out());
            given.push_back(held.back()->get());
        }
        std::vector<ort::Value *> made(outputs_.size(), nullptr);
        library_.ask(ort::RUN, session_.get(), static_cast<const void *>(nullptr),
                     static_cast<const char *const *>(inputs_.data()),
                     static_cast<const ort::Value *const *>(given.data()), given.size(),
                     static_cast<const char *const *>(outputs_.data()), outputs_.size(), made.data());
        for (ort::Value *value : made) {
            held.push_back(std::make_unique<Owned<ort::Value>>(library_, ort::RELEASE_VALUE));
            *held.back()->out() = value;
        }
        Feed found;
        for (size_t index = 0; index < made.size(); ++index)
            found[part_.outputs[index].first] =
                taken(made[index], part_.outputs[index].first, part_.outputs[index].second);
        return found;
    }

    Tensor taken(ort::Value *value, const std::string &name, const TensorType &kind) const {
        Owned<ort::TensorInfo> info(library_, ort::RELEASE_TENSOR_INFO);
        library_.ask(ort::TENSOR_OF_VALUE, static_cast<const ort::Value *>(value), info.out());
        size_t rank = 0;
        library_.ask(ort::RANK, static_cast<const ort::TensorInfo *>(info.get()), &rank);
        Tensor tensor{kind.dtype, Shape(rank), {}};
        library_.ask(ort::DIMENSIONS, static_cast<const ort::TensorInfo *>(info.get()), tensor.shape.data(), rank);
        check_element(info.get(), name, kind);
        if (kind.shape && !fits(*kind.shape, tensor.shape))
            throw Error("output '" + plain(name, 80) + "' has shape " + print_shape(tensor.shape) + ", not " +
                        print_shape(*kind.shape) + ".");
        tensor.data.resize(
            bytes_of(tensor.shape, facts_of(kind.dtype).bytes, MAX_OUTPUT, "output '" + plain(name, 80) + "'"));
        void *data = nullptr;
        library_.ask(ort::TENSOR_DATA, value, &data);
        if (!tensor.data.empty()) std::memcpy(tensor.data.data(), data, tensor.data.size());
        return tensor;
    }

    void check_element(const ort::TensorInfo *info, const std::string &name, const TensorType &kind) const {
        int element = 0;
        library_.ask(ort::ELEMENT_TYPE, info, &element);
        if (element == 0 || element != ort::ELEMENTS[size_t(kind.dtype)])
            throw Error("'" + plain(name, 80) + "' is of another type in the model than " + facts_of(kind.dtype).name +
                            ", or of one that is not run here.",
                        COMPILE_AGAIN);
    }

    // Compare what the model has with what the bundle says.
    void check_side(ort::Place count_at, ort::Place name_at, ort::Place type_at, const Types &expected,
                    const char *side) {
        const ort::Session *session = session_.get();
        size_t count = 0;
        library_.ask(count_at, session, &count);
        bool same = count == expected.size();
        ort::Allocator *allocator = nullptr;
        library_.ask(ort::DEFAULT_ALLOCATOR, &allocator);
        for (size_t index = 0; same && index < count; ++index) {
            char *text = nullptr;
            library_.ask(name_at, session, index, allocator, &text);
            const std::string name = text;
            library_.ask(ort::ALLOCATOR_FREE, allocator, static_cast<void *>(text));
            const TensorType *kind = find_type(expected, name);
            same = kind != nullptr;
            if (!same) break;
            Owned<ort::TypeInfo> type(library_, ort::RELEASE_TYPE);
            library_.ask(type_at, session, index, type.out());
            const ort::TensorInfo *info = nullptr;  // the type's own
            library_.ask(ort::AS_TENSOR_INFO, static_cast<const ort::TypeInfo *>(type.get()), &info);
            if (info == nullptr) throw Error("'" + plain(name, 80) + "' is no tensor in the model.", COMPILE_AGAIN);
            check_element(info, name, *kind);
        }
        if (!same) throw Error(std::string("the blob has other ") + side + " than the bundle says.", COMPILE_AGAIN);
    }

    const Partition &part_;
    const Library &library_;
    Owned<ort::Session> session_;
    Owned<ort::MemoryInfo> memory_;
    std::vector<const char *> inputs_, outputs_;
};

}  // namespace

std::unique_ptr<Executable> open_onnxruntime(const Partition &part, const Board &board) {
    const bool headed = part.backend == "ort";
    if (part.format != (headed ? "ort-model" : "onnx"))
        throw Error(part.where() + ": a blob of format '" + plain(part.format, 40) + "' is not for ONNX Runtime's CPU.",
                    "Compile it for cpu.");
    const Library &library = library_of(board);
    const std::string compiled =
        DOVETAIL_VERSION + std::string(headed ? std::string("+") + REVISION_OF_ORT + ".ort" : "+ort");
    check_version(part, part.backend_version, compiled + library.version(), board);
    try {
        const Model model = headed ? headed_model(part, board.any_version ? "" : library.version()) : plain_model(part);
        if (read_onnx(model.data, model.size).reads_files)
            throw Error("its model reads other files, which bundles never do.", COMPILE_AGAIN);
        return std::make_unique<Session>(part, library, model);
    } catch (const json::exception &error) {
        throw Error(part.where() + ": the blob is damaged: " + plain(error.what(), 80) + ".", COMPILE_AGAIN);
    } catch (const Error &error) {
        const std::string said = error.what();
        throw Error(said.rfind("partition ", 0) == 0 ? said : part.where() + ": the blob cannot be loaded: " + said);
    }
}
