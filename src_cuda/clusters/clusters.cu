// The C interface of k-means: checks of arguments, locks, and the conversion of exceptions to statuses.
#include "clusters/clusters.h"
#include "clusters/kernels/seeding.cuh"

using namespace bmrm;

namespace {

constexpr int64_t kMaxRows = int64_t(1) << 31;  // rows have 32-bit numbers
constexpr int64_t kMaxCenters = int64_t(1) << 30;

void expect(bool holds, const char* text) {
    if (!holds) throw Failure(BB_INVALID, text);
}

void expect_centers(const double* centers, int64_t k) {
    expect(centers && k >= 1 && k <= kMaxCenters, "centers: expected at least one");
}

void expect_range(const bb_clusters& rows, int64_t first, int64_t count) {
    expect(first >= 0 && count >= 0 && first + count <= rows.n, "rows: expected some of those held");
}

void expect_rows(const bb_clusters& rows, const int64_t* numbers, int64_t count) {
    expect(count >= 1, "rows: expected at least one");
    for (int64_t i = 0; i < count; i++)
        expect(numbers[i] >= 0 && numbers[i] < rows.n, "rows: expected some of those held");
}

__global__ void __launch_bounds__(256) fill_column(uint32_t* column, uint32_t bits, int64_t n) {
    BB_FOR (i, n) column[i] = bits;
}

}  // namespace

