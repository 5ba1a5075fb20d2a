// Steps of EM on a device: where a pass keeps its sums, and the layout of its arrays.
#include <algorithm>
#include <cstring>

#include "api/mixture.h"
#include "mixtures/kernels/mixture.cuh"
#include "rows/resident_rows.h"
#include "runtime/partial_sums.cuh"

using namespace bmrm;

namespace {

// Warps of all parts together: so many blocks of eight for each multiprocessor of an H100, as its registers
// and shared memory hold; the same on all devices, so that the bits are.
constexpr int64_t kFullWarps = 2 * 8 * 132, kDiagonalWarps = 4 * 8 * 132;
// Maximum size of the sums of all parts, and of shares that are not in shared memory.
constexpr int64_t kMaxPartBytes = int64_t(1) << 29;
// Maximum size of the shares that are on the device at a time when they are written out.
constexpr int64_t kMaxShareBytes = int64_t(1) << 26;

int64_t blocks_of_columns(int64_t d) { return (d + 7) / 8; }

// Bytes of shared memory of a pass without shares and sums.
int64_t row_bytes(int64_t blocks) {
    return 8 * (kMaxMixtureWarps + kTileRows * row_stride(blocks) + kTileRows);
}

struct MixturePlan {
    int64_t blocks, moments, numbers, parts, share_bytes;
    int warps;

    MixturePlan(int64_t n, int64_t d, int64_t k, bool full)
        : blocks(blocks_of_columns(d)),
          moments(mixture_moments(full, blocks)),
          numbers(mixture_numbers(full, blocks, k)),
          share_bytes(8 * k * kShareStride),
          warps(int(std::min<int64_t>(k, kMaxMixtureWarps))) {
        const int64_t most = std::max<int64_t>(1, kMaxPartBytes / (8 * numbers + share_bytes));
        parts = std::clamp<int64_t>((n + kTileRows - 1) / kTileRows, 1,
                                    std::min(most, (full ? kFullWarps : kDiagonalWarps) / warps));
    }
    int64_t bytes() const { return parts * (8 * numbers + share_bytes); }
};

// What a pass keeps in shared memory: everything if two blocks of threads fit, else the shares if one does.
struct SharedPlan {
    bool shares, sums;
    int64_t bytes;

    SharedPlan(const bb_device& device, const MixturePlan& plan, bool with_sums) {
        const int64_t rows = row_bytes(plan.blocks), all = rows + plan.share_bytes + 8 * plan.numbers;
        if (rows > device.shared_per_block)
            throw Failure(BB_INVALID, "X: expected at most " + std::to_string(bb_mixture_columns(&device)) +
                                          " columns on this GPU");
        const int64_t half = std::min(device.shared_per_block, device.shared_per_multiprocessor / 2 - 1024);
        shares = rows + plan.share_bytes <= device.shared_per_block;
        sums = with_sums && all <= half;
        bytes = sums ? all : rows + (shares ? plan.share_bytes : 0);
    }
};

// A mixture on the device, with padded columns and roots in the order in which threads read them.
struct ModelOnDevice {
    ModelOnDevice(Memory& memory, PinnedRoom& staging, const bb_mixture_model& from, int64_t d)
        : blocks_(blocks_of_columns(d)), k_(from.k), full_(from.full), d_(d) {
        const int64_t padded = 8 * blocks_, root = second_moments(full_, blocks_);
        const int64_t size = k_ * (padded + root + 1);
        double* const means = staging.reserve(size);
        double *roots = means + k_ * padded, *constants = roots + k_ * root;
        std::fill_n(means, size, 0.0);
        for (int64_t j = 0; j < k_; j++) {
            std::copy_n(from.means + j * d, d, means + j * padded);
            if (!from.roots) continue;
            constants[j] = from.constants[j];
            if (full_)
                pack_root(from.roots + j * d * d, roots + j * root);
            else
                std::copy_n(from.roots + j * d, d, roots + j * root);
        }
        all_ = Array<double>(memory, size);
        all_.from_host(means, size);  // the caller waits for it before it uses the staging memory again
    }
    MixtureModel model() const {
        const int64_t padded = 8 * blocks_, root = second_moments(full_, blocks_);
        const double *means = all_.data(), *roots = means + k_ * padded;
        return {means, roots, roots + k_ * root, int32_t(k_), int32_t(blocks_)};
    }

  private:
    void pack_root(const double* from, double* to) const {
        for (int64_t f = 0; f < 8 * blocks_; f += 8)
            for (int64_t c = 0; c <= f; c += 8)
                for (int half = 0; half < 2; half++)
                    for (int lane = 0; lane < 32; lane++, to++) {
                        const int64_t row = f + lane / 4, column = c + 4 * half + lane % 4;
                        if (row < d_ && column <= row) *to = from[row * d_ + column];
                    }
    }

