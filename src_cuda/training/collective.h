// The ranks of a solve whose rows are spread over several devices, and what each needs from the others: sums
// of a few numbers, which the host has, and of gradients, which stay on the devices.
//
// NCCL adds in an order of its own.  Here it only transports the contributions, by sends and receives.  Each
// sum is computed in the order of the ranks, in float64, and rounded once: the same bits on every rank and
// from run to run, and the same as those of the way through main memory, for ranks that share a device or are
// on several hosts.  NCCL is loaded on demand; nothing is linked with it.
#pragma once
#include "api/ranks.h"
#include "runtime/device_memory.h"

namespace bmrm {

class Collective {
  public:
    Collective() = default;  // a single rank: sums are the numbers themselves
    Collective(const bb_ranks& ranks, bb_nccl* nccl);
    ~Collective();
    Collective(Collective&& other) noexcept { *this = std::move(other); }
    Collective& operator=(Collective&& other) noexcept;

    bool alone() const { return ranks_.size < 2; }
    void total(double* numbers, int64_t count) const;
    // Sums an array on the device over the ranks, on the stream of its memory.
    void add_up(Memory& memory, bb_type type, void* numbers, int64_t count);

  private:
    void through_host(Memory& memory, int64_t bytes, void* numbers, int64_t count);

    bb_ranks ranks_ = {0, 1, nullptr, nullptr, nullptr};
    bb_nccl* nccl_ = nullptr;
    Array<unsigned char> received_;
    void* staging_ = nullptr;
    int64_t staged_ = 0;
};

}  // namespace bmrm