extern "C" {

bb_status bb_clusters_dense(const bb_device* device, int64_t n, int64_t d, bb_type type, const void* values,
                            const double* weights, int64_t memory_limit, int32_t threads, bb_clusters** out) {
    return guarded([&] {
        expect(n >= 1 && n < kMaxRows && d >= 1 && values,
               "rows: expected 1 to 2^31 - 1, of at least one column");
        const OnDevice scope(device->id);
        *out = make_dense_clusters(*device, n, d, type, values, weights, memory_limit, threads).release();
    });
}

bb_status bb_clusters_sparse(const bb_device* device, int64_t n, int64_t d, int64_t most_entries,
                             const int64_t* starts, const int32_t* columns, bb_type type, const void* values,
                             const double* weights, int64_t memory_limit, int32_t threads,
                             bb_clusters** out) {
    return guarded([&] {
        expect(n >= 1 && n < kMaxRows && d >= 1 && d < kMaxRows && starts && most_entries >= starts[n],
               "rows: expected 1 to 2^31 - 1, with no more stored values than announced");
        const OnDevice scope(device->id);
        *out = make_sparse_clusters(*device, n, d, most_entries, starts, columns, type, values, weights,
                                    memory_limit, threads)
                   .release();
    });
}

void bb_clusters_destroy(bb_clusters* rows) { destroy_handle(rows); }

bb_status bb_clusters_load(bb_clusters* rows, int64_t n, const void* values, const double* weights) {
    return on_handle(rows, [&](bb_clusters& held) {
        expect(n >= 1 && n <= held.capacity && values, "rows: expected some, and no more than at first");
        held.load(n, values, weights);
    });
}

bb_status bb_clusters_load_sparse(bb_clusters* rows, int64_t n, const int64_t* starts, const int32_t* columns,
                                  const void* values, const double* weights) {
    return on_handle(rows, [&](bb_clusters& held) {
        expect(n >= 1 && n <= held.capacity && starts, "rows: expected some, and no more than at first");
        held.load_sparse(n, starts, columns, values, weights);
    });
}

bb_status bb_clusters_largest(bb_clusters* rows, double* largest) {
    return on_handle(rows, [&](bb_clusters& held) { *largest = held.largest(); });
}

bb_status bb_clusters_pack(bb_clusters* rows, const double* shift, double scale) {
    return on_handle(rows, [&](bb_clusters& held) { held.pack(shift, scale); });
}

bb_status bb_clusters_take(bb_clusters* rows, const int64_t* numbers, int64_t count, double* values) {
    return on_handle(rows, [&](bb_clusters& held) {
        expect_rows(held, numbers, count);
        held.take(numbers, count, values);
    });
}

bb_status bb_clusters_lend(bb_clusters* rows, uint32_t bits, void** column) {
    return on_handle(rows, [&](bb_clusters& held) {
        *column = held.memory.take(4 * held.capacity);
        const NextLaunch launch(blocks_for(held.capacity), 256, 0, held.memory.stream, false);
        launch(fill_column, static_cast<uint32_t*>(*column), bits, held.capacity);
    });
}

void bb_clusters_give(bb_clusters* rows, void* column) {
    on_handle(rows, [&](bb_clusters& held) { held.memory.give(column, 4 * held.capacity); });
}

bb_status bb_clusters_read(bb_clusters* rows, const void* column, int64_t first, int64_t count, void* to) {
    return on_handle(rows, [&](bb_clusters& held) {
        expect(first >= 0 && count >= 0 && first + count <= held.capacity, "column: expected a part of it");
        BB_CHECK(cudaMemcpyAsync(to, static_cast<const uint32_t*>(column) + first, size_t(4 * count),
                                 cudaMemcpyDefault, held.memory.stream));
        BB_CHECK(cudaStreamSynchronize(held.memory.stream));
    });
}

bb_status bb_clusters_write(bb_clusters* rows, void* column, const void* from) {
    return on_handle(rows, [&](bb_clusters& held) {
        BB_CHECK(cudaMemcpyAsync(column, from, size_t(4 * held.n), cudaMemcpyDefault, held.memory.stream));
        BB_CHECK(cudaStreamSynchronize(held.memory.stream));
    });
}

bb_status bb_clusters_assign(bb_clusters* rows, const double* centers, int64_t k, int32_t* labels,
                             double* sums, double* cluster_weights, bb_cluster_counts* found) {
    return on_handle(rows, [&](bb_clusters& held) {
        expect_centers(centers, k);
        held.assign(centers, k, labels, sums, cluster_weights, found);
    });
}

bb_status bb_clusters_own(bb_clusters* rows, const double* centers, int64_t k, const int32_t* labels,
                          double* distances) {
    return on_handle(rows, [&](bb_clusters& held) {
        expect_centers(centers, k);
        held.own(centers, k, labels, distances);
    });
}

bb_status bb_clusters_moves(bb_clusters* rows, const double* centers, int64_t k, const int32_t* labels,
                            const double* cluster_weights, bb_cluster_counts* found) {
    return on_handle(rows, [&](bb_clusters& held) {
        expect_centers(centers, k);
        held.moves(centers, k, labels, cluster_weights, found);
    });
}

bb_status bb_clusters_distances(bb_clusters* rows, const double* centers, int64_t k, int64_t first,
                                int64_t count, double* distances) {
    return on_handle(rows, [&](bb_clusters& held) {
        expect_centers(centers, k);
        expect_range(held, first, count);
        held.distances(centers, k, first, count, distances);
    });
}

bb_status bb_clusters_potentials(bb_clusters* rows, const double* points, int64_t count, float* closest,
                                 int32_t take, double* sums) {
    return on_handle(rows, [&](bb_clusters& held) {
        expect(points && count >= 1 && (!take || count == 1), "points: expected one to take, or some");
        held.potentials(points, count, closest, take != 0, sums);
    });
}

bb_status bb_clusters_begin_choice(bb_clusters* rows, int64_t first, const double* uniform, int64_t k,
                                   int64_t trials, int64_t part_rows, float* closest) {
    return on_handle(rows, [&](bb_clusters& held) {
        expect_centers(uniform, k);
        expect_range(held, first, 1);
        expect(trials >= 1 && trials <= BB_MAX_TRIALS, "trials: expected 1 to 15");
        expect(part_rows >= BB_PANEL_ROWS && part_rows % BB_PANEL_ROWS == 0 &&
                   (held.n - 1) / part_rows < kMaxSeedingParts,
               "part_rows: expected whole panels in up to 128 parts");
        held.begin_choice(first, uniform, k, int(trials), part_rows, closest);
    });
}

bb_status bb_clusters_choose(bb_clusters* rows, int64_t count, int64_t* chosen, int64_t* found) {
    return on_handle(rows, [&](bb_clusters& held) { *found = held.choose(count, chosen); });
}

bb_status bb_clusters_approach(bb_clusters* rows, const double* points, int64_t count, int64_t first,
                               double scale, float* closest, int32_t* nearest, double* sums) {
    return on_handle(rows, [&](bb_clusters& held) {
        expect_centers(points, count);
        expect(first >= 0 && first + count <= kMaxCenters, "points: expected fewer");
        held.approach(points, count, int32_t(first), scale, closest, nearest, sums);
    });
}

bb_status bb_clusters_count(bb_clusters* rows, const int32_t* labels, int64_t k, uint32_t* counts) {
    return on_handle(rows, [&](bb_clusters& held) {
        expect(k >= 1 && k <= kMaxCenters, "labels: expected numbers of at least one centre");
        held.count(labels, k, counts);
    });
}

bb_status bb_clusters_draw(bb_clusters* rows, const float* closest, uint64_t key, int64_t first,
                           double factor, int32_t* drawn, int64_t* count) {
    return on_handle(rows,
                     [&](bb_clusters& held) { *count = held.draw(closest, key, first, factor, drawn); });
}
}
