// Counts of pairs of points on a device; api/pairs.h.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "pairs/counter.h"

using namespace bmrm;

namespace {

constexpr int64_t kMaxLinearBins = 1 << 20;  // beyond, float32 has too few bits for a part of a bin
constexpr double kMaxUnequal = 1e-4;         // of a bin, up to which bins are of equal width
constexpr uint32_t kMaxSearchedCells = 6144;

uint32_t bits_of(float number) {
    uint32_t bits;
    std::memcpy(&bits, &number, sizeof bits);
    return bits;
}

float float_of(uint32_t bits) {
    float number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

}  // namespace

namespace bmrm {

PairBins::PairBins(Memory& memory, const std::vector<double>& bounds) {
    const double last = bounds.back();
    cells_ = on_device(memory, std::vector<SearchedCell>(1));
    searched.cells = cells_.data();
    if (!(last > 1e-200 && last < 1e200)) return;  // float64 decides everything
    one_radius = bounds.size() == 2 && bounds[0] <= 0;
    are_linear = find_linear(bounds);
    if (!are_linear) find_searched(memory, bounds);
}

bool PairBins::find_linear(const std::vector<double>& bounds) {
    const int64_t bins = int64_t(bounds.size()) - 1;
    const double first = std::sqrt(bounds.front()), last = std::sqrt(bounds.back());
    const double width = (last - first) / double(bins);
    if (bins > kMaxLinearBins || !(width > 0) || first > width * double(kMaxLinearBins)) return false;
    double unequal = 0;
    for (int64_t k = 0; k <= bins; k++)
        unequal = std::max(unequal, std::abs((std::sqrt(bounds[size_t(k)]) - first) / width - double(k)));
    if (unequal > kMaxUnequal) return false;
    scale = 1 / width;
    reach = last / width;
    first_edge = first > 0 ? first / width : 1 - unequal;
    linear = {float(first / width + 0.5), uint32_t(bins + 1), reach, unequal + 1e-12 * reach};
    return true;
}

void PairBins::find_searched(Memory& memory, const std::vector<double>& bounds) {
    const double last = bounds.back();
    scale = 1 / std::sqrt(last);
    std::vector<float> edges;
    std::vector<uint32_t> keys;  // of a squared distance just above the bound
    for (size_t k = 0; k < bounds.size(); k++)
        if (bounds[k] > 0) {
            edges.push_back(float(bounds[k] / last));
            keys.push_back(uint32_t(k + 1));
        }
    first_edge = std::sqrt(double(edges.front()));
    if (edges.front() < 1e-20f) return;
    for (int shift = 22; shift >= 8; shift--) {
        const float least = edges.front() * (1 - 2 * kCellMargin);
        const uint32_t first = bits_of(least) >> shift, count = (bits_of(2.0f) >> shift) - first + 1;
        if (count > kMaxSearchedCells) return;
        std::vector<SearchedCell> cells(count);
        bool apart = true;
        size_t next = 0;  // bound: the first one that is above the lower end of a cell, with the margin
        for (uint32_t c = 0; c < count && apart; c++) {
            const float from = float_of((first + c) << shift) * (1 - kCellMargin);
            const float to = float_of((first + c + 1) << shift) * (1 + kCellMargin);
            while (next < edges.size() && edges[next] < from) next++;
            const bool has = next < edges.size() && edges[next] <= to;
            apart = !has || next + 1 == edges.size() || edges[next + 1] > to;
            if (next == edges.size())
                cells[c] = {edges.back(), keys.back()};
            else
                cells[c] = {has ? edges[next] : INFINITY, keys[next]};
        }
        for (size_t k = 1; k < keys.size(); k++) apart &= edges[k] > edges[k - 1];
        if (!apart) continue;
        cells_ = on_device(memory, cells);
        searched = {cells_.data(), first, count - 1, shift, least, true};
        return;
    }
}

double PairSetup::slip() const {
    double sum = 0;
    for (size_t k = 0; k < a.length.size(); k++) {
        if (!(a.length[k] > 0)) continue;
        double most = a.length[k];
        for (const bb_points* points : {&a, &b})
            most += std::max(std::abs(points->low[k]), std::abs(points->high[k]));
        sum += std::pow(std::ldexp(most, -50), 2);
    }
    return std::sqrt(sum);
}

double TileTasks::pairs(int64_t first_task, int64_t last_task) const {
    if (first_task == 0 && last_task == count())
        return tiles.one_set ? double(a) * double(a - 1) / 2 : double(a) * double(b);
    double sum = 0;
    for (int64_t number = first(first_task), row, column; number < first(last_task); number++) {
        tiles.at(number, row, column);
        const double rows = tile_size(row, a), columns = tile_size(column, b);
        sum += tiles.one_set && row == column ? rows * (rows - 1) / 2 : rows * columns;
    }
    return sum;
}

}  // namespace bmrm

struct bb_pair_counter : Handle {
    bb_pair_counter(bb_points& a, bb_points& b, bool one_set, std::vector<double> given, int kernel,
                    bool all_images)
        : Handle(a.memory.device),
          bounds(std::move(given)),
          bins(memory, bounds),
          on_device_(on_device(memory, bounds)),
          totals_(memory, int64_t(bounds.size()) - 1),
          state_(memory, 2) {
        const PairSetup setup{memory,
                              a.device,
                              a,
                              b,
                              one_set,
                              bins,
                              {on_device_.data(), bin_count()},
                              std::nextafter(std::sqrt(bounds.back()), INFINITY)};
        if (a.n == 0 || b.n == 0 || bin_count() == 0) return;
        kernel_ = kernel == BB_PAIRS_BRUTE   ? make_brute(setup)
                  : kernel == BB_PAIRS_CELLS ? make_cells(setup)
                                             : make_float64(setup, all_images);
        BB_CHECK(cudaStreamSynchronize(memory.stream));
    }

