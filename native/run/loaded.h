// A bundle that is loaded: what a program of your own needs (examples: 'dovetail bundle example').

#ifndef DOVETAIL_RUN_LOADED_H
#define DOVETAIL_RUN_LOADED_H

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executable.h"

struct Mark {
    int64_t start_ns, elapsed_ns;
};

struct RunTimes {
    int64_t start_ns = 0, elapsed_ns = 0;
    std::vector<Mark> marks;  // one for each partition
};

// Partitions that are loaded, in the order in which they run. The bundle has to stay where it is.
class Loaded {
  public:
    // Throw Error where a partition does not run here.
    Loaded(const Bundle &bundle, const Board &board);

    // Return the outputs of one sample; `times`, where it is given, gets when each partition started, by the run's own
    // clock, and how long it took. Inputs are used as they are: their types and sizes have to be the bundle's.
    Feed run(const Feed &inputs, RunTimes *times = nullptr);

    std::vector<std::string> devices() const;

  private:
    const Bundle &bundle_;
    std::vector<std::unique_ptr<Executable>> parts_;
    std::map<std::string, size_t> last_reader_;
};

#endif
