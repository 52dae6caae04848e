// Partitions for VeriSilicon's NPUs, by the shim in native/vsi on the driver of the board (or the vendor's simulator).
//
// The driver lives in this process and prints what it likes: what it prints goes to a file in memory, which is searched
// for the part that it started as. A driver that crashes ends the program; outputs are written at the very end, all or
// nothing.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dovetail_vsi.h"
#include "error.h"
#include "executable.h"
#include "program.h"

namespace {

constexpr const char *REVISION = "2";  // of what the backend `vsi` writes
constexpr const char *PID = "product id", *SDK = "VeriSilicon SDK";
constexpr const char *SIMULATED_MEMORY = "268435456";
constexpr size_t MOST_LOG = 32u << 20, TAIL = 400;
constexpr size_t MOST_TENSOR = size_t(1) << 30;
constexpr const char *GET_SHIM =
    "Build native/vsi on the board's SDK, give the library with --vsi, and name the folders of the driver's libraries "
    "in "
    "LD_LIBRARY_PATH.";

// While it lives, stdout and stderr are a file in memory.
class Capture {
  public:
    explicit Capture(int log) {
        std::fflush(stdout);
        std::fflush(stderr);
        for (int number : {1, 2}) {
            kept_[number - 1] = ::dup(number);
            ::dup2(log, number);
        }
    }
    ~Capture() {
        std::fflush(stdout);
        std::fflush(stderr);
        for (int number : {1, 2}) {
            ::dup2(kept_[number - 1], number);
            ::close(kept_[number - 1]);
        }
    }
    Capture(const Capture &) = delete;
    Capture &operator=(const Capture &) = delete;

  private:
    int kept_[2];
};

// Let the driver see a variable that nobody has set.
void set_unless_given(const char *name, const std::string &value) { ::setenv(name, value.c_str(), 0); }

// The shim, which stays open; one part for the whole process.
class Shim {
  public:
    Shim(const Program &program, const Board &board) : log_(::memfd_create("dovetail-run-log", MFD_CLOEXEC)) {
        if (log_ < 0) throw Error("no file in memory can be made for what the driver prints.");
        // What the simulator reads; a board's driver does not.
        set_unless_given("VSIMULATOR_CONFIG", program.sdk_name);
        set_unless_given("VSIMULATOR_CONTIGUOUS_SIZE", SIMULATED_MEMORY);
        set_unless_given("VIV_VX_DEBUG_LEVEL", "1");
        const Capture capture(log_);
        const std::string path = board.vsi_library.empty() ? "libdovetail_vsi.so" : board.vsi_library;
        void *handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle == nullptr) throw Error("the driver's shim cannot be loaded: " + plain(::dlerror()) + ".", GET_SHIM);
        const auto find = [&](auto *function, const char *name) {
            *reinterpret_cast<void **>(function) = ::dlsym(handle, name);
            if (*function == nullptr) throw Error(path + ": it has no function '" + name + "'.", GET_SHIM);
        };
        find(&abi, "dtv_abi");
        find(&last_error, "dtv_last_error");
        find(&create, "dtv_create");
        find(&add_tensor, "dtv_add_tensor");
        find(&add_operator, "dtv_add_operator");
        find(&add_binary, "dtv_add_binary");
        find(&set_edges, "dtv_set_edges");
        find(&setup, "dtv_setup");
        find(&compile, "dtv_compile");
        find(&write, "dtv_write");
        find(&run, "dtv_run");
        find(&read, "dtv_read");
        if (abi() != DTV_ABI)
            throw Error(
                "the shim has interface " + std::to_string(abi()) + "; " + std::to_string(DTV_ABI) + " is needed.",
                "Build native/vsi again, from the same version as this program.");
    }

    int log_number() const { return log_; }

    // What the driver has printed; an endless log is cut.
    std::string log() const {
        std::string text(MOST_LOG, '\0');
        const ssize_t size = ::pread(log_, text.data(), text.size(), 0);
        text.resize(size < 0 ? 0 : size_t(size));
        return text;
    }

    Error refusal(const std::string &doing) const {
        const std::string text = log();
        const std::string tail = text.size() > TAIL ? text.substr(text.size() - TAIL) : text;
        return Error(doing + ": " + plain(last_error()) + (tail.empty() ? "." : "; it said: " + plain(tail, TAIL)));
    }

