// The C interface of neighbours of rows on a device: the nearest, or all within a radius.
// bmrm/pairs/neighbours.py says which they are, src_common/pairs/metrics.h has the distances.  Failures,
// addresses and "either" as in blackbox.h.
//
// Neighbours depend on nothing but the rows, the points, the box and the metric.
#pragma once
#include "api/dense_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    BB_EUCLIDEAN = 0,
    BB_SQEUCLIDEAN,
    BB_COSINE,  // of the rows divided by their lengths, which takes a copy of both sides in float64
    BB_MANHATTAN,
    BB_CHEBYSHEV
} bb_metric;

typedef struct bb_neighbours bb_neighbours;

typedef struct {
    bb_dense_rows* rows;
    bb_dense_rows* points;  // on the same device, with as many columns; fewer than 2^31
    int64_t first, count;   // rows whose neighbours are sought
    int32_t one_set;        // 1: the rows are the points, and none is its own neighbour
    int32_t metric;         // bb_metric
    const double* box;      // (columns) on the host: lengths of periodic axes, 0 of open ones
} bb_neighbour_sides;

// Prepares a search. Both sides must outlive it. device: of bb_device_info; out: is set to the search, which
// bb_neighbours_destroy frees.
BB_API bb_status bb_neighbours_create(const bb_device* device, const bb_neighbour_sides* sides,
                                      bb_neighbours** out);
BB_API void bb_neighbours_destroy(bb_neighbours* search);

// For the rows first <= i < last of those whose neighbours are sought; i is their row of the results, which
// are on the host. Wait.

// distances, indices: (count, k), of which these rows are set; k: at most the number of other points.
BB_API bb_status bb_neighbours_nearest(bb_neighbours* search, int64_t k, int64_t first, int64_t last,
                                       double* distances, int64_t* indices);
// counts: (count), of which these rows are set.
BB_API bb_status bb_neighbours_count(bb_neighbours* search, double radius, int64_t first, int64_t last,
                                     int64_t* counts);
// starts: (count + 1), the sums of the counts; distances and indices: set from starts[first] to starts[last],
// each row by index; narrow: 1: indices are int32_t, else int64_t.
BB_API bb_status bb_neighbours_fill(bb_neighbours* search, double radius, int64_t first, int64_t last,
                                    const int64_t* starts, double* distances, void* indices, int32_t narrow);

#ifdef __cplusplus
}
#endif
