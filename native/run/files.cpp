#include "files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <minizip/unzip.h>
#include <minizip/zip.h>
#include <sha256.h>

#include "error.h"

namespace {

constexpr const char *WRITE_AGAIN = "Write the file again.";
constexpr size_t MAX_NAME = 4096;
constexpr unsigned CHUNK = 1u << 20;

struct Descriptor {
    int number;
    ~Descriptor() {
        if (number >= 0) ::close(number);
    }
};

// Tell whether a file ends as a zip archive without a comment does.
bool has_end(const std::string &path) {
    constexpr long END_BYTES = 22;
    char end[END_BYTES] = {};
    FILE *file = std::fopen(path.c_str(), "rb");
    if (file == nullptr) return false;
    const bool good = std::fseek(file, -END_BYTES, SEEK_END) == 0 && std::fread(end, 1, sizeof end, file) == sizeof end;
    std::fclose(file);
    return good && std::memcmp(end, "PK\x05\x06", 4) == 0;
}

}  // namespace

std::string sha256_of(const void *data, size_t size) {
    SHA2_CTX context;
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256Init(&context);
    SHA256Update(&context, static_cast<const uint8_t *>(data), size);
    SHA256Final(digest, &context);
    std::string text;
    for (const uint8_t byte : digest) {
        char pair[3];
        std::snprintf(pair, sizeof pair, "%02x", byte);
        text += pair;
    }
    return text;
}

