// The bytes of a text: in memory, or in a file that others may truncate or write to while it is read.
//
// A file is not mapped: access to a page that the file has lost would end the process by a signal, and bytes
// could change between two reads. Its pieces are read into buffers, which are reused and so stay in cache:
// this is as fast as page faults, and safe.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>
#include <vector>

#include "text/characters.h"

namespace text {

// The file ended early: somebody has truncated it.
struct FileChanged {};

// A line is longer than `kLongestLine`.
struct LineTooLong {};

// Memory for one piece of a file; it grows on demand.
class Buffer {
  public:
    char* data() { return bytes_.get(); }

    // Makes room, and keeps the first `kept` bytes.
    void reserve(size_t room, size_t kept) {
        if (room <= room_) return;
        room += room / 8;
        std::unique_ptr<char[]> more(new char[room]);
        if (kept) std::memcpy(more.get(), bytes_.get(), kept);
        bytes_ = std::move(more);
        room_ = room;
    }

  private:
    std::unique_ptr<char[]> bytes_;
    size_t room_ = 0;
};

// Fills `to` with `size` bytes of a file.
inline void read_at(int descriptor, char* to, size_t size, size_t offset) {
    constexpr size_t kMost = size_t{1} << 30;  // the kernel reads less than 2 GiB at a time
    while (size > 0) {
        const ssize_t count = pread(descriptor, to, std::min(size, kMost), static_cast<off_t>(offset));
        if (count == 0) throw FileChanged();
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) throw std::system_error(errno, std::generic_category());
        to += count;
        offset += static_cast<size_t>(count);
        size -= static_cast<size_t>(count);
    }
}

class Bytes {
  public:
    // A text in memory; what is parsed is followed by kPadding readable bytes, the first of them NUL.
    Bytes(const char* memory, size_t size) : memory_(memory), size_(size) {}

    Bytes(int descriptor, size_t size) : descriptor_(descriptor), size_(size) {
        posix_fadvise(descriptor, 0, static_cast<off_t>(size), POSIX_FADV_WILLNEED);
    }

    size_t size() const { return size_; }

    // A buffer on loan while its piece is in use.
    class Loan {
      public:
        explicit Loan(const Bytes& owner) : owner_(owner), buffer_(owner.lend()) {}
        Loan(const Loan&) = delete;
        Loan& operator=(const Loan&) = delete;
        ~Loan() { owner_.take_back(std::move(buffer_)); }
        Buffer& operator*() { return *buffer_; }

      private:
        const Bytes& owner_;
        std::unique_ptr<Buffer> buffer_;
    };

    // The bytes [first, last). Those of a file are followed by kPadding zeros.
    const char* piece(size_t first, size_t last, Buffer& buffer) const {
        return extended(first, first, last, buffer);
    }

    // Like `piece`, if `buffer` already holds [first, known) from an earlier call.
    const char* extended(size_t first, size_t known, size_t last, Buffer& buffer) const {
        if (memory_) return memory_ + first;
        buffer.reserve(last - first + kPadding, known - first);
        char* const p = buffer.data();
        read_at(descriptor_, p + (known - first), last - known, known);
        std::memset(p + (last - first), 0, kPadding);
        return p;
    }

  private:
    std::unique_ptr<Buffer> lend() const {
        const std::lock_guard<std::mutex> hold(guard_);
        if (idle_.empty()) return std::make_unique<Buffer>();
        std::unique_ptr<Buffer> buffer = std::move(idle_.back());
        idle_.pop_back();
        return buffer;
    }

    void take_back(std::unique_ptr<Buffer> buffer) const {
        const std::lock_guard<std::mutex> hold(guard_);
        idle_.push_back(std::move(buffer));
    }

    const char* const memory_ = nullptr;
    const int descriptor_ = -1;
    const size_t size_;
    mutable std::mutex guard_;
    mutable std::vector<std::unique_ptr<Buffer>> idle_;
};

// Number of bytes after a range of a text that are searched first for the end of its last line.
constexpr size_t kTailBytes = size_t{1} << 12;

// Maximum length of a line of a file, in bytes: a buffer holds a whole line.
constexpr size_t kLongestLine = size_t{1} << 31;

// Whole lines of a text: their offsets, and the address of the first byte.
struct Lines {
    size_t begin, end;
    const char* bytes;
};

// The lines that begin in [first, last), of a text from `start` to `stop` that itself begins with a line. So
// each line belongs to exactly one of several adjacent ranges. A NUL ends a line as well: no text has one
// except in a comment, and a file that is not text should not be read to its end.
inline Lines lines_of(const Bytes& text, size_t start, size_t first, size_t last, size_t stop,
                      Buffer& buffer) {
    const size_t from = first > start ? first - 1 : first;
    size_t to = std::min(last + kTailBytes, stop);
    const char* p = text.piece(from, to, buffer);
    size_t begin = first;
    if (first > start) {
        const void* const found = std::memchr(p, '\n', last - 1 - from);
        if (!found) return {last, last, p};
        begin = from + static_cast<size_t>(static_cast<const char*>(found) - p) + 1;
    }
    size_t end = stop;
    for (size_t at = last - 1; last < stop;) {
        const char* const tail = p + (at - from);
        const char* found = static_cast<const char*>(std::memchr(tail, '\n', to - at));
        const size_t length = found ? static_cast<size_t>(found - tail) : to - at;
        if (const void* nul = std::memchr(tail, '\0', length)) found = static_cast<const char*>(nul);
        if (found) end = at + static_cast<size_t>(found - tail) + 1;
        if (found || to == stop) break;
        if (to - begin > kLongestLine) throw LineTooLong();
        at = to;
        to = std::min({stop, to + (to - from), begin + kLongestLine + 1});
        p = text.extended(from, at, to, buffer);
    }
    return {begin, end, p + (begin - from)};
}

// The end of the last line that ends in [start, stop) of a text, else of the first one after it, else -1.
inline ptrdiff_t whole_lines(const Bytes& text, size_t start, size_t stop, size_t length) {
    constexpr size_t kWindow = size_t{1} << 16;
    Bytes::Loan buffer(text);
    for (size_t last = stop; last > start;) {
        const size_t first = last - std::min(last - start, kWindow);
        const char* const p = text.piece(first, last, *buffer);
        if (const void* found = memrchr(p, '\n', last - first))
            return static_cast<ptrdiff_t>(first) + (static_cast<const char*>(found) - p) + 1;
        last = first;
    }
    for (size_t first = stop; first < length;) {
        const size_t last = first + std::min(length - first, kWindow);
        const char* const p = text.piece(first, last, *buffer);
        if (const void* found = std::memchr(p, '\n', last - first))
            return static_cast<ptrdiff_t>(first) + (static_cast<const char*>(found) - p) + 1;
        first = last;
    }
    return -1;
}

}  // namespace text
