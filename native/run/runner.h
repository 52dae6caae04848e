// One run of the program: a bundle, samples and what is made of them.

#ifndef DOVETAIL_RUN_RUNNER_H
#define DOVETAIL_RUN_RUNNER_H

#include <string>

#include "executable.h"

struct RunOptions {
    std::string bundle, input, output, record;
    size_t repeat = 0, warm_up = 2;
    bool json = false;
    Board board;
};

// Do it and print what was done; throw Error.
void run(const RunOptions &options);

#endif
