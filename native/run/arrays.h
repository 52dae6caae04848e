// Samples from .npz and .npy files, and outputs into them, as numpy has them.

#ifndef DOVETAIL_RUN_ARRAYS_H
#define DOVETAIL_RUN_ARRAYS_H

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bundle.h"

using Feed = std::map<std::string, Tensor>;

// Arrays [N, ...] by the names of inputs, read sample by sample; a single input may have any name.
class Samples {
  public:
    // Throw Error for what is missing, damaged or of another number of samples.
    Samples(const std::string &path, const Types &inputs);
    ~Samples();

    size_t count() const;

    // Return the next sample as the model wants it; throw Error for what does not fit. Only dimensions of size 1 are
    // added, and only float to float may round.
    Feed next();

  private:
    struct Column;

    std::string path_;
    Types inputs_;
    std::vector<std::unique_ptr<Column>> columns_;
    size_t at_ = 0;
};

// Write the outputs of samples to an .npz, or to an .npy where there is one output; all or nothing. Where samples
// differ in shape, the array of sample i is called NAME@i.
void write_rows(const std::string &path, const Types &outputs, const std::vector<Feed> &rows);

bool ends_with(const std::string &text, const std::string &end);

#endif
