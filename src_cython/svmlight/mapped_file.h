// A file mapped for reading, followed by readable zero bytes.
//
// The kernel fills the last page with zeros, but a file may end on a page boundary; so the file is
// mapped over the front of a region of zeros that is one page longer.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <system_error>

#include "parallel.h"

namespace svmlight {

class MappedFile {
  public:
    MappedFile(int descriptor, size_t size) {
        const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        length_ = (size + page - 1) / page * page + page;
        void* region = mmap(nullptr, length_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (region == MAP_FAILED) fail();
        data_ = static_cast<char*>(region);
        if (size == 0) return;
        if (mmap(region, size, PROT_READ, MAP_SHARED | MAP_FIXED, descriptor, 0) == MAP_FAILED) {
            const int error = errno;
            munmap(region, length_);
            errno = error;
            fail();
        }
        madvise(region, size, MADV_WILLNEED);
    }
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile() { munmap(data_, length_); }

    char* data() const { return data_; }

    // Gives the pages back. Ending the mapping does so on one thread, and takes long enough to show
    // beside threaded reading; the bytes may still be read, and are then mapped again.
    void release(int threads) {
        static constexpr size_t kPiece = size_t{1} << 24;
        for_each((length_ + kPiece - 1) / kPiece, threads, nullptr, [this](size_t i) {
            madvise(data_ + i * kPiece, std::min(kPiece, length_ - i * kPiece), MADV_DONTNEED);
        });
    }

  private:
    [[noreturn]] static void fail() { throw std::system_error(errno, std::generic_category()); }

    char* data_ = nullptr;
    size_t length_ = 0;
};

}  // namespace svmlight
