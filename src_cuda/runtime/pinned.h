// Copies and converts doubles into pinned memory and back, on several threads, while pieces are on the bus.
//
// Data for the device is stored past the caches: the bus reads memory faster than cache lines that a core
// still holds (a million doubles as floats onto an H200: 206 us, and 125 us past the caches).
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

namespace bmrm {

// to[i] = float(from[i]) or double(from[i]); or a plain copy.
void to_pinned(const double* from, int64_t n, bool narrow, void* to);
void copy_to_pinned(const void* from, size_t bytes, void* to);
void from_pinned(const void* from, int64_t n, bool narrow, double* to);

using Range = std::function<void(int64_t first, int64_t count)>;

// Calls `fill` for pieces of [0, n) on up to `threads` threads, and `send` on the calling thread for all of
// them in order, each time for all that is filled.
void fill_and_send(int64_t n, int threads, const Range& fill, const Range& send);

// Makes the pages of memory that is going to be written, by up to `threads` threads, and changes nothing in
// it. The kernel clears a new page of 2 MiB on the thread that touches it first, and threads that fill memory
// from its start on all wait for the same one (32 MB onto an H200's host: 2.5 ms, and 0.9 ms into old pages).
void touch_pages(void* to, size_t bytes, int threads);

// Calls `wait` on the calling thread for pieces of [0, n) in order, and `drain` on the other threads for
// pieces that have arrived.
void wait_and_drain(int64_t n, int64_t piece, int threads, const Range& wait, const Range& drain);

}  // namespace bmrm
