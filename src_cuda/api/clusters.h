// The C interface of k-means on a device: passes over rows that stay there.
// bmrm/unsupervised/clusters/passes.py says what each pass computes.  Failures, addresses and "either" as in
// blackbox.h.
//
// Centres are on the host, k x d, by rows.  A column has one number of four bytes per row and stays on the
// device: labels (int32), or squared distances (float).  All sums are taken in an order that depends on the
// sizes and the labels only.
#pragma once
#include "api/blackbox.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    BB_PANEL_ROWS = 1024,  // rows of which bb_clusters_potentials returns one sum
    BB_MAX_TRIALS = 15     // candidates for a centre of bb_clusters_begin_choice
};

typedef struct bb_clusters bb_clusters;

typedef struct {
    double inertia;     // sum of w |x - c|^2
    int64_t changed;    // rows with another label than before; rows that gain, in bb_clusters_moves
    int64_t rechecked;  // rows that were resolved in float64
    double largest;     // maximum gain of a single move
} bb_cluster_counts;

// Holds dense rows.
// device: as bb_device_info describes it; values: (n, d) of the type, either; they are used in place if they
// are on the device, and must outlive the result; weights: n, either, copied, or NULL if all are 1;
// memory_limit: 0 for none; out: is set to the rows, which bb_clusters_destroy frees.
BB_API bb_status bb_clusters_dense(const bb_device* device, int64_t n, int64_t d, bb_type type,
                                   const void* values, const double* weights, int64_t memory_limit,
                                   int32_t threads, bb_clusters** out);
// Holds compressed sparse rows with ascending columns.
// most_entries: maximum number of stored values, also of rows that replace these; starts: n + 1 offsets from
// 0; columns: starts[n], from 0 to d - 1; values: of the type, or NULL if all are 1; all on the host, and not
// checked.  The rest as for bb_clusters_dense.
BB_API bb_status bb_clusters_sparse(const bb_device* device, int64_t n, int64_t d, int64_t most_entries,
                                    const int64_t* starts, const int32_t* columns, bb_type type,
                                    const void* values, const double* weights, int64_t memory_limit,
                                    int32_t threads, bb_clusters** out);
BB_API void bb_clusters_destroy(bb_clusters* rows);
// Returns the bytes that dense rows take on the device with k centres; own: 1 if the values are uploaded.
BB_API int64_t bb_clusters_bytes(int64_t n, int64_t d, int64_t k, bb_type type, int32_t own);
// Returns the bytes that sparse rows of so many stored values take on the device with k centres; has_values:
// 0 if all are 1.
BB_API int64_t bb_sparse_clusters_bytes(int64_t n, int64_t d, int64_t entries, int64_t k, bb_type type,
                                        int32_t has_values);

// Replaces dense rows that were uploaded by n others on the host, no more than at first, and waits; columns
// stay, and the rows are ready for passes if those before were.  weights: n, or NULL if those at first were.
BB_API bb_status bb_clusters_load(bb_clusters* rows, int64_t n, const void* values, const double* weights);
// The same of sparse rows; arrays as for bb_clusters_sparse, and values NULL if those at first were.
BB_API bb_status bb_clusters_load_sparse(bb_clusters* rows, int64_t n, const int64_t* starts,
                                         const int32_t* columns, const void* values, const double* weights);

// largest: is set to the maximum of |x|, infinite if a value is not finite.
BB_API bb_status bb_clusters_largest(bb_clusters* rows, double* largest);
// Makes rows ready for passes.  shift: d numbers near the data; scale: a power of two, such that
// |x - shift| scale is at most about 1.
BB_API bb_status bb_clusters_pack(bb_clusters* rows, const double* shift, double scale);
// values: (count, d), set to some rows.
BB_API bb_status bb_clusters_take(bb_clusters* rows, const int64_t* numbers, int64_t count, double* values);

