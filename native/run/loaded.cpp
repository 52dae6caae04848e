#include "loaded.h"

#include <chrono>

#include "error.h"

namespace {

using Clock = std::chrono::steady_clock;

int64_t ns_between(Clock::time_point start, Clock::time_point end) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
}

std::unique_ptr<Executable> open(const Partition &part, const Board &board) {
    if (part.backend == "vsi") return open_verisilicon(part, board);
    for (const auto &[name, wanted] : part.needs)
        if (board.facts.count(name) == 0 || board.facts.at(name) != wanted)
            throw Error(part.where() + " does not run here: it needs " + plain(name, 80) + " " + plain(wanted, 80) + ".",
                        "If the board has it, say so: --have 'NAME=VALUE'.");
    if (part.backend == "cpu" || part.backend == "ort") return open_onnxruntime(part, board);
    throw Error(part.where() + " is compiled by '" + plain(part.backend, 40) +
                    "', which this program does not run: it runs cpu, ort (on the CPU) and vsi.",
                "Use the runtime in Python, or compile it with --backend " + plain(part.target, 40) + "=...");
}

}  // namespace

Loaded::Loaded(const Bundle &bundle, const Board &board) : bundle_(bundle) {
    for (const Partition &part : bundle.partitions) {
        parts_.push_back(open(part, board));
        for (const auto &[name, kind] : part.inputs) last_reader_[name] = part.index;
    }
    for (const auto &[name, kind] : bundle.outputs) last_reader_[name] = bundle.partitions.size();
}

Feed Loaded::run(const Feed &inputs, RunTimes *times) {
    const Clock::time_point start = Clock::now();
    Feed known = inputs;
    for (const Partition &part : bundle_.partitions) {
        const Clock::time_point begin = Clock::now();
        Feed made = parts_[part.index]->run(known);
        const Clock::time_point end = Clock::now();
        if (times != nullptr) times->marks.push_back({ns_between(start, begin), ns_between(begin, end)});
        for (auto &[name, tensor] : made)
            if (last_reader_.count(name) != 0) known[name] = std::move(tensor);
        for (const auto &[name, kind] : part.inputs)
            if (last_reader_.at(name) == part.index) known.erase(name);
    }
    Feed outputs;
    for (const auto &[name, kind] : bundle_.outputs) outputs[name] = std::move(known.at(name));
    if (times != nullptr) times->elapsed_ns = ns_between(start, Clock::now());
    return outputs;
}

std::vector<std::string> Loaded::devices() const {
    std::vector<std::string> names;
    for (const auto &part : parts_) names.push_back(part->device());
    return names;
}

void check_version(const Partition &part, const std::string &compiled, const std::string &here, const Board &board) {
    if (compiled != here && !board.any_version)
        throw Error(part.where() + " was compiled by " + plain(part.backend, 40) + " " + plain(compiled, 80) + "; " +
                        here + " is here.",
                    "Compile the model again, or run it with --any-version.");
}