bool is_folder(const std::string &path) {
    struct stat found;
    return ::stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

Bytes read_in_folder(const std::string &folder, const std::string &name, uint64_t limit) {
    const std::string where = folder + "/" + name;
    const Descriptor place{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    // Not blocking: a pipe in a file's place would never answer.
    const Descriptor file{
        place.number < 0 ? -1 : ::openat(place.number, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
    struct stat facts;
    if (file.number < 0 || ::fstat(file.number, &facts) != 0 || !S_ISREG(facts.st_mode))
        throw Error(where + ": missing, or not a plain file.", COPY_AGAIN);
    if (uint64_t(facts.st_size) > limit) throw Error(where + ": larger than " + std::to_string(limit) + " bytes.");
    Bytes content(size_t(facts.st_size));
    for (size_t at = 0; at < content.size();) {
        const ssize_t count = ::read(file.number, content.data() + at, content.size() - at);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0)
            throw Error(where + ": cannot be read: " + (count ? std::strerror(errno) : "it became shorter") + ".");
        at += size_t(count);
    }
    return content;
}

void write_whole(const std::string &path, const std::function<void(const std::string &draft)> &write) {
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash + 1);
    const std::string draft = folder + "." + path.substr(folder.size()) + "." + std::to_string(::getpid());
    try {
        write(draft);
    } catch (...) {
        ::unlink(draft.c_str());
        throw;
    }
    if (std::rename(draft.c_str(), path.c_str()) != 0) {
        const std::string why = std::strerror(errno);
        ::unlink(draft.c_str());
        throw Error(path + ": cannot be written: " + why + ".", "Choose another place.");
    }
}

ZipReader::ZipReader(const std::string &path, size_t most_members) : path_(path) {
    struct stat facts;
    if (::stat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) throw Error(path + ": no such file.");
    // minizip takes files that lost their last bytes.
    if (!has_end(path)) damaged("it is no zip archive, or cut short, or something lies behind its end");
    file_ = unzOpen64(path.c_str());
    if (file_ == nullptr) damaged("it is no zip archive, or cut short");
    unz_global_info64 whole;
    if (unzGetGlobalInfo64(file_, &whole) != UNZ_OK) damaged("its directory is cut short");
    if (whole.number_entry > most_members)
        throw Error(path + ": " + std::to_string(whole.number_entry) + " members exceed the limit of " +
                    std::to_string(most_members) + ".");
    int status = whole.number_entry == 0 ? UNZ_END_OF_LIST_OF_FILE : unzGoToFirstFile(file_);
    for (; status == UNZ_OK; status = unzGoToNextFile(file_)) {
        unz_file_info64 info;
        std::string name(MAX_NAME, '\0');
        if (unzGetCurrentFileInfo64(file_, &info, name.data(), uLong(name.size()), nullptr, 0, nullptr, 0) != UNZ_OK)
            damaged("its directory is damaged");
        if (info.size_filename >= MAX_NAME) damaged("a name in it is too long");
        name.resize(size_t(info.size_filename));
        // Deflate makes 1032 bytes of one at most.
        if (info.compressed_size > uint64_t(facts.st_size) || info.uncompressed_size / 1032 > info.compressed_size)
            damaged("'" + plain(name, 80) + "' claims more bytes than the file can hold");
        if (info.flag & 1) throw Error(path + ": it is encrypted.", "Write it without a password.");
        for (const ZipMember &other : members_)
            if (other.name == name) throw Error(path + ": '" + plain(name, 80) + "' occurs twice.");
        unz64_file_pos place;
        if (unzGetFilePos64(file_, &place) != UNZ_OK) damaged("its directory is damaged");
        members_.push_back({name, info.uncompressed_size});
        places_.push_back(place.pos_in_zip_directory);
        numbers_.push_back(place.num_of_file);
    }
    if (status != UNZ_END_OF_LIST_OF_FILE) damaged("its directory is damaged");
}

ZipReader::~ZipReader() {
    if (is_open_) unzCloseCurrentFile(file_);
    if (file_ != nullptr) unzClose(file_);
}

void ZipReader::damaged(const std::string &why) const { throw Error(path_ + ": damaged: " + why + ".", WRITE_AGAIN); }

void ZipReader::open(size_t member) {
    if (is_open_) unzCloseCurrentFile(file_);
    is_open_ = false;
    const unz64_file_pos place{places_.at(member), numbers_.at(member)};
    if (unzGoToFilePos64(file_, &place) != UNZ_OK || unzOpenCurrentFile(file_) != UNZ_OK)
        damaged("'" + plain(members_[member].name, 80) + "' cannot be read");
    is_open_ = true;
}

void ZipReader::read(void *data, size_t size) {
    auto *to = static_cast<uint8_t *>(data);
    while (size > 0) {
        const unsigned wanted = size < CHUNK ? unsigned(size) : CHUNK;
        const int count = unzReadCurrentFile(file_, to, wanted);
        if (count <= 0) damaged(count == 0 ? "a member ends early" : "a member cannot be read");
        to += count;
        size -= size_t(count);
    }
}

void ZipReader::finish() {
    is_open_ = false;
    if (unzCloseCurrentFile(file_) != UNZ_OK) damaged("a checksum differs");
}

ZipWriter::ZipWriter(const std::string &path) : path_(path) {
    file_ = zipOpen64(path.c_str(), APPEND_STATUS_CREATE);
    if (file_ == nullptr)
        throw Error(path + ": cannot be written: " + std::strerror(errno) + ".", "Choose another place.");
}

ZipWriter::~ZipWriter() {
    if (is_open_) zipCloseFileInZip(file_);
    if (file_ != nullptr) zipClose(file_, nullptr);
}

void ZipWriter::check(int status) const {
    if (status != ZIP_OK) throw Error(path_ + ": cannot be written.", "Look whether the disk is full.");
}

void ZipWriter::open(const std::string &name) {
    if (is_open_) check(zipCloseFileInZip(file_));
    zip_fileinfo info = {};
    info.dosDate = (1u << 21) | (1u << 16);  // the first of January 1980
    check(zipOpenNewFileInZip64(file_, name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr, 0, 0, 1));
    is_open_ = true;
}

void ZipWriter::write(const void *data, size_t size) {
    const auto *from = static_cast<const uint8_t *>(data);
    while (size > 0) {
        const unsigned count = size < CHUNK ? unsigned(size) : CHUNK;
        check(zipWriteInFileInZip(file_, from, count));
        from += count;
        size -= count;
    }
}

void ZipWriter::close() {
    if (is_open_) check(zipCloseFileInZip(file_));
    is_open_ = false;
    const int status = zipClose(file_, nullptr);
    file_ = nullptr;
    check(status);
}
