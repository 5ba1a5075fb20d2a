// The passes of k-means++ over dense rows on a device, one by one or as a chain of launches.
#pragma once
#include <algorithm>

#include "clusters/kernels/candidate_draws.cuh"
#include "runtime/chain.cuh"
#include "runtime/device_memory.h"

namespace bmrm {

// Rows of float64 of which a chain makes a copy of float32, which takes half the time to read and no
// conversion: up to what the cache of an H100 holds.
constexpr int64_t kMaxPackedBytes = 32 << 20;

class Seeding {
  public:
    // Bytes that the chain takes for n rows, besides what grows with the number of centres.
    static int64_t bytes(int64_t n, int64_t d, bb_type type) {
        const int64_t packed = type == BB_FLOAT64 ? std::min(n * d * 4, kMaxPackedBytes) : 0;
        return packed + n / 4 + kMaxPoints * (n / kStripRows + 1) * 8 + (1 << 16);
    }

    Seeding(Memory& memory, const bb_device& device) : memory_(memory), device_(device) {}

    // Sums shares for `count` points, shifted and scaled, by panels into `sums`: (count, panels).
    template <class V>
    void measure(const V* X, SeedingPass pass, int64_t count, bool takes, float* closest, double* sums);

    // Begins to choose k centres, of which `row` is the first.  uniform: (k - 1, trials), on the host.
    template <class V>
    void begin(const V* X, const SeedingPass& pass, int64_t row, const double* uniform, int64_t k, int trials,
               int64_t part_rows, float* closest);

    // Chooses up to `count` further centres into `rows`, and waits; returns how many there are.
    template <class V>
    int64_t go_on(const V* X, int64_t count, int64_t* rows);

  private:
    template <class V>
    void launch_centers(const V* X, int64_t end);
    template <class V>
    void launch_pass(const V* X, const SeedingPass& pass, bool early) const;
    template <int D, class V>
    void launch_narrow(const V* X, const SeedingPass& pass, bool early) const;
    // Makes room for the sums of some points; part_rows: 0 if sums of parts are not wanted.
    void prepare(SeedingPass& pass, int64_t points, int64_t part_rows);
    NextLaunch next_launch(unsigned blocks, int threads, bool early) const {
        return NextLaunch(blocks, threads, 0, memory_.stream, early && can_chain(device_));
    }
    void copy(const int64_t* from, int64_t count, int64_t* to) const {
        BB_CHECK(cudaMemcpyAsync(to, from, size_t(count) * 8, cudaMemcpyDefault, memory_.stream));
    }

    // Blocks with a whole panel each that a multiprocessor has to have, so that none of them waits long.
    static constexpr int kPanelBlocks = 3;

    Memory& memory_;
    const bb_device& device_;
    Array<double> strip_sums_, panel_sums_, part_sums_;
    Array<unsigned> tickets_;
    SeedingPass pass_ = {};  // of the chain
    Array<double> uniform_;
    Array<float> points_[2];  // of this pass and the next
    Array<int64_t> rows_[2], chosen_, found_;
    Array<int> stopped_;
    bool packs_ = false;
    Array<float> packed_, no_shift_;
    int64_t k_ = 0, done_ = 0;
    int trials_ = 0;
};

}  // namespace bmrm
