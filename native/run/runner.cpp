#include "runner.h"

#include <chrono>

#include "error.h"
#include "loaded.h"
#include "output.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t KEPT_BYTES = size_t(256) << 20;  // of samples, for repeats

int64_t ns_between(Clock::time_point start, Clock::time_point end) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
}

size_t bytes_in(const Feed &feed) {
    size_t bytes = 0;
    for (const auto &[name, tensor] : feed) bytes += tensor.data.size();
    return bytes;
}

// Run every sample once, and keep the first ones for repeats.
Outcome run_samples(Loaded *loaded, const Bundle &bundle, const RunOptions &options, std::vector<Feed> *kept) {
    Outcome outcome;
    Samples samples(options.input, bundle.inputs);
    size_t bytes = 0;
    for (size_t number = 0; number < samples.count(); ++number) {
        Feed feed = samples.next();
        outcome.sample_digests.push_back(options.record.empty() ? "" : feed_digest(feed));
        outcome.runs.emplace_back();
        outcome.rows.push_back(loaded->run(feed, &outcome.runs.back()));
        bytes += bytes_in(feed);
        if (options.repeat > 0 && (kept->empty() || bytes <= KEPT_BYTES)) kept->push_back(std::move(feed));
    }
    return outcome;
}

void repeat(Loaded *loaded, const RunOptions &options, const std::vector<Feed> &kept, Outcome *outcome) {
    for (size_t number = 0; number < options.warm_up; ++number) loaded->run(kept[0], nullptr);
    const Clock::time_point start = Clock::now();
    for (size_t number = 0; number < options.repeat; ++number) {
        outcome->repeats.emplace_back();
        RunTimes &times = outcome->repeats.back();
        times.start_ns = ns_between(start, Clock::now());
        loaded->run(kept[number % kept.size()], &times);
    }
    outcome->together_ns = ns_between(start, Clock::now());
}

}  // namespace

void run(const RunOptions &options) {
    const Bundle bundle = load_bundle(options.bundle);
    Loaded loaded(bundle, options.board);
    Outcome outcome;
    outcome.devices = loaded.devices();
    if (!options.input.empty()) {
        std::vector<Feed> kept;
        Outcome ran = run_samples(&loaded, bundle, options, &kept);
        ran.devices = outcome.devices;
        outcome = std::move(ran);
        if (options.repeat > 0 && kept.empty()) throw Error(options.input + ": there are no samples to repeat.");
        if (options.repeat > 0) repeat(&loaded, options, kept, &outcome);
    }
    if (!options.output.empty()) write_rows(options.output, bundle.outputs, outcome.rows);
    if (!options.record.empty()) write_record(options.record, bundle, outcome);
    print_outcome(options, bundle, outcome);
}
