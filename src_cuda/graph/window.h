// Memory of each rank into which the other ranks' kernels write: messages, sums, and a flag that says that
// both are there.  So messages are on their way as soon as a pass has computed them, and nothing has to be
// launched for that: neither NCCL's kernels, which would take multiprocessors from the product that runs
// meanwhile, nor copies by the device's engines, which start some microseconds later.
//
// There are two places for everything, used in turns.  When a rank writes what belongs to turn t, it has seen
// the flags of turn t - 1.  The others have set these after all that they do with turn t - 2, which was at
// the same place.
#pragma once
#include <vector>

#include "api/graph.h"
#include "distributed/collective.h"
#include "graph/kernels/passes.cuh"

namespace bmrm {

class Window {
  public:
    static constexpr int kMaxSums = 2 * BB_WALK_COLUMNS;

    Window() = default;
    ~Window() { close(); }
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

    // Makes room for a vector of some bytes; called by all ranks.  Returns false if a device cannot write to
    // another's memory, or has too little: then there is no window, now and later.
    bool open(Collective& ranks, int64_t bytes);
    unsigned char* vector(int64_t turn) const { return mine_ + turn % 2 * vector_bytes_; }
    // The sums of all ranks, `kMaxSums` apart.
    double* sums(int64_t turn) const { return reinterpret_cast<double*>(mine_ + sums_at(turn)); }
    // The vectors of the other ranks, from an entry on, and their sums of this rank.
    Copies copies(int64_t turn, int64_t first) const;
    Outgoing outgoing(int64_t turn) const;
    Arrivals arrivals(int64_t turn) const;

  private:
    int64_t sums_at(int64_t turn) const;
    int64_t flags_at(int64_t turn) const;
    void close() noexcept;

    int32_t rank_ = 0, size_ = 0;
    int64_t vector_bytes_ = 0;
    unsigned char* mine_ = nullptr;
    std::vector<unsigned char*> others_;  // null for this rank
    bool impossible_ = false;
};

}  // namespace bmrm
