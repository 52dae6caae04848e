// What runs a partition, and how one is opened.

#ifndef DOVETAIL_RUN_EXECUTABLE_H
#define DOVETAIL_RUN_EXECUTABLE_H

#include <map>
#include <memory>
#include <string>

#include "arrays.h"
#include "bundle.h"

// What is known of the board, and what is asked for.
struct Board {
    std::string ort_library;                   // empty: as the loader finds it
    std::string vsi_library;                   // empty: as the loader finds it
    std::map<std::string, std::string> facts;  // what the board has, by the names that bundles use
    bool any_version = false;                  // run what another version compiled
};

class Executable {
  public:
    virtual ~Executable() = default;
    // Return the outputs of one sample; throw Error.
    virtual Feed run(const Feed &inputs) = 0;
    // What it runs on.
    virtual std::string device() const = 0;
};

// Open a partition of `cpu` or `ort`; throw Error where it does not run here.
std::unique_ptr<Executable> open_onnxruntime(const Partition &part, const Board &board);

// Open a partition of `vsi`; the vendor's library lives in this process. Throw Error where it does not run here.
std::unique_ptr<Executable> open_verisilicon(const Partition &part, const Board &board);

// Throw Error where a partition was compiled by another version than is here.
void check_version(const Partition &part, const std::string &compiled, const std::string &here, const Board &board);

#endif
