// The passes of k-means over dense rows on a device.
//
// A pass labels all rows in float32 with a bound on the error (nearest_lanes.cuh, nearest_tensor.cuh), then
// those that the bound leaves in question in float64 (exact.cuh), then adds up the rows of each cluster
// (cluster_sums.cuh).  Rows with up to kMaxLaneColumns columns are read as they are; of wider ones there is a
// second copy for the tensor cores, of 4 bytes per value.
#include "reductions/clusters.h"
#include "reductions/dense_rows.h"
#include "reductions/kernels/cluster_sums.cuh"
#include "reductions/kernels/exact.cuh"
#include "reductions/kernels/nearest_lanes.cuh"
#include "reductions/kernels/nearest_tensor.cuh"
#include "reductions/kernels/potentials.cuh"
#include "reductions/sorted_rows.h"
#include "runtime/partial_sums.cuh"

namespace bmrm {

namespace {

// Columns up to which the multiply-adds of a thread are faster than splitting rows for the tensor cores.
constexpr int64_t kMaxLaneColumns = 32;
// Sums that each warp keeps in shared memory: 64 KB per block, which every supported device has.
constexpr int64_t kMaxBins = 2048;
// Parts of the rows for such sums: six blocks for each multiprocessor of an H100.
constexpr int64_t kMaxParts = 792;
constexpr int64_t kMinStripRows = 128;
// Distances that are computed at a time before they are copied to the host.
constexpr int64_t kDistancesAtOnce = int64_t(1) << 22;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

int64_t strip_rows(int64_t n) {
    return std::max(kMinStripRows, round_up((n + kMaxParts * kStrips - 1) / (kMaxParts * kStrips), 32));
}

int64_t chunk_capacity(int64_t n, int64_t k) { return n / kChunkRows + std::min(n, k); }

template <int VALUE>
struct Constant {
    static constexpr int value = VALUE;
};

// Calls use with the number of columns for which a kernel exists, and the number of rows of a thread.
template <class Use>
void with_lanes(int64_t d, Use&& use) {
    if (d <= 1) return use(Constant<1>(), Constant<4>());
    if (d <= 2) return use(Constant<2>(), Constant<4>());
    if (d <= 3) return use(Constant<3>(), Constant<4>());
    if (d <= 4) return use(Constant<4>(), Constant<4>());
    if (d <= 8) return use(Constant<8>(), Constant<4>());
    if (d <= 16) return use(Constant<16>(), Constant<4>());
    return use(Constant<32>(), Constant<2>());
}

// Of |z|^2/2 - y.z in float32, from the roundings of y, z and |z|^2/2 and of d multiply-adds (Higham,
// Accuracy and Stability of Numerical Algorithms, section 3.1, and Cauchy-Schwarz), plus underflow.
FastError lane_error(int64_t d) {
    const double terms = double(d + 8) * 0x1p-24, g = terms / (1 - terms) * (1 + 0x1p-20);
    return {float(g), float(g), float(double(d) * 0x1p-140)};
}

class DenseClusters final : public bb_clusters {
  public:
    DenseClusters(const bb_device& device, int64_t n, int64_t d, bb_type type, const void* values,
                  const double* weights, int64_t memory_limit, int threads)
        : bb_clusters(device, n, d, weights, memory_limit),
          rows_(memory, type, n, d, values, threads),
          fresh_(memory, n),
          listed_(memory, n),
          shift_(memory, d) {}

    double largest() override {
        largest_.fill_bytes(0);
        rows_.with([&](auto X) {
            launch(grid(blocks_for(n * d)), 256)(find_largest<Value<decltype(X)>>, X, n * d, largest_.data());
        });
        return fetch_largest();
    }

