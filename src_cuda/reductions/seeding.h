// The passes of k-means++ over dense rows on a device, one by one or as a chain of launches.
#pragma once
#include <algorithm>

#include "reductions/kernels/seeding.cuh"
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
    void measure(const V* X, SeedingPass pass, int64_t count, bool takes, float* closest, double* sums) {
        prepare(pass, std::min<int64_t>(count, kMaxPoints), 0);
        pass.takes = takes;
        pass.closest = closest;
        float* points = pass.points;
        for (int64_t first = 0; first < count; first += kMaxPoints) {
            pass.points = points + first * pass.d;
            pass.count = int(std::min<int64_t>(kMaxPoints, count - first));
            pass.panel_sums = sums + first * pass.panels;
            launch_pass(X, pass, false);
        }
    }

    // Begins to choose k centres, of which `row` is the first.  uniform: (k - 1, trials), on the host.
    template <class V>
    void begin(const V* X, const SeedingPass& pass, int64_t row, const double* uniform, int64_t k, int trials,
               int64_t part_rows, float* closest) {
        pass_ = pass;
        prepare(pass_, trials + 1, part_rows);
        if (pass_.strips <= kMaxFewStrips && pass_.parts <= kFewParts)
            pass_.panel_sums = pass_.part_sums = nullptr;
        pass_.takes = true;
        pass_.closest = closest;
        k_ = k;
        trials_ = trials;
        done_ = 0;
        reserve(memory_, uniform_, std::max<int64_t>(1, (k - 1) * trials));
        reserve(memory_, chosen_, k);
        reserve(memory_, found_, 1);
        reserve(memory_, stopped_, 1);
        for (int i = 0; i < 2; i++) {
            reserve(memory_, points_[i], (trials + 1) * pass.d);
            reserve(memory_, rows_[i], trials + 1);
        }
        if (k > 1) uniform_.from_host(uniform, (k - 1) * trials);
        pass_.stopped = stopped_.data();
        next_launch(1, 256, false)(begin_choice<V>, X, pass.d, pass.origin, row, points_[0].data(),
                                   rows_[0].data(), found_.data(), stopped_.data());
        packs_ = sizeof(V) == 8 && pass.n * pass.d * 4 <= kMaxPackedBytes;
        if (!packs_) return;
        reserve(memory_, packed_, pass.n * pass.d);
        reserve(memory_, no_shift_, pass.d);
        no_shift_.fill_bytes(0);
        next_launch(blocks_for(pass.n * pass.d), 256, false)(pack_rows<V>, X, pass.n, pass.d, pass.origin,
                                                             packed_.data());
        pass_.origin = {nullptr, no_shift_.data(), 1.0, {1.0f, 1.0f}};
    }

    // Chooses up to `count` further centres into `rows`, and waits; returns how many there are.
    template <class V>
    int64_t go_on(const V* X, int64_t count, int64_t* rows) {
        const int64_t before = done_, end = std::min(k_, before + count);
        if (packs_)
            launch_centers(packed_.data(), end);
        else
            launch_centers(X, end);
        int64_t found = 0;
        copy(found_.data(), 1, &found);
        if (end > before) copy(chosen_.data() + before, end - before, rows);
        BB_CHECK(cudaStreamSynchronize(memory_.stream));
        return std::min(found, end) - before;
    }

  private:
    template <class V>
    void launch_centers(const V* X, int64_t end) {
        const auto choose = is_aligned(X, pass_.d) ? choose_and_draw<V, true> : choose_and_draw<V, false>;
        for (; done_ < end; done_++) {
            const int now = int(done_ % 2), next = 1 - now, trials = done_ + 1 < k_ ? trials_ : 0;
            pass_.points = points_[now].data();
            pass_.count = done_ ? 1 + trials_ : 1;
            pass_.summed = done_ ? 1 : 0;
            pass_.step = int(done_);
            launch_pass(X, pass_, done_ > 0);  // the first one reads what `begin` has queued before it waits
            const SeedingChoice choice = {rows_[now].data(),
                                          rows_[next].data(),
                                          points_[next].data(),
                                          uniform_.data() + done_ * trials_,
                                          trials,
                                          chosen_.data() + done_,
                                          found_.data(),
                                          stopped_.data()};
            next_launch(unsigned(std::max(1, trials)), kDrawThreads, true)(choose, X, pass_, choice);
        }
    }
    NextLaunch next_launch(unsigned blocks, int threads, bool early) const {
        return NextLaunch(blocks, threads, 0, memory_.stream, early && can_chain(device_));
    }
    void copy(const int64_t* from, int64_t count, int64_t* to) const {
        BB_CHECK(cudaMemcpyAsync(to, from, size_t(count) * 8, cudaMemcpyDefault, memory_.stream));
    }
    template <class V>
    static bool is_aligned(const V* X, int64_t d) {
        return d * int64_t(sizeof(V)) % 16 == 0 && reinterpret_cast<uintptr_t>(X) % 16 == 0;
    }

    // Makes room for the sums of some points; part_rows: 0 if sums of parts are not wanted.
    void prepare(SeedingPass& pass, int64_t points, int64_t part_rows) {
        pass.strips = (pass.n + kStripRows - 1) / kStripRows;
        pass.panels = (pass.n + BB_PANEL_ROWS - 1) / BB_PANEL_ROWS;
        pass.part_panels = part_rows / BB_PANEL_ROWS;
        pass.parts = part_rows ? (pass.n + part_rows - 1) / part_rows : 0;
        reserve(memory_, strip_sums_, points * pass.strips);
        reserve(memory_, panel_sums_, points * pass.panels);
        reserve(memory_, part_sums_, points * pass.parts);
        if (tickets_.size() < pass.panels + pass.parts) {
            reserve(memory_, tickets_, pass.panels + pass.parts);
            tickets_.fill_bytes(0);
        }
        pass.strip_sums = strip_sums_.data();
        pass.panel_sums = panel_sums_.data();
        pass.part_sums = part_rows ? part_sums_.data() : nullptr;
        pass.tickets = tickets_.data();
    }

    template <class V>
    void launch_pass(const V* X, const SeedingPass& pass, bool early) const {
        if (pass.d > kMaxNarrowColumns)
            return next_launch(unsigned(pass.strips), kWideThreads, early)(
                is_aligned(X, pass.d) ? measure_wide<V, true> : measure_wide<V, false>, X, pass);
        if (pass.d <= 1) return launch_narrow<1>(X, pass, early);
        if (pass.d <= 2) return launch_narrow<2>(X, pass, early);
        if (pass.d <= 3) return launch_narrow<3>(X, pass, early);
        if (pass.d <= 4) return launch_narrow<4>(X, pass, early);
        if (pass.d <= 8) return launch_narrow<8>(X, pass, early);
        launch_narrow<16>(X, pass, early);
    }
    template <int D, class V>
    void launch_narrow(const V* X, const SeedingPass& pass, bool early) const {
        const bool whole = is_aligned(X, pass.d) && pass.d == D;
        if (pass.panel_sums && pass.panels >= int64_t(device_.multiprocessors) * kPanelBlocks)
            return next_launch(unsigned(pass.panels), kNarrowRows, early)(measure_narrow<V, D, kPanelRounds>,
                                                                          X, pass, whole);
        next_launch(unsigned((pass.n + kNarrowRows - 1) / kNarrowRows), kNarrowRows, early)(
            measure_narrow<V, D, 1>, X, pass, whole);
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
