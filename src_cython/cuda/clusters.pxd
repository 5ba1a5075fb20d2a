"""The C interface of k-means on a device; ``src_cuda/api/clusters.h`` documents it."""

from cuda.blackbox cimport bb_device, bb_status, bb_type
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t


cdef extern from "api/clusters.h" nogil:
    enum:
        BB_PANEL_ROWS
        BB_MAX_TRIALS

    ctypedef struct bb_clusters:
        pass

    ctypedef struct bb_cluster_counts:
        double inertia
        int64_t changed, rechecked
        double largest

    bb_status bb_clusters_dense(const bb_device *device, int64_t n, int64_t d, bb_type type, const void *values,
                                const double *weights, int64_t memory_limit, int32_t threads,
                                bb_clusters **out)
    bb_status bb_clusters_sparse(const bb_device *device, int64_t n, int64_t d, int64_t most_entries,
                                 const int64_t *starts, const int32_t *columns, bb_type type,
                                 const void *values, const double *weights, int64_t memory_limit,
                                 int32_t threads, bb_clusters **out)
    void bb_clusters_destroy(bb_clusters *rows)
    int64_t bb_clusters_bytes(int64_t n, int64_t d, int64_t k, bb_type type, int32_t own)
    int64_t bb_sparse_clusters_bytes(int64_t n, int64_t d, int64_t entries, int64_t k, bb_type type,
                                     int32_t has_values)

    bb_status bb_clusters_load(bb_clusters *rows, int64_t n, const void *values, const double *weights)
    bb_status bb_clusters_load_sparse(bb_clusters *rows, int64_t n, const int64_t *starts,
                                      const int32_t *columns, const void *values, const double *weights)
    bb_status bb_clusters_largest(bb_clusters *rows, double *largest)
    bb_status bb_clusters_pack(bb_clusters *rows, const double *shift, double scale)
    bb_status bb_clusters_take(bb_clusters *rows, const int64_t *numbers, int64_t count, double *values)

    bb_status bb_clusters_lend(bb_clusters *rows, uint32_t bits, void **column)
    void bb_clusters_give(bb_clusters *rows, void *column)
    bb_status bb_clusters_read(bb_clusters *rows, const void *column, int64_t first, int64_t count, void *to)
    bb_status bb_clusters_write(bb_clusters *rows, void *column, const void *source)

    bb_status bb_clusters_assign(bb_clusters *rows, const double *centers, int64_t k, int32_t *labels,
                                 double *sums, double *cluster_weights, bb_cluster_counts *found)
    bb_status bb_clusters_own(bb_clusters *rows, const double *centers, int64_t k, const int32_t *labels,
                              double *distances)
    bb_status bb_clusters_moves(bb_clusters *rows, const double *centers, int64_t k, const int32_t *labels,
                                const double *cluster_weights, bb_cluster_counts *found)
    bb_status bb_clusters_distances(bb_clusters *rows, const double *centers, int64_t k, int64_t first,
                                    int64_t count, double *distances)
    bb_status bb_clusters_potentials(bb_clusters *rows, const double *points, int64_t count, float *closest,
                                     int32_t take, double *sums)
    bb_status bb_clusters_begin_walk(bb_clusters *rows, int64_t first, const double *uniform, int64_t k,
                                     int64_t trials, int64_t part_rows, float *closest)
    bb_status bb_clusters_walk(bb_clusters *rows, int64_t count, int64_t *chosen, int64_t *found)
    bb_status bb_clusters_approach(bb_clusters *rows, const double *points, int64_t count, int64_t first,
                                   double scale, float *closest, int32_t *nearest, double *sums)
    bb_status bb_clusters_count(bb_clusters *rows, const int32_t *labels, int64_t k, uint32_t *counts)
    bb_status bb_clusters_draw(bb_clusters *rows, const float *closest, uint64_t key, int64_t first, double factor,
                               int32_t *drawn, int64_t *count)
    int64_t bb_clusters_additions(int64_t n, int64_t d, int64_t k)