    const int64_t blocks_, k_;
    const bool full_;
    const int64_t d_;
    Array<double> all_;
};

template <class T, MixtureTask TASK>
void queue_pass(const bb_dense_rows& held, const MixturePlan& plan, const SharedPlan& shared, bool full,
                const MixtureRows<T>& rows, const MixtureModel& model, const MixturePlaces& places,
                int grid) {
    const auto kernel = full ? mixture_pass<T, true, TASK> : mixture_pass<T, false, TASK>;
    allow_shared(kernel, shared.bytes);
    const NextLaunch launch(unsigned(grid ? std::min<int64_t>(grid, places.parts) : places.parts),
                            plan.warps * 32, shared.bytes, held.memory.stream, false);
    launch(kernel, rows, model, places);
}

void unpack(const double* found, const MixturePlan& plan, const bb_mixture_model& model, int64_t d,
            bb_mixture_moments* to) {
    for (int64_t j = 0; j < model.k; j++) {
        const double* from = found + j * plan.moments;
        const double* first = from + second_moments(model.full, plan.blocks);
        to->weights[j] = first[8 * plan.blocks];
        std::copy_n(first, d, to->first + j * d);
        if (!model.full) {
            std::copy_n(from, d, to->second + j * d);
            continue;
        }
        for (int64_t f = 0; f < d; f++)
            for (int64_t h = 0; h < d; h++) {
                const int64_t a = f / 8, b = h / 8;
                to->second[(j * d + f) * d + h] =
                    h > f ? 0.0 : from[(a * (a + 1) / 2 + b) * 64 + f % 8 * 8 + h % 8];
            }
    }
    to->likelihood = found[model.k * plan.moments];
}

void expect_components(const bb_mixture_model& model) {
    if (model.k < 1) throw Failure(BB_INVALID, "means: expected at least one component");
}

}  // namespace

extern "C" {

int64_t bb_mixture_columns(const bb_device* device) {
    int64_t blocks = 0;
    while (row_bytes(blocks + 1) <= device->shared_per_block) blocks++;
    return 8 * blocks;
}

int64_t bb_mixture_bytes(int64_t n, int64_t d, int32_t k, int32_t full) {
    const MixturePlan plan(n, d, k, full);
    return plan.bytes() + 8 * k * (8 * plan.blocks + second_moments(full, plan.blocks) + 1) + 4 * n;
}

bb_status bb_mixture_step(bb_dense_rows* rows, const bb_mixture_model* model, const int32_t* labels,
                          int32_t grid, bb_mixture_moments* moments) {
    return on_handle(rows, [&](bb_dense_rows& held) {
        expect_components(*model);
        const int64_t n = held.rows.n, d = held.rows.d;
        const MixturePlan plan(n, d, model->k, model->full);
        const SharedPlan shared(held.device, plan, true);
        Memory& memory = held.memory;
        const ModelOnDevice there(memory, held.given, *model, d);
        Array<int32_t> given_labels;
        if (labels) {
            given_labels = Array<int32_t>(memory, n);
            given_labels.from_host(labels, n);
        }
        reserve(memory, held.work, plan.parts * plan.numbers);
        // The few results are written to the memory of the host, which is faster than a copy.
        double *const sums = held.work.data(), *const found = held.found.reserve(plan.numbers);
        Array<double> shares;
        if (!shared.shares) shares = Array<double>(memory, plan.parts * model->k * kShareStride);
        const MixturePlaces places = {plan.parts,  sums,    plan.numbers, shares.data(),
                                      shared.sums, nullptr, nullptr};
        held.rows.with([&](auto* values) {
            using T = std::remove_const_t<std::remove_pointer_t<decltype(values)>>;
            const MixtureRows<T> given = {values, held.weights.data(), given_labels.data(), n, int32_t(d)};
            if (labels)
                queue_pass<T, kLabelMoments>(held, plan, shared, model->full, given, there.model(), places,
                                             grid);
            else
                queue_pass<T, kMixtureStep>(held, plan, shared, model->full, given, there.model(), places,
                                            grid);
        });
        add_up(sums, plan.parts, plan.numbers, plan.numbers - 1, found, memory.stream, false);
        BB_CHECK(cudaStreamSynchronize(memory.stream));
        unpack(found, plan, *model, d, moments);
    });
}

bb_status bb_mixture_shares(bb_dense_rows* rows, const bb_mixture_model* model, double* densities,
                            double* shares) {
    return on_handle(rows, [&](bb_dense_rows& held) {
        expect_components(*model);
        const int64_t n = held.rows.n, d = held.rows.d, k = model->k;
        Memory& memory = held.memory;
        const ModelOnDevice there(memory, held.given, *model, d);
        const int64_t each = std::clamp<int64_t>(kMaxShareBytes / (8 * k) / kTileRows * kTileRows, kTileRows,
                                                 (n + kTileRows - 1) / kTileRows * kTileRows);
        const MixturePlan plan(each, d, k, model->full);
        const SharedPlan shared(held.device, plan, false);
        Array<double> row_shares(memory, each * k), row_densities(memory, each), scratch;
        if (!shared.shares) scratch = Array<double>(memory, plan.parts * k * kShareStride);
        const MixturePlaces places = {plan.parts,           nullptr,          0, scratch.data(), 0,
                                      row_densities.data(), row_shares.data()};
        for (int64_t first = 0; first < n; first += each) {
            const int64_t count = std::min(each, n - first);
            held.rows.with([&](auto* values) {
                using T = std::remove_const_t<std::remove_pointer_t<decltype(values)>>;
                const MixtureRows<T> given = {values + first * d, nullptr, nullptr, count, int32_t(d)};
                queue_pass<T, kMixtureShares>(held, plan, shared, model->full, given, there.model(), places,
                                              0);
            });
            BB_CHECK(cudaMemcpyAsync(densities + first, row_densities.data(), size_t(count) * 8,
                                     cudaMemcpyDefault, memory.stream));
            BB_CHECK(cudaMemcpyAsync(shares + first * k, row_shares.data(), size_t(count * k) * 8,
                                     cudaMemcpyDefault, memory.stream));
            BB_CHECK(cudaStreamSynchronize(memory.stream));
        }
    });
}

}  // extern "C"
