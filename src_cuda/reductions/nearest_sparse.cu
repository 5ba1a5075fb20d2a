// The passes of k-means over sparse rows on a device (sparse_clusters.cuh).
#include "reductions/clusters.h"
#include "reductions/kernels/sparse_clusters.cuh"
#include "reductions/sorted_rows.h"
#include "runtime/upload.h"

namespace bmrm {

namespace {

// Sums of all chunks: 128 MB.
constexpr int64_t kMaxPartialSums = int64_t(1) << 24;
constexpr int64_t kMinChunkRows = 64;
// Distances that are computed at a time before they are copied to the host.
constexpr int64_t kDistancesAtOnce = int64_t(1) << 22;

int64_t chunk_rows_of(int64_t n, int64_t d, int64_t k) {
    // Besides one chunk per cluster that is not full.
    const int64_t chunks = std::max<int64_t>(1, kMaxPartialSums / (d + 2) - std::min(n, k));
    return std::max(kMinChunkRows, (n + chunks - 1) / chunks);
}

template <class V>
class SparseClusters final : public bb_clusters {
  public:
    SparseClusters(const bb_device& device, int64_t n, int64_t d, const int64_t* starts,
                   const int32_t* columns, const void* values, const double* weights, int64_t memory_limit,
                   int threads)
        : bb_clusters(device, n, d, weights, memory_limit, threads),
          starts_(memory, n + 1),
          columns_(memory, starts[n]),
          values_(memory, values ? starts[n] : 0),
          row_squares_(memory, n),
          fresh_(memory, n),
          distances_(memory, n) {
        Uploader uploader(threads);
        uploader.copy(memory, starts_.data(), starts, starts_.bytes());
        if (starts[n]) uploader.copy(memory, columns_.data(), columns, columns_.bytes());
        if (values && starts[n]) uploader.copy(memory, values_.data(), values, values_.bytes());
        rows_ = {starts_.data(), columns_.data(), values ? values_.data() : nullptr};
        entries_ = starts[n];
        launch(grid(blocks_for(n)), 256)(square_rows<V>, rows_, n, row_squares_.data());
        BB_CHECK(cudaStreamSynchronize(stream()));
    }

    double largest() override {
        if (!rows_.values || !entries_) return entries_ ? 1.0 : 0.0;
        largest_.fill_bytes(0);
        launch(grid(blocks_for(entries_)), 256)(find_largest<V>, rows_.values, entries_, largest_.data());
        return fetch_largest();
    }

    void pack(const double*, double) override {}  // nothing is shifted

    void take(const int64_t* numbers, int64_t count, double* values) override {
        Array<int64_t> chosen(memory, count);
        Array<double> out(memory, count * d);
        chosen.from_host(numbers, count);
        out.fill_bytes(0);
        launch(grid(count), kSparseThreads)(scatter_rows<V>, rows_, chosen.data(), count, d, out.data());
        fetch(out.data(), count * d, values);
    }

    void assign(const double* centers, int64_t k, int32_t* labels, double* sums, double* cluster_weights,
                bb_cluster_counts* found) override {
        prepare(centers, k, k * (d + 1) + 1);
        find_nearest(k);
        const int64_t size = k * (d + 1), chunk_rows = chunk_rows_of(n, d, k);
        const int64_t capacity = n / chunk_rows + std::min(n, k);
        reserve(memory, partial_, capacity * (d + 2));
        partial_.fill_bytes(0);
        const SortedRows sorted(*this, fresh_.data(), k, chunk_rows, labels, counters_);
        launch(grid(capacity, 16), kSparseThreads)(
            sum_sparse_chunks<V>, rows_, d, weights_.data(), distances_.data(), k, sorted.order.data(),
            sorted.firsts.data(), sorted.chunk_firsts.data(), chunk_rows, capacity, partial_.data());
        launch(grid(blocks_for(size)), 256)(add_chunks, partial_.data(), sorted.chunk_firsts.data(), k, d,
                                            results_.data());
        launch(grid(blocks_for(size)), 256)(subtract_centers, centers_.data(), k, d, results_.data());
        launch(1, kColumnThreads)(add_column, partial_.data() + d + 1, capacity, d + 2,
                                  results_.data() + size);
        fetch_sums(k, sums, cluster_weights, found);
    }

