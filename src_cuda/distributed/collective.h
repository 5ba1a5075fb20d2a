// The ranks of a solve or of a graph that is spread over several devices, and what each needs from the
// others: sums of a few numbers, which the host has, sums of gradients, which stay on the devices, and the
// parts of vectors that other ranks have computed.
//
// NCCL adds in an order of its own.  Here it only transports the contributions, by sends and receives.  Each
// sum is computed in the order of the ranks, in float64, and rounded once: the same bits on every rank and
// from run to run, and the same as those of the way through main memory, for ranks that share a device or are
// on several hosts.
#pragma once
#include <vector>

#include "api/ranks.h"
#include "runtime/device_memory.h"

namespace bmrm {

// An array on the device of which rank r has the bytes bounds[r] to bounds[r + 1].
struct Parts {
    void* whole;
    std::vector<int64_t> bounds;
};

class Collective {
  public:
    Collective() = default;  // a single rank: sums are the numbers themselves
    Collective(const bb_ranks& ranks, bb_nccl* nccl);
    ~Collective();  // its owner has waited for the streams
    Collective(Collective&& other) noexcept { *this = std::move(other); }
    Collective& operator=(Collective&& other) noexcept;

    bool alone() const { return ranks_.size < 2; }
    int32_t rank() const { return ranks_.rank; }
    int32_t size() const { return ranks_.size; }
    // Whether arrays go from device to device; otherwise a call waits for its stream.
    bool direct() const { return nccl_ != nullptr; }
    void total(double* numbers, int64_t count) const;
    // Sums an array on the device over the ranks, on the stream of its memory.
    void add_up(Memory& memory, bb_type type, void* numbers, int64_t count);
    // Gives all parts of an array on the host, of which rank r has the bytes bounds[r] to bounds[r + 1].
    void gather_on_host(void* whole, const std::vector<int64_t>& bounds) const;
    // Gives all parts of some arrays to every rank, in one step on a stream.
    void gather(cudaStream_t stream, const std::vector<Parts>& arrays);

  private:
    void add_through_host(Memory& memory, int64_t bytes, void* numbers, int64_t count);
    void gather_through_host(cudaStream_t stream, const Parts& parts);
    unsigned char* staging(int64_t bytes, cudaStream_t stream);

    bb_ranks ranks_ = {0, 1, nullptr, nullptr, nullptr, nullptr};
    bb_nccl* nccl_ = nullptr;
    Array<unsigned char> received_;
    void* staging_ = nullptr;
    int64_t staged_ = 0;
};

}  // namespace bmrm