    void pack(const double* shift, double scale) override {
        shift_.from_host(shift, d);
        scale_ = scale;
        if (is_wide() && !split_) {
            const int64_t padded = round_up(n, kTileRows);
            split_ = Array<__nv_bfloat16>(memory, padded * chunks() * kChunkNumbers);
            norms_ = Array<float>(memory, padded);
        }
        if (split_)
            rows_.with([&](auto X) {
                launch(grid(blocks_for(32 * n), 16), 256)(split_rows<Value<decltype(X)>>, X, n,
                                                          round_up(n, kTileRows), d, shift_.data(), scale_,
                                                          chunks(), split_.data(), norms_.data());
            });
        BB_CHECK(cudaStreamSynchronize(stream()));  // the caller's shift has been read
    }

    void take(const int64_t* numbers, int64_t count, double* values) override {
        Array<int64_t> chosen(memory, count);
        Array<double> out(memory, count * d);
        chosen.from_host(numbers, count);
        rows_.with([&](auto X) {
            launch(grid(blocks_for(count * d)), 256)(take_rows<Value<decltype(X)>>, X, d, chosen.data(),
                                                     count, out.data());
        });
        fetch(out.data(), count * d, values);
    }

    void assign(const double* centers, int64_t k, int32_t* labels, double* sums, double* cluster_weights,
                bb_cluster_counts* found) override {
        const int64_t size = k * (d + 1);
        upload(centers, k);
        prepare(k);
        rows_.with([&](auto X) {
            find_nearest(X, k);
            if (size <= kMaxBins)
                sum_by_strips(X, int(k), labels);
            else
                sum_by_chunks(X, k, labels);
        });
        fetch_sums(results_.data(), k, sums, cluster_weights, found);
    }

    void own(const double* centers, int64_t k, const int32_t* labels, double* distances) override {
        upload(centers, k);
        Array<double> out(memory, n);
        rows_.with([&](auto X) {
            launch(grid(blocks_for(32 * n), 16), 256)(measure_own<Value<decltype(X)>>, X, n, d,
                                                      centers_.data(), labels, out.data());
        });
        fetch(out.data(), n, distances);
    }

    void moves(const double* centers, int64_t k, const int32_t* labels, const double* cluster_weights,
               bb_cluster_counts* found) override {
        upload(centers, k);
        prepare(k);
        Array<double> of_clusters(memory, k);
        of_clusters.from_host(cluster_weights, k);
        rows_.with([&](auto X) {
            launch(exact_grid(n), exact_threads(k))(find_moves<Value<decltype(X)>>, X, n, d, columns_.data(),
                                                    k, weights_.data(), labels, of_clusters.data(),
                                                    counters_.data());
        });
        fetch_moves(found);
    }

    void distances(const double* centers, int64_t k, int64_t first, int64_t count,
                   double* distances) override {
        upload(centers, k);
        prepare(k);
        const int64_t most = std::max<int64_t>(1, kDistancesAtOnce / k);
        Array<double> out(memory, std::min(most, count) * k);
        for (int64_t i = 0; i < count; i += most) {
            const int64_t some = std::min(most, count - i);
            rows_.with([&](auto X) {
                launch(exact_grid(some), exact_threads(k))(measure_all<Value<decltype(X)>>,
                                                           X + (first + i) * d, some, d, columns_.data(), k,
                                                           out.data());
            });
            fetch(out.data(), some * k, distances + i * k);
        }
    }

    void potentials(const int64_t* candidates, int64_t count, float* closest, bool take,
                    double* sums) override {
        Array<int64_t> chosen(memory, count);
        Array<float> points(memory, count * d);
        Array<double> out(memory, count * panels());
        chosen.from_host(candidates, count);
        rows_.with([&](auto X) {
            using V = Value<decltype(X)>;
            launch(grid(blocks_for(count * d)), 256)(take_points<V>, X, d, chosen.data(), count,
                                                     shift_.data(), scale_, points.data());
            for (int64_t first = 0; first < count; first += kCandidatesAtOnce) {
                const int some = int(std::min<int64_t>(kCandidatesAtOnce, count - first));
                const auto kernel = d <= kMaxLaneColumns ? sum_potentials<V, 1> : sum_potentials<V, 32>;
                launch(unsigned(panels()), kPotentialThreads)(
                    kernel, X, n, d, shift_.data(), scale_, weights_.data(), points.data() + first * d, some,
                    closest, int(take), panels(), out.data() + first * panels());
            }
        });
        fetch(out.data(), count * panels(), sums);
    }