    void own(const double* centers, int64_t k, const int32_t* labels, double* distances) override {
        prepare(centers, k, 0);
        launch(grid(blocks_for(n)), 256)(measure_own_sparse<V>, rows_, n, row_squares_.data(),
                                         features_.data(), squares_.data(), k, labels, distances_.data());
        fetch(distances_.data(), n, distances);
    }

    void moves(const double* centers, int64_t k, const int32_t* labels, const double* cluster_weights,
               bb_cluster_counts* found) override {
        prepare(centers, k, 0);
        Array<double> of_clusters(memory, k);
        of_clusters.from_host(cluster_weights, k);
        launch(row_grid(), threads_for(k))(find_moves_sparse<V>, rows_, n, row_squares_.data(),
                                           features_.data(), squares_.data(), k, weights_.data(), labels,
                                           of_clusters.data(), counters_);
        fetch_moves(found);
    }

    void distances(const double* centers, int64_t k, int64_t first, int64_t count,
                   double* distances) override {
        prepare(centers, k, 0);
        const int64_t most = std::max<int64_t>(1, kDistancesAtOnce / k);
        Array<double> out(memory, std::min(most, count) * k);
        for (int64_t i = 0; i < count; i += most) {
            const int64_t some = std::min(most, count - i);
            launch(row_grid(), threads_for(k))(measure_all_sparse<V>, rows_, first + i, some,
                                               row_squares_.data(), features_.data(), squares_.data(), k,
                                               out.data());
            fetch(out.data(), some * k, distances + i * k);
        }
    }

    void potentials(const double* points, int64_t count, float* closest, bool take, double* sums) override {
        Array<double> out(memory, count * panels());
        prepare(points, count, 0);
        launch(grid(count * panels(), 16), kSparseThreads)(
            sum_sparse_potentials<V>, rows_, n, row_squares_.data(), weights_.data(), features_.data(),
            squares_.data(), count, closest, int(take), panels(), out.data());
        fetch(out.data(), count * panels(), sums);
    }

    void approach(const double* points, int64_t count, int32_t first, double scale, float* closest,
                  int32_t* nearest, double* sums) override {
        prepare(points, count, 0);
        find_nearest(count);
        keep_closer(distances_.data(), fresh_.data(), scale, first, closest, nearest, sums);
    }

  private:
    void find_nearest(int64_t k) {
        launch(row_grid(), threads_for(k))(nearest_sparse<V>, rows_, n, d, row_squares_.data(),
                                           features_.data(), squares_.data(), k, largest_.data(), counters_,
                                           fresh_.data(), distances_.data());
    }
    unsigned row_grid() const { return grid(n, 16); }
    int threads_for(int64_t k) const { return int(std::min<int64_t>(kSparseThreads, (k + 31) / 32 * 32)); }

    // Sets the centres by features and their squares, for a pass with so many results.
    void prepare(const double* centers, int64_t k, int64_t results) {
        upload(centers, k);
        begin(results);
        reserve(memory, features_, k * d);
        reserve(memory, squares_, k);
        largest_.fill_bytes(0);
        launch(grid(blocks_for(k, 32)), 32)(square_centers, centers_.data(), k, d, features_.data(),
                                            squares_.data(), largest_.data());
    }

    Array<int64_t> starts_;
    Array<int32_t> columns_;
    Array<V> values_;
    Array<double> row_squares_;
    Array<int32_t> fresh_;  // labels of the pass
    Array<double> distances_, features_, squares_, partial_;
    SparseRows<V> rows_ = {};
    int64_t entries_ = 0;
};

}  // namespace

std::unique_ptr<bb_clusters> make_sparse_clusters(const bb_device& device, int64_t n, int64_t d,
                                                  const int64_t* starts, const int32_t* columns, bb_type type,
                                                  const void* values, const double* weights,
                                                  int64_t memory_limit, int threads) {
    if (type == BB_FLOAT32)
        return std::make_unique<SparseClusters<float>>(device, n, d, starts, columns, values, weights,
                                                       memory_limit, threads);
    return std::make_unique<SparseClusters<double>>(device, n, d, starts, columns, values, weights,
                                                    memory_limit, threads);
}

}  // namespace bmrm