    void check(int status, const char *doing) const {
        if (status < 0) throw refusal(doing);
    }

    decltype(&dtv_abi) abi;
    decltype(&dtv_last_error) last_error;
    decltype(&dtv_create) create;
    decltype(&dtv_add_tensor) add_tensor;
    decltype(&dtv_add_operator) add_operator;
    decltype(&dtv_add_binary) add_binary;
    decltype(&dtv_set_edges) set_edges;
    decltype(&dtv_setup) setup;
    decltype(&dtv_compile) compile;
    decltype(&dtv_write) write;
    decltype(&dtv_run) run;
    decltype(&dtv_read) read;

  private:
    int log_;
};

const Shim &shim_of(const Program &program, const Board &board) {
    static const std::string part = program.sdk_name;
    static const Shim shim(program, board);
    if (part != program.sdk_name)
        throw Error("the bundle has partitions for " + plain(part, 40) + " and for " + plain(program.sdk_name, 40) +
                        "; a board has one part.",
                    "Compile the model for one.");
    return shim;
}

int32_t count_of(size_t size) { return int32_t(size); }

class Network : public Executable {
  public:
    Network(const Partition &part, Program program, const Shim &shim)
        : part_(part), program_(std::move(program)), shim_(shim) {
        const Capture capture(shim_.log_number());
        graph_ = shim_.create();
        if (graph_ == nullptr) throw shim_.refusal("starting");
        for (const ProgramTensor &tensor : program_.tensors) add(tensor);
        for (size_t uid = 0; uid < program_.operators.size(); ++uid) add(program_.operators[uid], uint32_t(uid));
        const std::vector<int32_t> inputs = ids_of(program_.inputs), outputs = ids_of(program_.outputs);
        if (program_.binary != nullptr) {
            const ProgramOperator one{"binary", inputs, outputs, {}, {}};
            const dtv_operator op = as_operator(one, 0);
            shim_.check(shim_.add_binary(graph_, program_.binary, program_.binary_bytes, &op),
                        "adding the binary network");
        }
        shim_.check(
            shim_.set_edges(graph_, inputs.data(), count_of(inputs.size()), outputs.data(), count_of(outputs.size())),
            "naming inputs and outputs");
        shim_.check(shim_.setup(graph_), "building");
        shim_.check(shim_.compile(graph_), "compiling");
    }

    std::string device() const override { return "vsi"; }

    Feed run(const Feed &inputs) override {
        const Capture capture(shim_.log_number());
        const int64_t count = program_.batched ? inputs.at(part_.inputs.at(0).first).shape.at(0) : 1;
        Feed whole;
        for (int64_t number = 0; number < count; ++number) run_sample(inputs, number, count, &whole);
        if (count == 0)
            for (const auto &[name, id] : program_.outputs)
                whole[name] = {find_type(part_.outputs, name)->dtype, shape_of(name, id, 0), {}};
        return whole;
    }

  private:
    static std::vector<int32_t> ids_of(const Edges &edges) {
        std::vector<int32_t> ids;
        for (const auto &[name, id] : edges) ids.push_back(id);
        return ids;
    }

    static dtv_operator as_operator(const ProgramOperator &op, uint32_t uid) {
        return {op.kind.c_str(),
                uid,
                count_of(op.inputs.size()),
                count_of(op.outputs.size()),
                count_of(op.ints.size()),
                count_of(op.floats.size()),
                op.inputs.data(),
                op.outputs.data(),
                op.ints.data(),
                op.floats.data()};
    }

    void add(const ProgramTensor &tensor) {
        const dtv_tensor given = {tensor.dtype,
                                  tensor.role,
                                  count_of(tensor.shape.size()),
                                  tensor.quant,
                                  tensor.zero_point,
                                  tensor.fl,
                                  tensor.scale,
                                  count_of(tensor.scales.size()),
                                  tensor.axis,
                                  tensor.shape.data(),
                                  tensor.scales.data(),
                                  tensor.zero_points.data(),
                                  tensor.data,
                                  tensor.data_bytes};
        shim_.check(shim_.add_tensor(graph_, &given), "adding a tensor");
    }

