// The ranks of a solve whose rows are spread over several devices, and what each of them needs of the others:
// sums of a few numbers, which the host has in hand, and of gradients, which stay on the devices.
//
// NCCL's order of sums is its own.  Here it carries the parts, by sends and receives, and each sum is made in
// the order of the ranks, in float64, and rounded once: the same bits on every rank and from run to run, and
// those of the way through main memory, which is there for ranks that share a device or are on several hosts.
// NCCL is looked for when it is wanted: nothing is linked with it.
#pragma once
#include "api/ranks.h"
#include "runtime/device_memory.h"

namespace bmrm {

class Collective {
  public:
    Collective() = default;  // of one rank: every sum is what it was
    Collective(const bb_ranks& ranks, bb_nccl* nccl);
    ~Collective();
    Collective(Collective&& other) noexcept { *this = std::move(other); }
    Collective& operator=(Collective&& other) noexcept;

    bool alone() const { return ranks_.size < 2; }
    void total(double* numbers, int64_t count) const;
    // Adds up an array on the device, on its memory's stream.
    void add_up(Memory& memory, bb_type type, void* numbers, int64_t count);

  private:
    void through_host(Memory& memory, int64_t bytes, void* numbers, int64_t count);

    bb_ranks ranks_ = {0, 1, nullptr, nullptr, nullptr};
    bb_nccl* nccl_ = nullptr;
    Array<unsigned char> parts_;
    void* staging_ = nullptr;
    int64_t staged_ = 0;
};

}  // namespace bmrm
