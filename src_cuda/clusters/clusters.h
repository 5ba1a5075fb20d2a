// Rows on a device as the passes of k-means read them, whatever their kind.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "api/clusters.h"
#include "clusters/kernels/centers.cuh"
#include "clusters/kernels/potentials.cuh"
#include "runtime/chain.cuh"
#include "runtime/handle.h"
#include "runtime/pinned.h"
#include "runtime/pinned_room.h"

struct bb_clusters : bmrm::Handle {
    bb_clusters(const bb_device& device, int64_t n, int64_t d, const double* weights, int64_t memory_limit,
                int threads)
        : Handle(device.id),
          device(device),
          n(n),
          d(d),
          capacity(n),
          threads_(std::min(threads, kMaxCopyThreads)) {
        memory.set_limit(memory_limit);
        if (weights) {
            weights_ = bmrm::Array<double>(memory, n);
            weights_.from_host(weights, n);
        }
        largest_ = bmrm::Array<unsigned long long>(memory, 1);
        BB_CHECK(cudaStreamSynchronize(memory.stream));
    }
    virtual ~bb_clusters() = default;

    // Replace the rows.
    virtual void load(int64_t, const void*, const double*) {
        throw bmrm::Failure(BB_INVALID, "rows: expected dense ones that were uploaded");
    }
    virtual void load_sparse(int64_t, const int64_t*, const int32_t*, const void*, const double*) {
        throw bmrm::Failure(BB_INVALID, "rows: expected sparse ones");
    }
    virtual double largest() = 0;
    virtual void pack(const double* shift, double scale) = 0;
    virtual void take(const int64_t* numbers, int64_t count, double* values) = 0;
    // The passes take centres on the host and columns on the device.
    virtual void assign(const double* centers, int64_t k, int32_t* labels, double* sums,
                        double* cluster_weights, bb_cluster_counts* found) = 0;
    virtual void own(const double* centers, int64_t k, const int32_t* labels, double* distances) = 0;
    virtual void moves(const double* centers, int64_t k, const int32_t* labels, const double* cluster_weights,
                       bb_cluster_counts* found) = 0;
    virtual void distances(const double* centers, int64_t k, int64_t first, int64_t count,
                           double* distances) = 0;
    virtual void potentials(const double* points, int64_t count, float* closest, bool take, double* sums) = 0;
    virtual void begin_choice(int64_t, const double*, int64_t, int, int64_t, float*) {
        throw bmrm::Failure(BB_INVALID, "rows: expected dense ones");
    }
    virtual int64_t choose(int64_t, int64_t*) { return 0; }
    virtual void approach(const double* points, int64_t count, int32_t first, double scale, float* closest,
                          int32_t* nearest, double* sums) = 0;
    int64_t draw(const float* closest, uint64_t key, int64_t first, double factor, int32_t* drawn) {
        begin(0);
        launch(grid(bmrm::blocks_for(n)), 256)(bmrm::draw_rows, closest, n, weights_.data(), key, first,
                                               factor, &counters_->listed, drawn);
        bmrm::PassCounters counted;
        fetch_results(0, counted);
        return counted.listed;
    }

    void count(const int32_t* labels, int64_t k, uint32_t* counts) {
        bmrm::Array<unsigned> found(memory, k);
        found.fill_bytes(0);
        launch(grid(bmrm::blocks_for(n)), 256)(bmrm::count_labels, labels, n, found.data());
        BB_CHECK(cudaMemcpyAsync(counts, found.data(), size_t(k) * 4, cudaMemcpyDefault, stream()));
        BB_CHECK(cudaStreamSynchronize(stream()));
    }

    int64_t panels() const { return (n + BB_PANEL_ROWS - 1) / BB_PANEL_ROWS; }

    const bb_device device;
    int64_t n;
    const int64_t d, capacity;  // capacity: rows at first, and numbers of a column

  protected:
    cudaStream_t stream() const { return memory.stream; }
    // Blocks of a grid whose threads loop: a few for each multiprocessor.
    unsigned grid(int64_t wanted, int each = 8) const {
        const int64_t most = int64_t(device.multiprocessors) * each;
        return unsigned(wanted < 1 ? 1 : wanted < most ? wanted : most);
    }
    bmrm::NextLaunch launch(unsigned blocks, int threads, int64_t shared_bytes = 0) const {
        return bmrm::NextLaunch(blocks, threads, shared_bytes, stream(), false);
    }
    // A launch that may begin before the last one ends: its kernel waits.
    bmrm::NextLaunch launch_early(unsigned blocks, int threads, int64_t shared_bytes = 0) const {
        return bmrm::NextLaunch(blocks, threads, shared_bytes, stream(), bmrm::can_chain(device));
    }
    // Copies `count` doubles to the host through the staging area, with what is queued before.
    void fetch(const double* from, int64_t count, double* to) {
        double* staged = staging_.reserve(count);
        BB_CHECK(cudaMemcpyAsync(staged, from, size_t(count) * sizeof(double), cudaMemcpyDefault, stream()));
        BB_CHECK(cudaStreamSynchronize(stream()));
        memcpy(to, staged, size_t(count) * sizeof(double));
    }

    // Threads of the host that copy centres and sums, and the least numbers that several of them pay for.
    static constexpr int kMaxCopyThreads = 4;
    static constexpr int64_t kMinTeamNumbers = 1 << 15;

