#include "output.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "error.h"

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Of nanoseconds: the median, the quartiles around it, the least and the most.
struct Spread {
    int64_t median, low, high, least, most;
};

Spread spread_of(std::vector<int64_t> values) {
    std::sort(values.begin(), values.end());
    const auto at = [&](double share) {
        const double place = share * double(values.size() - 1);
        const auto below = size_t(place);
        const size_t above = std::min(below + 1, values.size() - 1);
        return int64_t(double(values[below]) + (place - double(below)) * double(values[above] - values[below]) + 0.5);
    };
    return {at(0.5), at(0.25), at(0.75), values.front(), values.back()};
}

ordered_json as_json(const Spread &spread) {
    return {{"median_ns", spread.median},
            {"quartiles_ns", {spread.low, spread.high}},
            {"range_ns", {spread.least, spread.most}}};
}

std::vector<int64_t> elapsed_of(const std::vector<RunTimes> &runs, const size_t *partition) {
    std::vector<int64_t> found;
    for (const RunTimes &run : runs) found.push_back(partition ? run.marks[*partition].elapsed_ns : run.elapsed_ns);
    return found;
}

ordered_json times_json(const RunTimes &run) {
    ordered_json marks = ordered_json::array();
    for (size_t index = 0; index < run.marks.size(); ++index)
        marks.push_back({index, run.marks[index].start_ns, run.marks[index].elapsed_ns, 0});
    return {{"elapsed_ns", run.elapsed_ns}, {"marks", marks}};
}

// The most memory that this process has had; null where the system does not tell.
ordered_json peak_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind("VmHWM:", 0) == 0) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
    return nullptr;
}

std::string text_of(const ordered_json &document, int indent) {
    return document.dump(indent, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

void write_text(const std::string &path, const std::string &text) {
    write_whole(path, [&](const std::string &draft) {
        std::ofstream file(draft, std::ios::binary);
        file << text;
        file.close();
        if (!file) throw Error(path + ": cannot be written.", "Choose another place.");
    });
}

void print_times(const Bundle &bundle, const Outcome &outcome) {
    const auto line = [](const std::string &name, const Spread &spread) {
        std::printf("%-40s %12.3f %12.3f %12.3f %12.3f\n", name.c_str(), double(spread.median) / 1e6,
                    double(spread.low) / 1e6, double(spread.high) / 1e6, double(spread.least) / 1e6);
    };
    std::printf("%-40s %12s %12s %12s %12s\n", ("ms of " + std::to_string(outcome.repeats.size()) + " runs").c_str(),
                "median", "quartile 1", "quartile 3", "least");
    for (const Partition &part : bundle.partitions)
        line(std::to_string(part.index) + " " + plain(part.target, 30),
             spread_of(elapsed_of(outcome.repeats, &part.index)));
    line("whole", spread_of(elapsed_of(outcome.repeats, nullptr)));
}

}  // namespace

std::string feed_digest(const Feed &feed) {
    std::string text;
    for (const auto &[name, tensor] : feed) {
        // As Python's json.dumps writes it, with a space behind every comma.
        text += "[" + json(name).dump(-1, ' ', true) + ", \"" + facts_of(tensor.dtype).npy + "\", " +
                print_shape(tensor.shape) + "]";
        text.append(reinterpret_cast<const char *>(tensor.data.data()), tensor.data.size());
    }
    return sha256_of(text.data(), text.size());
}

void write_record(const std::string &folder, const Bundle &bundle, const Outcome &outcome) {
    if (::mkdir(folder.c_str(), 0777) != 0 && (errno != EEXIST || !is_folder(folder)))
        throw Error(folder + ": cannot be made: " + std::strerror(errno) + ".", "Choose another place.");
    write_rows(folder + "/outputs.npz", bundle.outputs, outcome.rows);
    struct utsname machine = {};
    ::uname(&machine);
    ordered_json runs = ordered_json::array(), repeats = ordered_json::array(), starts = ordered_json::array();
    for (const RunTimes &run : outcome.runs) runs.push_back(times_json(run));
    for (const RunTimes &run : outcome.repeats) {
        repeats.push_back(times_json(run));
        starts.push_back(run.start_ns - outcome.repeats[0].start_ns);
    }
    ordered_json profile = nullptr;
    if (!outcome.repeats.empty())
        profile = {{"runs", repeats}, {"starts_ns", starts}, {"together_ns", outcome.together_ns}};
    const ordered_json document = {
        {"schema", "dovetail.result/1"},
        {"bundle", bundle.digest},
        {"dovetail", DOVETAIL_VERSION},
        {"machine",
         {{"system", machine.sysname},
          {"release", machine.release},
          {"machine", machine.machine},
          {"python", ""},
          {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)}}},
        {"devices", outcome.devices},
        {"samples", outcome.sample_digests},
        {"taps", ordered_json::array()},
        {"runs", runs},
        {"profile", profile},
        {"peak_bytes", peak_bytes()},
    };
    write_text(folder + "/result.json", text_of(document, 1));
}

void print_outcome(const RunOptions &options, const Bundle &bundle, const Outcome &outcome) {
    if (!options.json) {
        std::printf("%s: %zu partitions load here", plain(bundle.name, 80).c_str(), bundle.partitions.size());
        if (!options.input.empty()) std::printf("; %zu samples run", outcome.rows.size());
        std::puts("");
        if (!outcome.repeats.empty()) print_times(bundle, outcome);
        return;
    }
    ordered_json partitions = ordered_json::array();
    for (const Partition &part : bundle.partitions) {
        ordered_json row = {
            {"target", part.target}, {"backend", part.backend}, {"device", outcome.devices[part.index]}};
        if (!outcome.repeats.empty()) row["times"] = as_json(spread_of(elapsed_of(outcome.repeats, &part.index)));
        partitions.push_back(row);
    }
    ordered_json document = {{"bundle", bundle.name},
                             {"digest", bundle.digest},
                             {"any_version", options.board.any_version},
                             {"partitions", partitions},
                             {"samples", outcome.rows.size()}};
    if (!options.output.empty()) document["output"] = options.output;
    if (!outcome.repeats.empty()) {
        document["repeats"] = outcome.repeats.size();
        document["times"] = as_json(spread_of(elapsed_of(outcome.repeats, nullptr)));
    }
    document["peak_bytes"] = peak_bytes();
    std::fputs(text_of(document, -1).c_str(), stdout);
}