  private:
    template <class Pointer>
    using Value = std::remove_const_t<std::remove_pointer_t<Pointer>>;

    bool is_wide() const { return d > kMaxLaneColumns && device.major >= 8; }
    int chunks() const { return int((d + kChunkColumns - 1) / kChunkColumns); }
    unsigned exact_grid(int64_t rows) const { return grid((rows + kExactRows - 1) / kExactRows); }
    int exact_threads(int64_t k) const { return int(std::min<int64_t>(kExactThreads, round_up(k, 32))); }

    // Sets the tables of the centres, and all counters to 0.
    void prepare(int64_t k) {
        counters_.fill_bytes(0);
        CenterTables to = {};
        reserve(memory, columns_, k * d);
        to.columns = columns_.data();
        if (is_wide()) {
            to.padded = round_up(k, kTileCenters);
            to.chunks = chunks();
            reserve(memory, center_split_, to.padded * to.chunks * kChunkNumbers);
            reserve(memory, halves_, to.padded);
            to.split = center_split_.data();
            to.halves = halves_.data();
        } else {
            with_lanes(d, [&](auto columns, auto) {
                to.half_at = columns.value;
                to.stride = 4 * lane_vectors(columns.value);
            });
            if (d > kMaxLaneColumns) to.half_at = int(d), to.stride = int(d) + 1;
            to.padded = round_up(k, kGroupCenters);
            reserve(memory, lanes_, to.padded * to.stride);
            to.lanes = lanes_.data();
        }
        launch(grid(blocks_for(32 * to.padded)), 256)(prepare_centers, centers_.data(), k, d, shift_.data(),
                                                      scale_, to, counters_.data());
    }

    template <class V>
    void find_nearest(const V* X, int64_t k) {
        const uint32_t* list = listed_.data();
        if (is_wide()) {
            allow_shared(nearest_tensor, kTensorBytes);
            launch(unsigned((n + kTileRows - 1) / kTileRows), kTensorThreads, kTensorBytes)(
                nearest_tensor, reinterpret_cast<const uint4*>(split_.data()), norms_.data(), n, chunks(),
                reinterpret_cast<const uint4*>(center_split_.data()), halves_.data(),
                int((k + kTileCenters - 1) / kTileCenters), tensor_error(d, chunks()), counters_.data(),
                fresh_.data(), listed_.data());
        } else if (d <= kMaxLaneColumns) {
            with_lanes(d, [&](auto columns, auto rows) {
                constexpr int D = decltype(columns)::value, R = decltype(rows)::value;
                launch(blocks_for(n, kLaneThreads * R), kLaneThreads)(
                    nearest_lanes<V, D, R>, X, n, int(d), shift_.data(), scale_,
                    reinterpret_cast<const float4*>(lanes_.data()), int(round_up(k, kGroupCenters)),
                    lane_error(d), counters_.data(), fresh_.data(), listed_.data());
            });
        } else {
            list = nullptr;  // no tensor cores for these columns: all rows
        }
        launch(exact_grid(n), exact_threads(k))(decide_exactly<V>, X, n, d, columns_.data(), k, list,
                                                counters_.data(), fresh_.data());
    }

