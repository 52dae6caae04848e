// What is read of an ONNX file without a library for it: its metadata, and whether it reads other files.

#ifndef DOVETAIL_RUN_ONNX_H
#define DOVETAIL_RUN_ONNX_H

#include <cstdint>
#include <map>
#include <string>

struct OnnxFacts {
    std::map<std::string, std::string> metadata;
    bool reads_files = false;  // some tensor lies in a file of its own
};

// Throw Error where it is no protocol-buffer message.
OnnxFacts read_onnx(const uint8_t *data, size_t size);

#endif