    void add(const ProgramOperator &op, uint32_t uid) {
        const dtv_operator given = as_operator(op, uid);
        shim_.check(shim_.add_operator(graph_, &given), "adding an operator");
    }

    Shape shape_of(const std::string &name, int32_t id, int64_t rows) const {
        const TensorType *kind = find_type(part_.outputs, name);
        if (kind->shape && kind->shape->empty()) return {};
        Shape shape = program_.tensors[size_t(id)].slow_shape();
        if (program_.batched) shape.at(0) = rows;
        return shape;
    }

    void run_sample(const Feed &inputs, int64_t number, int64_t count, Feed *whole) {
        for (const auto &[name, id] : program_.inputs) {
            const Tensor &tensor = inputs.at(name);
            const size_t bytes = tensor.data.size() / size_t(count);
            const Bytes stored = to_vendor(name, program_.tensors[size_t(id)], tensor, size_t(number) * bytes, bytes);
            shim_.check(shim_.write(graph_, id, stored.data(), stored.size()), "writing an input");
        }
        shim_.check(shim_.run(graph_), "running");
        for (const auto &[name, id] : program_.outputs) {
            const ProgramTensor &tensor = program_.tensors[size_t(id)];
            Bytes stored(tensor.size_bytes());
            shim_.check(shim_.read(graph_, id, stored.data(), stored.size()), "reading an output");
            Tensor &made = (*whole)[name];
            made.dtype = find_type(part_.outputs, name)->dtype;
            made.shape = shape_of(name, id, count);
            from_vendor(name, tensor, stored, &made);
        }
    }

    [[noreturn]] void no_form(const std::string &name) const {
        throw Error(part_.where() + ": '" + plain(name, 80) + "' has a form that is not run here.",
                    "Use the runtime in Python.");
    }

    // Return stored elements in the vendor's type: indices have 32 bits there, and a bfloat16 is the upper half of a
    // float.
    Bytes to_vendor(const std::string &name, const ProgramTensor &tensor, const Tensor &given, size_t at,
                    size_t bytes) const {
        const uint8_t *from = given.data.data() + at;
        const size_t count = bytes / facts_of(given.dtype).bytes;
        Bytes found;
        if (given.dtype == DType::BF16 && tensor.dtype == DTV_BF16) {
            found.resize(count * 2);
            for (size_t index = 0; index < count; ++index) std::memcpy(&found[index * 2], from + index * 4 + 2, 2);
        } else if (given.dtype == DType::I64 && tensor.dtype == DTV_I32) {
            found.resize(count * 4);
            for (size_t index = 0; index < count; ++index) {
                int64_t value;
                std::memcpy(&value, from + index * 8, sizeof value);
                if (value < INT32_MIN || value > INT32_MAX)
                    throw Error(part_.where() + ": input '" + plain(name, 80) + "': a value does not fit 32 bits.");
                const auto small = int32_t(value);
                std::memcpy(&found[index * 4], &small, sizeof small);
            }
        } else {
            if (!is_same(given.dtype, tensor.dtype)) no_form(name);
            found.assign(from, from + bytes);
        }
        if (found.size() != tensor.size_bytes())
            throw Error(part_.where() + ": input '" + plain(name, 80) + "' has " + std::to_string(found.size()) +
                        " bytes, not " + std::to_string(tensor.size_bytes()) + ".");
        return found;
    }

    void from_vendor(const std::string &name, const ProgramTensor &tensor, const Bytes &stored, Tensor *made) const {
        if (made->dtype == DType::BF16 && tensor.dtype == DTV_BF16) {
            for (size_t at = 0; at < stored.size(); at += 2)
                made->data.insert(made->data.end(), {0, 0, stored[at], stored[at + 1]});
        } else if (made->dtype == DType::I64 && tensor.dtype == DTV_I32) {
            for (size_t at = 0; at < stored.size(); at += 4) {
                const uint8_t sign = stored[at + 3] & 0x80 ? 0xff : 0;
                made->data.insert(made->data.end(), stored.begin() + long(at), stored.begin() + long(at) + 4);
                made->data.insert(made->data.end(), 4, sign);
            }
        } else {
            if (!is_same(made->dtype, tensor.dtype)) no_form(name);
            for (const uint8_t byte : stored) made->data.push_back(made->dtype == DType::BOOL ? byte != 0 : byte);
        }
    }

