// What goes wrong: one line that says what, where and why, and what to try.

#ifndef DOVETAIL_RUN_ERROR_H
#define DOVETAIL_RUN_ERROR_H

#include <stdexcept>
#include <string>

struct Error : std::runtime_error {
    explicit Error(const std::string &message, const std::string &hint = "")
        : std::runtime_error(hint.empty() ? message : message + " " + hint) {}
};

constexpr const char *COPY_AGAIN = "Copy the bundle again.";
constexpr const char *COMPILE_AGAIN = "Compile the model again with 'dovetail compile'.";

// Return text from a file, or from another library, as one short line of UTF-8 that a terminal cannot be harmed by.
std::string plain(const std::string &text, size_t longest = 200);

#endif
