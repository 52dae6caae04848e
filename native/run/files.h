// Files and zip archives that nobody vouches for: sizes are bounded, links are refused.

#ifndef DOVETAIL_RUN_FILES_H
#define DOVETAIL_RUN_FILES_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using Bytes = std::vector<uint8_t>;

// Return the SHA-256 of bytes as hex.
std::string sha256_of(const void *data, size_t size);

// Return a plain file of a folder, of at most `limit` bytes; throw Error.
Bytes read_in_folder(const std::string &folder, const std::string &name, uint64_t limit);

bool is_folder(const std::string &path);

// Write a file, all or nothing: `write` fills the draft whose path it is given.
void write_whole(const std::string &path, const std::function<void(const std::string &draft)> &write);

struct ZipMember {
    std::string name;
    uint64_t size;
};

// Read one zip archive; every failure is an Error that names the file.
class ZipReader {
  public:
    ZipReader(const std::string &path, size_t most_members);
    ~ZipReader();
    ZipReader(const ZipReader &) = delete;
    ZipReader &operator=(const ZipReader &) = delete;

    const std::vector<ZipMember> &members() const { return members_; }

    // Begin to read a member; the one before is let go.
    void open(size_t member);
    // Read exactly so many bytes of it.
    void read(void *data, size_t size);
    // End it: its checksum is compared.
    void finish();

  private:
    [[noreturn]] void damaged(const std::string &why) const;

    std::string path_;
    void *file_ = nullptr;
    bool is_open_ = false;
    std::vector<ZipMember> members_;
    std::vector<uint64_t> places_, numbers_;
};

// Write members without compression, as numpy does; the same contents give the same bytes.
class ZipWriter {
  public:
    explicit ZipWriter(const std::string &path);
    ~ZipWriter();
    ZipWriter(const ZipWriter &) = delete;
    ZipWriter &operator=(const ZipWriter &) = delete;

    void open(const std::string &name);
    void write(const void *data, size_t size);
    void close();

  private:
    void check(int status) const;

    std::string path_;
    void *file_ = nullptr;
    bool is_open_ = false;
};

#endif
