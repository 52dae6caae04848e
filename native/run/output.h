// What a run gave, and how it is told: on the terminal, as JSON, and as a folder to bring back.

#ifndef DOVETAIL_RUN_OUTPUT_H
#define DOVETAIL_RUN_OUTPUT_H

#include <cstdint>
#include <string>
#include <vector>

#include "loaded.h"
#include "runner.h"

struct Outcome {
    std::vector<std::string> devices;
    std::vector<Feed> rows;
    std::vector<std::string> sample_digests;
    std::vector<RunTimes> runs, repeats;
    int64_t together_ns = 0;
};

// Return the SHA-256 of the inputs of a sample: names, types, shapes and bytes, as the runtime in Python computes it.
std::string feed_digest(const Feed &feed);

// Write outputs.npz and then result.json, without which the folder is not whole.
void write_record(const std::string &folder, const Bundle &bundle, const Outcome &outcome);

void print_outcome(const RunOptions &options, const Bundle &bundle, const Outcome &outcome);

#endif
