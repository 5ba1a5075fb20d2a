// The C interface of counts of pairs of points on a device, by bins of their squared distance.
// bmrm/pairs/passes.py says what is counted, src_common/pairs/decision.h what decides.  Failures, addresses
// and "either" as in blackbox.h.
//
// Counts are whole numbers, exact, and depend on nothing but the points, the box and the bounds.
#pragma once
#include "api/blackbox.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    BB_PAIRS_FLOAT64 = 0,  // everything in float64; any number of axes, all images
    BB_PAIRS_BRUTE,        // all pairs of tiles, in float32 with a proven bound; few axes, nearest images
    BB_PAIRS_CELLS         // neighbouring cells only; up to three axes, nearest images
} bb_pair_kernel;

enum {
    BB_PAIRS_BRUTE_AXES = 7,  // maximum number of axes of a kernel
    BB_PAIRS_CELL_AXES = 3
};

typedef struct bb_points bb_points;
typedef struct bb_pair_counter bb_pair_counter;

typedef struct {
    int64_t n;
    int32_t axes;
    int32_t type;         // bb_type of the coordinates
    const void* at;       // either; coordinate k of point i is at[i * point + k * axis]
    int64_t point, axis;  // elements from one to the next; one of them is 1
    const double* box;    // (axes) on the host: lengths of periodic axes, 0 of open ones
    int32_t threads;      // of the host, for the upload
} bb_point_data;

// Puts points on a device, sorted along a curve that keeps neighbours together.
// device: of bb_device_info; data: finite coordinates; copied; out: is set to the points, which
// bb_points_destroy frees.
BB_API bb_status bb_points_create(const bb_device* device, const bb_point_data* data, bb_points** out);
BB_API void bb_points_destroy(bb_points* points);
// bytes: is set to the device memory in use.
BB_API bb_status bb_points_used(bb_points* points, int64_t* bytes);
// low, high: (axes) on the host, set to the extremes of the coordinates.
BB_API bb_status bb_points_extents(bb_points* points, double* low, double* high);

// Prepares counts of pairs: unordered pairs of a if b is NULL, else all of a with b, which has the same box.
// Both sets of points must outlive the counter.
// bounds: (bins + 1) squared distances, not decreasing, at least 0: bin k has bounds[k] <= d2 < bounds[k +
// 1]; all_images: 1: each image of another point counts, else the nearest does; out: is set to the counter.
BB_API bb_status bb_pair_counter_create(bb_points* a, bb_points* b, const double* bounds, int64_t bins,
                                        int32_t kernel, int32_t all_images, bb_pair_counter** out);
BB_API void bb_pair_counter_destroy(bb_pair_counter* counter);

typedef struct {
    int64_t tasks;      // numbered in an order that depends on the points, the bounds and the kernel alone
    double candidates;  // pairs that are looked at
    int64_t bytes;      // device memory in use
} bb_pair_work;

BB_API bb_status bb_pair_counter_work(bb_pair_counter* counter, bb_pair_work* work);
// Counts the pairs of some tasks, first <= task < last, each of which takes some milliseconds; waits.
// counts: (bins) on the host, set; candidates: set to the pairs that were looked at; rechecked: set to how
// many of them float64 decided.
BB_API bb_status bb_pair_counter_count(bb_pair_counter* counter, int64_t first, int64_t last, int64_t* counts,
                                       double* candidates, double* rechecked);

#ifdef __cplusplus
}
#endif