    // Numbers that one kernel reads from the memory of the host faster than they are copied before.
    static constexpr int64_t kMaxGivenNumbers = 1 << 12;

    // Returns where a kernel finds the centres; the device has no other copy if `copied` is false.
    const double* give(const double* centers, int64_t k, bool& copied) {
        copied = k * d > kMaxGivenNumbers;
        if (copied) {
            upload(centers, k);
            return centers_.data();
        }
        bmrm::reserve(memory, centers_, k * d);
        double* staged = sent_.reserve(k * d);
        memcpy(staged, centers, size_t(k * d) * sizeof(double));
        return staged;
    }
    void upload(const double* centers, int64_t k) {
        const int64_t count = k * d;
        bmrm::reserve(memory, centers_, count);
        double* staged = sent_.reserve(count);
        const auto fill = [&](int64_t first, int64_t some) {
            bmrm::copy_to_pinned(centers + first, size_t(some) * sizeof(double), staged + first);
        };
        const auto send = [&](int64_t first, int64_t some) {
            BB_CHECK(cudaMemcpyAsync(centers_.data() + first, staged + first, size_t(some) * sizeof(double),
                                     cudaMemcpyDefault, stream()));
        };
        if (count >= kMinTeamNumbers) return bmrm::fill_and_send(count, threads_, fill, send);
        fill(0, count);
        send(0, count);
    }
    static constexpr int64_t kCounterWords = (sizeof(bmrm::PassCounters) + 7) / 8;  // of a double each

    // Makes room for `size` results, and sets all counters, which come after them, to 0.
    void begin(int64_t size) {
        bmrm::reserve(memory, results_, size + kCounterWords);
        counters_ = reinterpret_cast<bmrm::PassCounters*>(results_.data() + size);
        BB_CHECK(cudaMemsetAsync(counters_, 0, sizeof(bmrm::PassCounters), stream()));
    }
    // Copies the results and the counters to the host, after what is queued, and waits.
    const double* fetch_results(int64_t size, bmrm::PassCounters& counted) {
        double* staged = staging_.reserve(size + kCounterWords);
        BB_CHECK(cudaMemcpyAsync(staged, results_.data(), size_t(size + kCounterWords) * sizeof(double),
                                 cudaMemcpyDefault, stream()));
        BB_CHECK(cudaStreamSynchronize(stream()));
        memcpy(&counted, staged + size, sizeof counted);
        return staged;
    }
    // The results of a pass: of each cluster d sums and the weight, then the inertia.
    void fetch_sums(int64_t k, double* sums, double* cluster_weights, bb_cluster_counts* found) {
        bmrm::PassCounters counted;
        const int64_t size = k * (d + 1);
        const double* staged = fetch_results(size + 1, counted);
        const auto drain = [&](int64_t first, int64_t some) {
            for (int64_t j = first; j < first + some; j++) {
                if (sums) memcpy(sums + j * d, staged + j * (d + 1), size_t(d) * sizeof(double));
                cluster_weights[j] = staged[j * (d + 1) + d];
            }
        };
        if (sums && size >= kMinTeamNumbers)
            bmrm::wait_and_drain(k, 1 + k / (4 * threads_), threads_, [](int64_t, int64_t) {}, drain);
        else
            drain(0, k);
        *found = {staged[size], int64_t(counted.changed), int64_t(counted.listed), 0.0};
    }
    // Ends `approach` with the nearest of the new points and the squared distances.
    void keep_closer(const double* squares, const int32_t* fresh, double scale, int32_t first, float* closest,
                     int32_t* nearest, double* sums) {
        bmrm::Array<double> of_panels(memory, panels());
        launch(unsigned(panels()), bmrm::kPotentialThreads)(bmrm::take_closer, squares, fresh, n,
                                                            weights_.data(), scale, first, closest, nearest,
                                                            of_panels.data());
        fetch(of_panels.data(), panels(), sums);
    }
    void fetch_moves(bb_cluster_counts* found) {
        bmrm::PassCounters counted;
        fetch_results(0, counted);
        *found = {0.0, int64_t(counted.changed), 0, 0.0};
        memcpy(&found->largest, &counted.largest, sizeof found->largest);
    }
    double fetch_largest() const {
        const unsigned long long bits = largest_.at(0);
        double found = 0;
        memcpy(&found, &bits, sizeof found);
        return found < HUGE_VAL ? found : HUGE_VAL;  // NaN is not below
    }

    bmrm::Array<double> weights_, centers_, results_;
    bmrm::PassCounters* counters_ = nullptr;
    const int threads_;
    bmrm::Array<unsigned long long> largest_;
    bmrm::PinnedRoom staging_;  // for what comes back
    bmrm::PinnedRoom sent_;     // for centres; next written by a call after this one has ended
};

namespace bmrm {

std::unique_ptr<bb_clusters> make_dense_clusters(const bb_device& device, int64_t n, int64_t d, bb_type type,
                                                 const void* values, const double* weights,
                                                 int64_t memory_limit, int threads);
std::unique_ptr<bb_clusters> make_sparse_clusters(const bb_device& device, int64_t n, int64_t d,
                                                  int64_t most_entries, const int64_t* starts,
                                                  const int32_t* columns, bb_type type, const void* values,
                                                  const double* weights, int64_t memory_limit, int threads);

}  // namespace bmrm