    int64_t tasks() const { return kernel_ ? kernel_->tasks() : 0; }
    int64_t bin_count() const { return int64_t(bounds.size()) - 1; }
    bb_pair_work work() const {
        return {tasks(), kernel_ ? kernel_->candidates(0, tasks()) : 0, memory.used()};
    }
    void count(int64_t first, int64_t last, int64_t* counts, double* candidates, double* rechecked);

  private:
    const std::vector<double> bounds;
    const PairBins bins;
    Array<double> on_device_;
    Array<unsigned long long> totals_, state_;
    std::unique_ptr<PairKernel> kernel_;
};

void bb_pair_counter::count(int64_t first, int64_t last, int64_t* counts, double* candidates,
                            double* rechecked) {
    std::fill_n(counts, bin_count(), 0);
    *candidates = 0;
    *rechecked = 0;
    if (first >= last) return;
    totals_.fill_bytes(0);
    unsigned long long decided = 0;
    for (int64_t task = first; task < last; task++) {
        state_.fill_bytes(0);
        kernel_->launch({task, task + 1, state_.data(), {totals_.data(), uint32_t(bin_count() + 2), false}});
        decided += state_.at(1);
    }
    const std::vector<unsigned long long> found = totals_.to_host();
    for (size_t k = 0; k < found.size(); k++) counts[k] = int64_t(found[k]);
    *candidates = kernel_->candidates(first, last);
    *rechecked = kernel_->decides_all() ? *candidates : double(decided);
}

namespace {

void check(bb_points& a, bb_points& b, const std::vector<double>& bounds, int kernel, bool all_images) {
    const auto expect = [](bool holds, const std::string& text) {
        if (!holds) throw Failure(BB_INVALID, text);
    };
    expect(a.memory.device == b.memory.device && a.length == b.length,
           "points: expected two sets on one device, with the same box");
    expect(std::is_sorted(bounds.begin(), bounds.end()) && !bounds.empty() && bounds.front() >= 0,
           "bounds: expected squared distances that do not decrease");
    expect(bounds.size() < size_t(1) << 31, "bounds: expected fewer than 2^31");
    const int most = kernel == BB_PAIRS_BRUTE ? BB_PAIRS_BRUTE_AXES : BB_PAIRS_CELL_AXES;
    if (kernel != BB_PAIRS_FLOAT64)
        expect(a.axes <= most && !all_images,
               "plan: expected nearest images and at most " + std::to_string(most) + " axes of this kernel");
}

}  // namespace

extern "C" {

bb_status bb_pair_counter_create(bb_points* a, bb_points* b, const double* bounds, int64_t bins,
                                 int32_t kernel, int32_t all_images, bb_pair_counter** out) {
    return on_handle(a, [&](bb_points& one) {
        bb_points& other = b ? *b : one;
        std::vector<double> given(bounds, bounds + bins + 1);
        check(one, other, given, kernel, all_images != 0);
        *out = new bb_pair_counter(one, other, !b, std::move(given), kernel, all_images != 0);
    });
}

void bb_pair_counter_destroy(bb_pair_counter* counter) { destroy_handle(counter); }

bb_status bb_pair_counter_work(bb_pair_counter* counter, bb_pair_work* work) {
    return on_handle(counter, [&](bb_pair_counter& held) { *work = held.work(); });
}

bb_status bb_pair_counter_count(bb_pair_counter* counter, int64_t first, int64_t last, int64_t* counts,
                                double* candidates, double* rechecked) {
    return on_handle(counter, [&](bb_pair_counter& held) {
        if (first < 0 || first > last || last > held.tasks())
            throw Failure(BB_INVALID, "tasks: out of range");
        held.count(first, last, counts, candidates, rechecked);
    });
}

}  // extern "C"
