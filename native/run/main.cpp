// dovetail-run: run a bundle on a board without Python.

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include <unistd.h>

#include "error.h"
#include "runner.h"

namespace {

constexpr int REFUSED = 2, DEFECT = 70;
constexpr size_t MOST_RUNS = 1000000;

const char USAGE[] =
    "usage: dovetail-run BUNDLE [-i SAMPLES] [-o OUTPUT] [options]\n"
    "\n"
    "Check a bundle (its checksums, and that every partition loads here) and run samples through it.\n"
    "BUNDLE is a folder, or the one file that 'dovetail export' made of it.\n"
    "\n"
    "  -i, --input FILE     .npz with arrays [N, ...] named like the inputs; .npy for a single input\n"
    "  -o, --output FILE    .npz for the outputs as they are stored; .npy for a single output\n"
    "      --record FOLDER  outputs, times and what machine it was, for 'dovetail compare --on FOLDER' and 'profile'\n"
    "      --repeat N       then run N more times, one after the other, and tell the times (0)\n"
    "      --warm-up N      runs before those (2)\n"
    "      --json           print JSON, and nothing else, on stdout\n"
    "      --ort FILE       libonnxruntime.so, for partitions of 'cpu' and 'ort'\n"
    "      --vsi FILE       libdovetail_vsi.so, for partitions of 'vsi': build it from native/vsi on the board's SDK\n"
    "      --have NAME=X    what the board has, where a bundle needs it: 'VeriSilicon SDK=6.57.1', 'product id=0x99'\n"
    "      --any-version    run what another version compiled: its numbers may differ\n"
    "      --version\n"
    "  -h, --help\n"
    "\n"
    "Exit codes: 0 done; 2 refused, with one line on stderr that says what, where, why and what to try; 70 a defect.\n";

[[noreturn]] void bad_usage(const std::string &why) { throw Error(why, "'dovetail-run --help' says how."); }

size_t count_of(const std::string &option, const std::string &text) {
    char *end = nullptr;
    errno = 0;
    const unsigned long found = std::strtoul(text.c_str(), &end, 10);
    if (text.empty() || text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || found > MOST_RUNS)
        bad_usage(option + " takes a number up to " + std::to_string(MOST_RUNS) + ", not '" + plain(text, 40) + "'.");
    return found;
}

// Return a path that stays right when the working directory changes, as drivers want it to.
std::string absolute(const std::string &path) {
    if (path.empty() || path[0] == '/') return path;
    char here[4096];
    if (::getcwd(here, sizeof here) == nullptr)
        throw Error("the working directory cannot be told.", "Give absolute paths.");
    return std::string(here) + "/" + path;
}

void take_fact(Board *board, const std::string &text) {
    const size_t sign = text.find('=');
    if (sign == std::string::npos || sign == 0) bad_usage("--have takes NAME=VALUE, not '" + plain(text, 80) + "'.");
    board->facts[text.substr(0, sign)] = text.substr(sign + 1);
}

RunOptions parse(int count, char **words) {
    RunOptions found;
    for (int at = 1; at < count; ++at) {
        const std::string word = words[at];
        const auto value = [&]() -> std::string {
            if (at + 1 == count) bad_usage(word + " needs a value.");
            return words[++at];
        };
        if (word == "-i" || word == "--input")
            found.input = absolute(value());
        else if (word == "-o" || word == "--output")
            found.output = absolute(value());
        else if (word == "--record")
            found.record = absolute(value());
        else if (word == "--repeat")
            found.repeat = count_of(word, value());
        else if (word == "--warm-up")
            found.warm_up = count_of(word, value());
        else if (word == "--json")
            found.json = true;
        else if (word == "--any-version")
            found.board.any_version = true;
        else if (word == "--ort")
            found.board.ort_library = absolute(value());
        else if (word == "--vsi")
            found.board.vsi_library = absolute(value());
        else if (word == "--have")
            take_fact(&found.board, value());
        else if (word.size() > 1 && word[0] == '-')
            bad_usage("'" + plain(word, 40) + "' is unknown.");
        else if (!found.bundle.empty())
            bad_usage("one bundle is run, and '" + plain(word, 80) + "' is a second.");
        else
            found.bundle = absolute(word);
    }
    if (found.bundle.empty()) bad_usage("no bundle is given.");
    if (found.input.empty() && (!found.output.empty() || !found.record.empty() || found.repeat > 0))
        bad_usage("there is nothing to run: samples are given with -i.");
    return found;
}

bool asks(int count, char **words, const char *one, const char *other) {
    for (int at = 1; at < count; ++at)
        if (std::strcmp(words[at], one) == 0 || std::strcmp(words[at], other) == 0) return true;
    return false;
}

}  // namespace

int main(int count, char **words) {
    if (asks(count, words, "-h", "--help")) {
        std::fputs(USAGE, stdout);
        return 0;
    }
    if (asks(count, words, "--version", "--version")) {
        std::puts("dovetail-run " DOVETAIL_VERSION);
        return 0;
    }
    int code = 0;
    try {
        run(parse(count, words));
    } catch (const Error &error) {
        std::fprintf(stderr, "error: %s\n", plain(error.what(), 2000).c_str());
        code = REFUSED;
    } catch (const std::bad_alloc &) {
        std::fputs("error: there is not enough memory. Give fewer or smaller samples.\n", stderr);
        code = REFUSED;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "error: a defect of dovetail-run: %s\n", plain(error.what(), 500).c_str());
        code = DEFECT;
    }
    std::fflush(stdout);
    std::fflush(stderr);
    // Destructors of vendors' libraries have been seen to hang, and there is nothing left to do.
    std::_Exit(code);
}
