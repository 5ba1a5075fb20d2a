// The passes of k-means over dense rows on a device.
//
// A pass labels all rows in float32 with a bound on the error (nearest_lanes.cuh, nearest_tensor.cuh), then
// those that the bound leaves in question in float64 (exact.cuh), then adds up the rows of each cluster
// (cluster_sums.cuh).  Rows with up to kMaxLaneColumns columns are read as they are; of wider ones there is a
// second copy for the tensor cores, of 2 bytes per value.
#include "clusters/clusters.h"
#include "clusters/kernels/cluster_sums.cuh"
#include "clusters/kernels/exact.cuh"
#include "clusters/kernels/nearest_lanes.cuh"
#include "clusters/kernels/nearest_tensor.cuh"
#include "clusters/kernels/potentials.cuh"
#include "clusters/seeding.h"
#include "clusters/sorted_rows.h"
#include "rows/dense_rows.h"
#include "runtime/partial_sums.cuh"

namespace bmrm {

namespace {

// Columns up to which the multiply-adds of a thread are faster than splitting rows for the tensor cores.
constexpr int64_t kMaxLaneColumns = 32;
// Shared memory for sums of tiles; every device has 64 KB for a block.
constexpr int64_t kMaxTileBytes = 60 << 10;
// Parts of the rows for such sums: four blocks for each multiprocessor of an H100.
constexpr int64_t kMaxParts = 528;
// Distances that are computed at a time before they are copied to the host.
constexpr int64_t kDistancesAtOnce = int64_t(1) << 22;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

bool fits_tiles(int64_t d, int64_t k) {
    return std::max(d, k) <= kMaxTileBytes / 8 && SumTile(int(k), int(d)).bytes() <= kMaxTileBytes;
}

int64_t part_rows_of(int64_t n) {
    return round_up(std::max<int64_t>(1, (n + kMaxParts - 1) / kMaxParts), kTileSorted);
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
        : bb_clusters(device, n, d, weights, memory_limit, threads),
          rows_(memory, type, n, d, values, threads),
          fresh_(memory, n),
          listed_(memory, n),
          shift_(memory, d),
          shift32_(memory, d) {}

    double largest() override {
        largest_.fill_bytes(0);
        rows_.with([&](auto X) {
            launch(grid(blocks_for(n * d)), 256)(find_largest<Value<decltype(X)>>, X, n * d, largest_.data());
        });
        return fetch_largest();
    }

    void pack(const double* shift, double scale) override {
        std::vector<double> origin(shift, shift + d);
        std::vector<float> origin32(shift, shift + d);
        if (rows_.type == BB_FLOAT32) origin.assign(origin32.begin(), origin32.end());
        shift_.from_host(origin.data(), d);
        shift32_.from_host(origin32.data(), d);
        int exponent = 0;
        std::frexp(scale, &exponent);
        exponent--;  // scale is 2^exponent
        origin_ = {shift_.data(),
                   shift32_.data(),
                   scale,
                   {std::ldexp(1.0f, exponent / 2), std::ldexp(1.0f, exponent - exponent / 2)}};
        if (is_wide() && !rounded_) {
            const int64_t padded = round_up(capacity, kTensorRows);
            rounded_ = Array<__half>(memory, padded * chunks() * kChunkColumns);
            norms_ = Array<RowNorms>(memory, padded);
        }
        round();
        BB_CHECK(cudaStreamSynchronize(stream()));  // the host's numbers have been read
    }

    void load(int64_t count, const void* values, const double* weights) override {
        if (!rows_.is_own() || !weights != !weights_) return bb_clusters::load(count, values, weights);
        n = count;
        if (weights) weights_.from_host(weights, n);
        rows_.load(memory, n, values);
        round();
        BB_CHECK(cudaStreamSynchronize(stream()));
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
        prepare(centers, k, k * (d + 1) + 1);
        rows_.with([&](auto X) {
            find_nearest(X, k);
            if (fits_tiles(d, k))
                sum_by_tiles(X, int(k), labels);
            else
                sum_by_chunks(X, k, labels);
        });
        fetch_sums(k, sums, cluster_weights, found);
    }

    void own(const double* centers, int64_t k, const int32_t* labels, double* distances) override {
        upload(centers, k);
        Array<double> out(memory, n);
        rows_.with([&](auto X) { measure_distances(X, labels, out.data()); });
        fetch(out.data(), n, distances);
    }

    void moves(const double* centers, int64_t k, const int32_t* labels, const double* cluster_weights,
               bb_cluster_counts* found) override {
        prepare(centers, k, 0);
        Array<double> of_clusters(memory, k);
        of_clusters.from_host(cluster_weights, k);
        rows_.with([&](auto X) {
            launch(exact_grid(n), exact_threads(k))(find_moves<Value<decltype(X)>>, X, n, d, columns_.data(),
                                                    k, weights_.data(), labels, of_clusters.data(),
                                                    counters_);
        });
        fetch_moves(found);
    }

    void distances(const double* centers, int64_t k, int64_t first, int64_t count,
                   double* distances) override {
        prepare(centers, k, 0);
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

    void potentials(const double* given, int64_t count, float* closest, bool take, double* sums) override {
        Array<double> values(memory, count * d);
        Array<float> points(memory, count * d);
        Array<double> out(memory, count * panels());
        values.from_host(given, count * d);
        rows_.with([&](auto X) {
            using V = Value<decltype(X)>;
            launch(grid(blocks_for(count * d)), 256)(shift_points<V>, values.data(), d, count, origin_,
                                                     points.data());
            SeedingPass pass = seeding_pass();
            pass.points = points.data();
            seeding_.measure(X, pass, count, take, closest, out.data());
        });
        fetch(out.data(), count * panels(), sums);
    }

    void begin_choice(int64_t row, const double* uniform, int64_t k, int trials, int64_t part_rows,
                      float* closest) override {
        rows_.with(
            [&](auto X) { seeding_.begin(X, seeding_pass(), row, uniform, k, trials, part_rows, closest); });
    }
    int64_t choose(int64_t count, int64_t* chosen) override {
        int64_t found = 0;
        rows_.with([&](auto X) { found = seeding_.go_on(X, count, chosen); });
        return found;
    }

    void approach(const double* points, int64_t count, int32_t first, double scale, float* closest,
                  int32_t* nearest, double* sums) override {
        prepare(points, count, 0);
        Array<double> squares(memory, n);
        rows_.with([&](auto X) {
            find_nearest(X, count);
            measure_distances(X, fresh_.data(), squares.data());
        });
        keep_closer(squares.data(), fresh_.data(), scale, first, closest, nearest, sums);
    }

  private:
    template <class Pointer>
    using Value = std::remove_const_t<std::remove_pointer_t<Pointer>>;

    SeedingPass seeding_pass() const {
        SeedingPass pass = {};
        pass.n = n;
        pass.d = d;
        pass.origin = origin_;
        pass.weights = weights_.data();
        return pass;
    }
    // Measures rows against the centres of their labels.
    template <class V>
    void measure_distances(const V* X, const int32_t* labels, double* squares) {
        const int lanes = d <= 4 ? 1 : d <= 16 ? 4 : d <= 32 ? 8 : 32;
        const auto kernel = lanes == 1   ? measure_own<V, 1>
                            : lanes == 4 ? measure_own<V, 4>
                            : lanes == 8 ? measure_own<V, 8>
                                         : measure_own<V, 32>;
        launch(grid(blocks_for(lanes * n), 16), 256)(kernel, X, n, d, centers_.data(), labels, squares);
    }
    // Rounds rows for the tensor cores, once there is an origin.
    void round() {
        if (!rounded_) return;
        rows_.with([&](auto X) {
            launch(grid(blocks_for(32 * n), 16), 256)(
                round_rows<Value<decltype(X)>, InOrder>, X, n, round_up(n, kTensorRows), d, origin_, chunks(),
                InOrder(), RoundedRows{rounded_.data(), norms_.data(), nullptr, nullptr});
        });
    }
    bool is_wide() const { return d > kMaxLaneColumns && device.major >= 8; }
    int chunks() const { return int((d + kChunkColumns - 1) / kChunkColumns); }
    unsigned exact_grid(int64_t rows) const { return grid((rows + kExactRows - 1) / kExactRows, 4); }
    int exact_threads(int64_t k) const { return int(std::min<int64_t>(kExactThreads, round_up(k, 32))); }

    // Sets the tables of the centres, for a pass with so many results.
    void prepare(const double* centers, int64_t k, int64_t results) {
        bool copied = false;
        const double* given = give(centers, k, copied);
        begin(results);
        CenterTables to = {};
        to.copy = copied ? nullptr : centers_.data();
        reserve(memory, columns_, k * d);
        to.columns = columns_.data();
        if (is_wide()) {
            to.padded = round_up(k, kTensorPoints);
            to.chunks = chunks();
            reserve(memory, center_rounded_, to.padded * to.chunks * kChunkColumns);
            reserve(memory, halves_, to.padded);
            to.rounded = center_rounded_.data();
            to.halves = halves_.data();
        } else {
            to.width = int(d);
            if (d <= kMaxLaneColumns) with_lanes(d, [&](auto columns, auto) { to.width = columns.value; });
            to.padded = round_up(k, kGroupCenters);
            reserve(memory, lanes_, to.padded * (to.width + 1));
            to.lanes = lanes_.data();
        }
        const int64_t threads = std::min<int64_t>(kCenterThreads, round_up(d, 32));
        launch(grid(to.padded, 16), int(threads))(prepare_centers, given, k, d, origin_, to, counters_);
    }

    template <class V>
    void find_nearest(const V* X, int64_t k) {
        const PassCounters* counts = counters_;
        if (is_wide()) {
            find_by_tensor_cores(X, k);
            decide(X, k, crowded_.data(), &counts->crowded);
        } else if (d <= kMaxLaneColumns) {
            with_lanes(d, [&](auto columns, auto rows) {
                constexpr int D = decltype(columns)::value, R = decltype(rows)::value;
                launch_early(blocks_for(n, kLaneThreads * R), kLaneThreads)(
                    nearest_lanes<V, D, R>, X, n, int(d), origin_, D == d && reads_16_bytes(X),
                    reinterpret_cast<const float4*>(lanes_.data()),
                    int(round_up(k, kGroupCenters) / kGroupCenters), lane_error(d), counters_, fresh_.data(),
                    listed_.data());
            });
            decide(X, k, listed_.data(), &counts->listed);
        } else {
            decide(X, k, nullptr, nullptr);  // no tensor cores for these columns: all rows
        }
    }

    // Compares rows with all centres in float64.
    template <class V>
    void decide(const V* X, int64_t k, const uint32_t* listed, const unsigned* count) {
        launch_early(exact_grid(n), exact_threads(k))(decide_exactly<V>, X, n, d, columns_.data(), k, listed,
                                                      count, counters_, fresh_.data());
    }

    template <class V>
    void find_by_tensor_cores(const V* X, int64_t k) {
        reserve(memory, limits_, n);
        reserve(memory, candidate_counts_, n);
        reserve(memory, candidates_, n * kMaxCandidates);
        reserve(memory, crowded_, n);
        const Uncertain uncertain = {listed_.data(), limits_.data(), candidate_counts_.data(),
                                     candidates_.data(), crowded_.data()};
        const bool keeps = chunks() <= kKeptChunks;
        const int64_t bytes = tensor_bytes(keeps, chunks()), row_tiles = (n + kTensorRows - 1) / kTensorRows;
        const int tiles = int((k + kTensorPoints - 1) / kTensorPoints);
        const auto* rows = reinterpret_cast<const uint4*>(rounded_.data());
        const auto* centers = reinterpret_cast<const uint4*>(center_rounded_.data());
        const auto nearest = keeps ? nearest_tensor<true> : nearest_tensor<false>;
        const auto collect = keeps ? collect_candidates<true> : collect_candidates<false>;
        allow_shared(nearest, bytes);
        allow_shared(collect, bytes);
        launch(unsigned(row_tiles), kTensorThreads, bytes)(nearest, rows, norms_.data(), n, chunks(), centers,
                                                           halves_.data(), tiles, tensor_error(d, chunks()),
                                                           counters_, fresh_.data(), uncertain);
        launch(grid(row_tiles, 2), kTensorThreads, bytes)(collect, rows, chunks(), centers, halves_.data(),
                                                          tiles, k, counters_, uncertain);
        launch(grid(blocks_for(n * kMaxCandidates)), 256)(decide_candidates<V>, X, d, centers_.data(),
                                                          counters_, uncertain, fresh_.data());
    }

    // Whether all rows begin at multiples of 16 bytes.
    template <class V>
    bool reads_16_bytes(const V* X) const {
        return d * int64_t(sizeof(V)) % 16 == 0 && reinterpret_cast<uintptr_t>(X) % 16 == 0;
    }

    template <class V>
    void sum_by_tiles(const V* X, int k, int32_t* labels) {
        const int64_t size = k * (d + 1), each = part_rows_of(n), parts = (n + each - 1) / each;
        reserve(memory, partial_, parts * (size + 1));
        const int64_t bytes = SumTile(k, int(d)).bytes();
        const auto kernel = d <= 4    ? sum_tiles<V, 4>
                            : d <= 8  ? sum_tiles<V, 8>
                            : d <= 16 ? sum_tiles<V, 16>
                                      : sum_tiles<V, 32>;
        allow_shared(kernel, bytes);
        launch_early(unsigned(parts), kTileThreads, bytes)(kernel, X, n, int(d), weights_.data(),
                                                           centers_.data(), k, fresh_.data(), labels, each,
                                                           parts, partial_.data(), counters_);
        add_up(partial_.data(), parts, size + 1, size + 1, results_.data(), stream(), can_chain(device));
    }

    template <class V>
    void sum_by_chunks(const V* X, int64_t k, int32_t* labels) {
        const int64_t size = k * (d + 1), capacity = chunk_capacity(n, k);
        reserve(memory, partial_, capacity * (d + 2));
        const SortedRows sorted(*this, fresh_.data(), k, kChunkRows, labels, counters_);
        // Loads of 16 bytes if all rows begin at a multiple of these.
        constexpr int kWide = 16 / int(sizeof(V));
        launch(blocks_for(capacity, 1), kChunkThreads)(
            reads_16_bytes(X) ? sum_chunks<V, kWide> : sum_chunks<V, 1>, X, d, weights_.data(),
            centers_.data(), k, sorted.order.data(), sorted.firsts.data(), sorted.chunk_firsts.data(),
            capacity, partial_.data());
        launch(grid(blocks_for(size)), 256)(add_chunks, partial_.data(), sorted.chunk_firsts.data(), k, d,
                                            results_.data());
        launch(1, kColumnThreads)(add_column, partial_.data() + d + 1, capacity, d + 2,
                                  results_.data() + size);
    }

    DenseRows rows_;
    Seeding seeding_{memory, device};
    Array<int32_t> fresh_;    // labels of the pass
    Array<uint32_t> listed_;  // rows to resolve in float64
    Array<double> shift_, columns_, partial_;
    Array<float> shift32_, lanes_, halves_;
    Array<__half> rounded_, center_rounded_;
    Array<RowNorms> norms_;
    Array<float> limits_;  // of the rows to decide, and their candidates
    Array<unsigned> candidate_counts_;
    Array<int32_t> candidates_;
    Array<uint32_t> crowded_;
    Origin origin_ = {};
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
    const int64_t size = k * (d + 1), each = part_rows_of(n), parts = (n + each - 1) / each;
    int64_t bytes = own ? n * d * (type == BB_FLOAT32 ? 4 : 8) : 0;
    bytes += n * (4 + 4 + 8 + 4);  // fresh labels, the list, weights, a column
    bytes += Seeding::bytes(n, d, type);
    if (d > kMaxLaneColumns)
        bytes +=
            round_up(n, kTensorRows) * (round_up(d, kChunkColumns) * 2 + 8) + n * 4 * (3 + kMaxCandidates);
    bytes += 3 * 8 * round_up(k, kTensorPoints) * (round_up(d, kChunkColumns) + 1);
    // Partial sums; and what sorting takes.
    bytes += fits_tiles(d, k) ? 8 * parts * (size + 1) : 8 * chunk_capacity(n, k) * (d + 2) + 20 * n;
    return bytes;
}

int64_t bb_clusters_additions(int64_t n, int64_t d, int64_t k) {
    // Columns of a row; rows of an item or a chunk; items of a part; parts or chunks in turn.
    const int64_t each = part_rows_of(n), parts = (n + each - 1) / each;
    const int64_t rows =
        fits_tiles(d, k) ? kItemRows + each / kItemRows + parts : kChunkRows + chunk_capacity(n, k);
    return d + rows + 64;
}
}
