// Run the network: read inputs, quantise them, run, write and print the outputs.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <numeric>
#include <stdexcept>

#include <sys/stat.h>
#include <unistd.h>

#include "tensor_file.h"

namespace {

const char *const USAGE =
    "usage: %s [options] INPUT...\n"
    "  INPUT            one file for each input, in the order of README.md: .npy, or raw bytes as the network\n"
    "                   stores them. float32 holds real values; integers hold stored ones.\n"
    "  --real           integers in .npy files are values too (pixels)\n"
    "  --mean A,B,..    real = (value - mean) * scale, for each channel or for all\n"
    "  --scale S\n"
    "  --out FOLDER     write NAME.npy (reals) and NAME.stored.npy (as the network stores them) there\n"
    "  --top N          print the N largest values of each output (5)\n"
    "  --repeat N       run each sample N times; the times of writing, running and reading are printed\n"
    "  --weights FILE   weights.bin\n"
    "  --nbg FILE       load the network in binary form instead of building it\n"
    "  --save-nbg FILE  write the network in binary form, and stop\n";

struct Options {
    std::vector<std::string> inputs;
    std::string weights, binary, save, out;
    Preprocessing how;
    size_t top = 5;
    long repeat = 1;
};

std::vector<float> numbers(const char *text) {
    std::vector<float> found;
    for (char *end = nullptr;; text = end + 1) {
        found.push_back(std::strtof(text, &end));
        if (end == text || (*end != ',' && *end != '\0')) throw std::runtime_error("not a number: " + std::string(text));
        if (*end == '\0') return found;
    }
}

long count(const char *text) {
    char *end = nullptr;
    const long found = std::strtol(text, &end, 10);
    if (end == text || *end != '\0' || found < 1) throw std::runtime_error("not a count: " + std::string(text));
    return found;
}

Options parse(int argc, char **argv) {
    Options found;
    for (int at = 1; at < argc; ++at) {
        const std::string word = argv[at];
        const auto value = [&]() {
            if (at + 1 >= argc) throw std::runtime_error(word + " needs a value");
            return argv[++at];
        };
        if (word == "--real") found.how.values_are_real = true;
        else if (word == "--mean") found.how.mean = numbers(value());
        else if (word == "--scale") found.how.scale = numbers(value())[0];
        else if (word == "--out") found.out = value();
        else if (word == "--top") found.top = size_t(count(value()));
        else if (word == "--repeat") found.repeat = count(value());
        else if (word == "--weights") found.weights = value();
        else if (word == "--nbg") found.binary = value();
        else if (word == "--save-nbg") found.save = value();
        else if (word.rfind("--", 0) == 0) throw std::runtime_error("unknown option " + word);
        else found.inputs.push_back(word);
    }
    return found;
}

uint32_t adler32(const std::vector<uint8_t> &data) {
    uint32_t low = 1, high = 0;
    for (uint8_t byte : data) {
        low = (low + byte) % 65521;
        high = (high + low) % 65521;
    }
    return high << 16 | low;
}

uint64_t word(const std::vector<uint8_t> &data, size_t at, size_t size) {
    uint64_t found = 0;
    for (size_t index = 0; index < size; ++index) found |= uint64_t(data[at + index]) << (8 * index);
    return found;
}

// CRC-32 of a binary network, whose field for it (bytes 12 to 15) counts as zero.
uint32_t crc32(const std::vector<uint8_t> &data) {
    uint32_t crc = 0xffffffffu;
    for (size_t index = 0; index < data.size(); ++index) {
        crc ^= index >= 12 && index < 16 ? 0 : data[index];
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

// The vendor's library runs some damaged binaries with garbage, and ends the program on others.
void check_binary(const std::string &path, const std::vector<uint8_t> &data) {
    if (data.size() < 32 || std::memcmp(data.data(), "VPMN", 4) != 0)
        throw std::runtime_error(path + ": not a binary network");
    const char *pid = std::strstr(PART, "_PID0X");
    if (pid != nullptr && word(data, 8, 4) != std::strtoul(pid + 6, nullptr, 16))
        throw std::runtime_error(path + ": for another part than " + PART);
    const bool known = word(data, 4, 4) == 0x00020005;  // earlier formats have no checksum there
    if (known && (word(data, 16, 8) != data.size() || word(data, 12, 4) != crc32(data)))
        throw std::runtime_error(path + ": damaged or cut short");
}

std::unique_ptr<Network> open_network(const Options &options) {
    if (!options.binary.empty()) {
        const std::vector<uint8_t> binary = read_file(options.binary);
        check_binary(options.binary, binary);
        return load_network(binary);
    }
    // On a board the project's folder is elsewhere: weights.bin then lies where the program is started.
    const bool here = std::ifstream("weights.bin").good();
    const std::string path = !options.weights.empty() ? options.weights : here ? "weights.bin" : WEIGHTS_FILE;
    const std::vector<uint8_t> weights = read_file(path);
    if (weights.size() != WEIGHT_BYTES || adler32(weights) != WEIGHT_CHECKSUM)
        throw std::runtime_error(path + ": damaged, or of another network");
    return build_network(weights);
}

void print_output(const Edge &edge, const std::vector<uint8_t> &stored, size_t sample, size_t top) {
    std::vector<float> values = to_reals(edge, stored);
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t(0));
    const size_t shown = std::min(top, order.size());
    const auto larger = [&](size_t one, size_t other) {
        return values[one] > values[other] || (values[one] == values[other] && one < other);
    };
    std::partial_sort(order.begin(), order.begin() + std::ptrdiff_t(shown), order.end(), larger);
    std::printf("output '%s' sample %zu: %zu values, largest:\n", edge.name, sample, values.size());
    for (size_t rank = 0; rank < shown; ++rank) std::printf("  [%zu] %.9g\n", order[rank], double(values[order[rank]]));
}

// Return which file each input is read from: one that the network stores in two ways has one name, and one file.
std::vector<size_t> sources() {
    std::vector<std::string> names;
    std::vector<size_t> found;
    for (const Edge &edge : network_inputs()) {
        const auto place = std::find(names.begin(), names.end(), edge.name);
        found.push_back(size_t(place - names.begin()));
        if (place == names.end()) names.push_back(edge.name);
    }
    return found;
}

int run(const Options &options) {
    const std::vector<size_t> files = sources();
    const size_t wanted = files.empty() ? 0 : 1 + *std::max_element(files.begin(), files.end());
    if (options.save.empty() && options.inputs.size() != wanted)
        throw std::runtime_error("the network has " + std::to_string(wanted) + " inputs, " +
                                 std::to_string(options.inputs.size()) + " files were given");
    if (!options.save.empty()) {
        std::unique_ptr<Network> network = open_network(options);
        const std::vector<uint8_t> made = network->binary();
        write_file(options.save, made.data(), made.size());
        std::printf("wrote %s (%zu bytes)\n", options.save.c_str(), made.size());
        return 0;
    }
    if (!options.out.empty() && mkdir(options.out.c_str(), 0777) != 0 && errno != EEXIST)
        throw std::runtime_error(options.out + ": cannot be made: " + std::strerror(errno));
    std::vector<std::vector<uint8_t>> inputs, outputs(network_outputs().size());
    for (size_t index = 0; index < files.size(); ++index)
        inputs.push_back(read_input(options.inputs[files[index]], network_inputs()[index], options.how));
    const size_t samples = inputs.empty() ? 1 : inputs[0].size() / network_inputs()[0].bytes();
    for (size_t index = 0; index < inputs.size(); ++index)
        if (inputs[index].size() / network_inputs()[index].bytes() != samples)
            throw std::runtime_error("the inputs hold different numbers of samples");
    std::unique_ptr<Network> network = open_network(options);
    network->compile();
    double seconds = 0.0, least = std::numeric_limits<double>::infinity();
    std::vector<std::vector<uint8_t>> stored;
    for (const Edge &edge : network_outputs()) stored.emplace_back(edge.bytes());
    for (size_t sample = 0; sample < samples; ++sample) {
        for (long turn = 0; turn < options.repeat; ++turn) {
            const auto start = std::chrono::steady_clock::now();
            for (size_t index = 0; index < inputs.size(); ++index)
                network->write(index, &inputs[index][sample * network_inputs()[index].bytes()]);
            network->run();
            for (size_t index = 0; index < outputs.size(); ++index) network->read(index, stored[index].data());
            const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
            seconds += taken;
            least = std::min(least, taken);
        }
        for (size_t index = 0; index < outputs.size(); ++index) {
            print_output(network_outputs()[index], stored[index], sample, options.top);
            outputs[index].insert(outputs[index].end(), stored[index].begin(), stored[index].end());
        }
    }
    if (!options.out.empty())
        for (size_t index = 0; index < outputs.size(); ++index)
            write_output(options.out, network_outputs()[index], outputs[index]);
    const double mean = seconds / double(samples) / double(options.repeat);
    std::printf("%zu samples, %.3f ms each, the fastest %.3f ms\n", samples, 1e3 * mean, 1e3 * least);
    return 0;
}

// The vendor's simulator reads these when it is loaded, before main(): start again where one is missing. It silently takes
// another part for a missing name, and 14 seconds for a missing size. A board ignores them.
void start_as_part(char **argv) {
    const char *part = std::getenv("VSIMULATOR_CONFIG");
    if (part != nullptr && std::strcmp(part, PART) != 0)
        throw std::runtime_error("VSIMULATOR_CONFIG is " + std::string(part) + "; the network is for " + PART);
    const char *size = std::getenv("VSIMULATOR_CONTIGUOUS_SIZE"), *sdk = std::getenv("VIVANTE_SDK_DIR");
    if (part != nullptr && size != nullptr && sdk != nullptr) return;
    setenv("VSIMULATOR_CONFIG", PART, 1);
    setenv("VSIMULATOR_CONTIGUOUS_SIZE", "268435456", 0);
    setenv("VIVANTE_SDK_DIR", SDK_DIR, 0);  // shader kernels are compiled with its headers
    execv("/proc/self/exe", argv);
    throw std::runtime_error("cannot start again with VSIMULATOR_CONFIG set: set it to " + std::string(PART));
}

}  // namespace

int main(int argc, char **argv) {
    if (argc < 2 || std::strcmp(argv[1], "--help") == 0) {
        std::printf(USAGE, argv[0]);
        return argc < 2 ? 2 : 0;
    }
    try {
        const Options options = parse(argc, argv);
        start_as_part(argv);
        const int code = run(options);
        std::fflush(stdout);
        // The vendor's libraries have been seen to hang when they are taken down.
        std::_Exit(code);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        std::fflush(nullptr);
        std::_Exit(1);
    }
}
