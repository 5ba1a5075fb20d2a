// The passes of k-means over sparse rows on a device (sparse_clusters.cuh).
#include <memory>

#include "clusters/clusters.h"
#include "clusters/kernels/sparse_clusters.cuh"
#include "clusters/sorted_rows.h"
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

int64_t chunk_capacity(int64_t n, int64_t d, int64_t k) {
    return n / chunk_rows_of(n, d, k) + std::min(n, k);
}

template <class V>
class SparseClusters final : public bb_clusters {
  public:
    SparseClusters(const bb_device& device, int64_t n, int64_t d, int64_t most_entries, const int64_t* starts,
                   const int32_t* columns, const void* values, const double* weights, int64_t memory_limit,
                   int threads)
        : bb_clusters(device, n, d, weights, memory_limit, threads),
          most_entries_(most_entries),
          has_values_(values != nullptr),
          starts_(memory, n + 1),
          columns_(memory, most_entries),
          values_(memory, values ? most_entries : 0),
          row_squares_(memory, n),
          fresh_(memory, n),
          distances_(memory, n) {
        Uploader uploader(threads);
        replace(uploader, starts, columns, values);
    }

    void load_sparse(int64_t count, const int64_t* starts, const int32_t* columns, const void* values,
                     const double* weights) override {
        if (has_values_ != (values != nullptr) || !weights != !weights_ || starts[count] > most_entries_)
            throw Failure(BB_INVALID,
                          "rows: expected no more stored values than announced, and values and weights "
                          "if there were some at first");
        n = count;
        if (weights) weights_.from_host(weights, n);
        if (!uploader_) uploader_ = std::make_unique<Uploader>(threads_);
        replace(*uploader_, starts, columns, values);
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
        const int64_t capacity = chunk_capacity(n, d, k);
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
    // Uploads n rows, and waits.
    void replace(Uploader& uploader, const int64_t* starts, const int32_t* columns, const void* values) {
        entries_ = starts[n];
        uploader.copy(memory, starts_.data(), starts, (n + 1) * int64_t(sizeof *starts));
        if (entries_) {
            uploader.copy(memory, columns_.data(), columns, entries_ * int64_t(sizeof *columns));
            if (values) uploader.copy(memory, values_.data(), values, entries_ * int64_t(sizeof(V)));
        }
        rows_ = {starts_.data(), columns_.data(), values ? values_.data() : nullptr};
        launch(grid(blocks_for(n)), 256)(square_rows<V>, rows_, n, row_squares_.data());
        BB_CHECK(cudaStreamSynchronize(stream()));
    }
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
        launch(grid(blocks_for(k * d)), 256)(sort_by_features, centers_.data(), k, d, features_.data());
        launch(grid(k, 32), 32)(square_centers, centers_.data(), k, d, squares_.data(), largest_.data());
    }

    const int64_t most_entries_;
    const bool has_values_;
    Array<int64_t> starts_;
    Array<int32_t> columns_;
    Array<V> values_;
    Array<double> row_squares_;
    Array<int32_t> fresh_;  // labels of the pass
    Array<double> distances_, features_, squares_, partial_;
    SparseRows<V> rows_ = {};
    int64_t entries_ = 0;
    std::unique_ptr<Uploader> uploader_;  // of `load_sparse`, whose pinned pieces are kept
};

}  // namespace

std::unique_ptr<bb_clusters> make_sparse_clusters(const bb_device& device, int64_t n, int64_t d,
                                                  int64_t most_entries, const int64_t* starts,
                                                  const int32_t* columns, bb_type type, const void* values,
                                                  const double* weights, int64_t memory_limit, int threads) {
    if (type == BB_FLOAT32)
        return std::make_unique<SparseClusters<float>>(device, n, d, most_entries, starts, columns, values,
                                                       weights, memory_limit, threads);
    return std::make_unique<SparseClusters<double>>(device, n, d, most_entries, starts, columns, values,
                                                    weights, memory_limit, threads);
}

}  // namespace bmrm

using namespace bmrm;

extern "C" int64_t bb_sparse_clusters_bytes(int64_t n, int64_t d, int64_t entries, int64_t k, bb_type type,
                                            int32_t has_values) {
    const int64_t value_bytes = !has_values ? 0 : type == BB_FLOAT32 ? 4 : 8;
    // Offsets, squares and distances; weights, fresh labels, a column; what sorting takes, with its scratch.
    const int64_t each_row = 3 * 8 + (8 + 4 + 4) + 20, scratch = 1 << 20;
    // Centres by rows and by features, their sums, and squares.
    return entries * (4 + value_bytes) + n * each_row + scratch + 3 * 8 * k * (d + 2) +
           8 * chunk_capacity(n, d, k) * (d + 2);
}