    static bool is_same(DType dtype, int32_t code) {
        static const int32_t CODES[] = {0,       DTV_F32, DTV_F16, 0,       DTV_I8, DTV_U8,  DTV_I16,
                                        DTV_U16, DTV_I32, DTV_U32, DTV_I64, 0,      DTV_BOOL};
        return CODES[size_t(dtype)] == code;
    }

    const Partition &part_;
    Program program_;
    const Shim &shim_;
    dtv_graph *graph_ = nullptr;
};

// The version of an SDK, by the name of its folder: that of the simulator, where a board has none.
std::string sdk_here() {
    const char *given = std::getenv("VIVANTE_SDK_DIR");
    std::string path = given == nullptr ? "" : given;
    const auto last = [&]() {
        while (!path.empty() && path.back() == '/') path.pop_back();
        const size_t slash = path.rfind('/');
        const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
        path.resize(slash == std::string::npos ? 0 : slash);
        return name;
    };
    std::string name = last();
    if (name == "sdk") name = last();
    const std::string prefix = "verisilicon-";
    return name.rfind(prefix, 0) == 0 ? name.substr(prefix.size()) : name;
}

std::string fact(const Board &board, const std::string &name, const std::string &otherwise) {
    const auto found = board.facts.find(name);
    return found == board.facts.end() ? otherwise : found->second;
}

// What is needed besides the part, which the driver names when it has started.
void check_needs(const Partition &part, const Board &board) {
    for (const auto &[name, wanted] : part.needs) {
        if (name == PID && fact(board, PID, wanted) == wanted) continue;
        const std::string here = fact(board, name, name == SDK ? sdk_here() : "");
        if (here != wanted)
            throw Error(part.where() + " does not run here: it needs " + plain(name, 80) + " " + plain(wanted, 80) +
                            ", and " + (here.empty() ? "nobody says what is here." : plain(here, 80) + " is here."),
                        "Say what the board has: --have '" + plain(name, 80) + "=...', or compile the model for it.");
    }
}

// Return the product id that the driver said that it started as; empty where it said none.
std::string pid_said(const std::string &log) {
    const size_t line = log.find("#productname=");
    const size_t at = line == std::string::npos ? line : log.find("pid=0x", line);
    if (at == std::string::npos || at > log.find('\n', line)) return "";
    char *end = nullptr;
    char text[24];
    std::snprintf(text, sizeof text, "%#lx", std::strtoul(log.c_str() + at + 4, &end, 16));
    return text;
}

}  // namespace

std::unique_ptr<Executable> open_verisilicon(const Partition &part, const Board &board) {
    if (part.format != "nbg" && part.format != "vsi-graph")
        throw Error(part.where() + ": a blob of format '" + plain(part.format, 40) + "' is not for this driver.",
                    COMPILE_AGAIN);
    check_needs(part, board);
    // The rest of the version marks the SDK of the machine that compiled it; the bundle names the one that it needs.
    check_version(part, part.backend_version.substr(0, part.backend_version.rfind('.')),
                  std::string(DOVETAIL_VERSION) + "+" + REVISION, board);
    Program program = read_program(part);
    try {
        char wanted[24];
        std::snprintf(wanted, sizeof wanted, "%#x", program.pid);
        const Shim &shim = shim_of(program, board);
        auto network = std::make_unique<Network>(part, std::move(program), shim);
        const std::string log = shim.log(), said = pid_said(log), here = said.empty() ? fact(board, PID, "") : said;
        if (here != wanted)
            throw Error("it is for the part with product id " + std::string(wanted) + ", and the driver " +
                            (here.empty() ? "does not say what is here." : "started as " + here + "."),
                        here.empty() ? "If the board has it, say so: --have 'product id=...'." : COMPILE_AGAIN);
        if (log.find("Failed to compile vx shader") != std::string::npos)
            throw Error("a shader kernel does not compile; the driver would run it with garbage.",
                        "Place its nodes elsewhere.");
        return network;
    } catch (const Error &error) {
        throw Error(part.where() + " does not load: " + error.what());
    }
}
