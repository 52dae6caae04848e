// Bundles: manifest, types and checksums of compiled partitions, from a folder or from one file of `dovetail export`.

#ifndef DOVETAIL_RUN_BUNDLE_H
#define DOVETAIL_RUN_BUNDLE_H

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "files.h"
#include "tensor.h"

using Types = std::vector<std::pair<std::string, TensorType>>;

struct Partition {
    size_t index;
    std::string target, backend, backend_version, format;
    Types inputs, outputs;
    std::map<std::string, std::string> needs;
    Bytes blob;

    // How messages name it.
    std::string where() const;
};

struct Bundle {
    std::string name;
    std::string digest;  // SHA-256 of the manifest, which has the checksums of all other files
    Types inputs, outputs;
    std::vector<Partition> partitions;
};

// Throw Error naming what is missing, damaged or unsafe.
Bundle load_bundle(const std::string &path);

const TensorType *find_type(const Types &types, const std::string &name);

#endif