    template <class V>
    void sum_by_strips(const V* X, int k, int32_t* labels) {
        const int64_t size = k * (d + 1), strip = strip_rows(n),
                      parts = (n + strip * kStrips - 1) / (strip * kStrips);
        reserve(memory, partial_, parts * (size + 1));
        reserve(memory, results_, size + 1);
        const int64_t bytes = kStrips * size * int64_t(sizeof(double));
        const auto kernel = d <= kFewColumns ? sum_strips<V, true> : sum_strips<V, false>;
        allow_shared(kernel, bytes);
        launch(unsigned(parts), kStripThreads, bytes)(kernel, X, n, int(d), weights_.data(), centers_.data(),
                                                      k, fresh_.data(), labels, strip, parts, partial_.data(),
                                                      counters_.data());
        add_up(partial_.data(), parts, size + 1, size + 1, results_.data(), stream(), false);
    }

    template <class V>
    void sum_by_chunks(const V* X, int64_t k, int32_t* labels) {
        const int64_t size = k * (d + 1), capacity = chunk_capacity(n, k);
        reserve(memory, partial_, capacity * (d + 2));
        reserve(memory, results_, size + 1);
        const SortedRows sorted(*this, fresh_.data(), k, kChunkRows, labels, counters_.data());
        // Loads of 16 bytes if all rows begin at a multiple of these.
        constexpr int kWide = 16 / int(sizeof(V));
        const bool aligned = d % kWide == 0 && reinterpret_cast<uintptr_t>(X) % 16 == 0;
        launch(blocks_for(capacity, 1), kChunkThreads)(
            aligned ? sum_chunks<V, kWide> : sum_chunks<V, 1>, X, d, weights_.data(), centers_.data(), k,
            sorted.order.data(), sorted.firsts.data(), sorted.chunk_firsts.data(), capacity, partial_.data());
        launch(grid(blocks_for(size)), 256)(add_chunks, partial_.data(), sorted.chunk_firsts.data(), k, d,
                                            results_.data());
        add_up(partial_.data() + d + 1, capacity, d + 2, 1, results_.data() + size, stream(), false);
    }

    DenseRows rows_;
    Array<int32_t> fresh_;    // labels of the pass
    Array<uint32_t> listed_;  // rows to decide in float64
    Array<double> shift_, columns_, partial_, results_;
    Array<float> lanes_, halves_, norms_;
    Array<__nv_bfloat16> split_, center_split_;
    double scale_ = 1;
};

}  // namespace

std::unique_ptr<bb_clusters> make_dense_clusters(const bb_device& device, int64_t n, int64_t d, bb_type type,
                                                 const void* values, const double* weights,
                                                 int64_t memory_limit, int threads) {
    return std::make_unique<DenseClusters>(device, n, d, type, values, weights, memory_limit, threads);
}

}  // namespace bmrm

using namespace bmrm;

extern "C" {

int64_t bb_clusters_bytes(int64_t n, int64_t d, int64_t k, bb_type type, int32_t own) {
    const int64_t size = k * (d + 1), strip = strip_rows(n),
                  parts = (n + strip * kStrips - 1) / (strip * kStrips);
    int64_t bytes = own ? n * d * (type == BB_FLOAT32 ? 4 : 8) : 0;
    bytes += n * (4 + 4 + 8 + 4);  // fresh labels, the list, weights, a column
    if (d > kMaxLaneColumns) bytes += round_up(n, kTileRows) * (round_up(d, kChunkColumns) * 4 + 4);
    bytes += 3 * 8 * round_up(k, kTileCenters) * (round_up(d, kChunkColumns) + 1);
    // Partial sums; and what sorting takes.
    bytes += size <= kMaxBins ? 8 * parts * (size + 1) : 8 * chunk_capacity(n, k) * (d + 2) + 20 * n;
    return bytes;
}

int64_t bb_clusters_additions(int64_t n, int64_t d, int64_t k) {
    // Columns of a row; rows of a strip or a chunk; 32 lanes, warps; parts in turn.
    const int64_t strip = strip_rows(n), parts = (n + strip * kStrips - 1) / (strip * kStrips);
    const int64_t rows = k * (d + 1) <= kMaxBins ? strip + parts : kChunkRows + chunk_capacity(n, k);
    return d + rows + 64;
}
}
