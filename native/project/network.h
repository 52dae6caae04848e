// What a network offers to main.cpp, whatever library it stands on.

#ifndef NETWORK_H
#define NETWORK_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

enum class Element { F32, F16, BF16, I8, U8, I16, U16, I32, U32, BOOL };

size_t element_bytes(Element element);

// One input or output. Its values are stored as real = (stored - zero_point) * scale where it is quantised.
struct Edge {
    const char *name;             // in the model
    const char *file;             // the same, fit for a file name
    Element element;
    std::vector<uint32_t> shape;  // slowest dimension first, as numpy and ONNX count
    bool quantised;
    float scale;
    int32_t zero_point;

    size_t count() const;
    size_t bytes() const { return count() * element_bytes(element); }
};

// Defined in network.cpp, which is written for one model.
extern const char *const PART;  // the simulator's name of the part that the network was quantised for
extern const size_t WEIGHT_BYTES;
extern const uint32_t WEIGHT_CHECKSUM;  // Adler-32
const std::vector<Edge> &network_inputs();
const std::vector<Edge> &network_outputs();

// Every function throws std::runtime_error with the reason.
class Network {
   public:
    virtual ~Network() = default;
    virtual void compile() = 0;
    virtual std::vector<uint8_t> binary() = 0;  // instead of compile(); the network cannot be run afterwards
    virtual void write(size_t input, const uint8_t *data) = 0;
    virtual void run() = 0;
    virtual void read(size_t output, uint8_t *data) = 0;
};

std::unique_ptr<Network> build_network(const std::vector<uint8_t> &weights);
std::unique_ptr<Network> load_network(const std::vector<uint8_t> &binary);

#endif