// Lends a column, of one number for each row that there was at first, with all its numbers set to the given
// bits, and takes it back.
BB_API bb_status bb_clusters_lend(bb_clusters* rows, uint32_t bits, void** column);
BB_API void bb_clusters_give(bb_clusters* rows, void* column);
// Copies a part of a column to the host, or all of it from there.
BB_API bb_status bb_clusters_read(bb_clusters* rows, const void* column, int64_t first, int64_t count,
                                  void* to);
BB_API bb_status bb_clusters_write(bb_clusters* rows, void* column, const void* from);

// Labels the rows by their nearest centres.
// labels: a column; sums: (k, d), set to sums of w (x - c), or NULL; cluster_weights: k, set.
BB_API bb_status bb_clusters_assign(bb_clusters* rows, const double* centers, int64_t k, int32_t* labels,
                                    double* sums, double* cluster_weights, bb_cluster_counts* found);
// distances: n, set to the squared distances to the centres of the labels.
BB_API bb_status bb_clusters_own(bb_clusters* rows, const double* centers, int64_t k, const int32_t* labels,
                                 double* distances);
// Finds the rows that lower the inertia if they alone change the cluster.
BB_API bb_status bb_clusters_moves(bb_clusters* rows, const double* centers, int64_t k, const int32_t* labels,
                                   const double* cluster_weights, bb_cluster_counts* found);
// distances: (count, k), set to the distances from rows first ... first + count - 1.
BB_API bb_status bb_clusters_distances(bb_clusters* rows, const double* centers, int64_t k, int64_t first,
                                       int64_t count, double* distances);
// Sums w min(closest, squared distance) for points as new centres, by panels of BB_PANEL_ROWS rows.
// points: (count, d), each equal to some row, which another device may have; closest: a column; take: 1 if
// the only point becomes a centre; sums: (count, panels).
BB_API bb_status bb_clusters_potentials(bb_clusters* rows, const double* points, int64_t count,
                                        float* closest, int32_t take, double* sums);

// Begins k-means++ over dense rows, by the sums of bb_clusters_potentials and draws as in
// bmrm/unsupervised/clusters/shared_clusters.py.  One handle has one choice at a time.
// first: row of the first centre; uniform: (k - 1, trials), numbers in [0, 1) that draw the candidates for
// each further centre, 1 to BB_MAX_TRIALS; part_rows: a multiple of BB_PANEL_ROWS, rows of up to 128 parts
// whose sums are added in order; closest: a column, all infinite, which the choice needs to its end.
BB_API bb_status bb_clusters_begin_choice(bb_clusters* rows, int64_t first, const double* uniform, int64_t k,
                                          int64_t trials, int64_t part_rows, float* closest);
// Goes on with up to `count` centres.  chosen: set to their rows; found: to their number, less if all are
// there or if all rows are at centres.
BB_API bb_status bb_clusters_choose(bb_clusters* rows, int64_t count, int64_t* chosen, int64_t* found);

// Measures the rows against further points, numbered from `first`, and sums w times the squared distance to
// the nearest point so far, by panels of BB_PANEL_ROWS rows.
// points: (count, d), on the host; scale: a power of two, whose square distances are multiplied by; closest:
// a column of these products; nearest: a column of numbers of points; both are set anew if first is 0; sums:
// panels.
BB_API bb_status bb_clusters_approach(bb_clusters* rows, const double* points, int64_t count, int64_t first,
                                      double scale, float* closest, int32_t* nearest, double* sums);
// Counts the rows with each label.
// labels: a column of numbers below k; counts: k, set.
BB_API bb_status bb_clusters_count(bb_clusters* rows, const int32_t* labels, int64_t k, uint32_t* counts);
// Draws each row by itself with probability w closest factor.
// key: of the draw; first: number of the first row, on which numbers depend; drawn: a column, whose first
// `*count` numbers become those of rows here, in any order.
BB_API bb_status bb_clusters_draw(bb_clusters* rows, const float* closest, uint64_t key, int64_t first,
                                  double factor, int32_t* drawn, int64_t* count);

// Returns the maximum number of additions that a term of a sum over n rows and d columns goes through.
BB_API int64_t bb_clusters_additions(int64_t n, int64_t d, int64_t k);

#ifdef __cplusplus
}
#endif
