// The C interface of sums of functions of the distance on a device: kernel densities. bmrm/pairs/densities.py
// says what is summed and bounds the errors, src_common/pairs/smoothing.h has the functions.  Failures as in
// blackbox.h; all arrays are on the host.
//
// A sum depends on nothing but the points and the function: terms are added in a fixed order.
#pragma once
#include "api/blackbox.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bb_density bb_density;

typedef struct {
    int64_t m;
    int32_t axes;
    int32_t light;          // 1: also as float32, which must hold the coordinates
    const double* y;        // (axes, m): finite, and squared distances do not overflow
    const double* weights;  // (m): above 0
} bb_density_points;

// Copies points y to a device. device: of bb_device_info; out: is set to the points, which bb_density_destroy
// frees.
BB_API bb_status bb_density_create(const bb_device* device, const bb_density_points* points,
                                   bb_density** out);
BB_API void bb_density_destroy(bb_density* density);

// squares: (n) set to the least squared distance of each point x: (axes, n).
BB_API bb_status bb_density_nearest(bb_density* density, const double* x, int64_t n, double* squares);

// Returns the name of a function of the distance by its number, from 0; NULL past the last one.
BB_API const char* bb_shape_name(int32_t shape);

typedef struct {
    int32_t shape;          // the number of a name
    double scale, end;      // see `Smoothing` there
    const double* offsets;  // (n) of endless shapes, whose terms are exp(offset - s); NULL: 0
} bb_smoothing;

// sums: (n) set to the sums of points x: (axes, n); inside: (n) set to the weights of the terms that are not
// cut off, of the other shapes.
BB_API bb_status bb_density_sums(bb_density* density, const double* x, int64_t n,
                                 const bb_smoothing* smoothing, double* sums, double* inside);

// Terms 2^(-rate d2) in float32, and their sums in float64; squared distances above `most` count as this.
// moments: (n) set to the sums of the terms times their squared distances.
BB_API bb_status bb_density_light_sums(bb_density* density, const double* x, int64_t n, float rate,
                                       float most, double* sums, double* moments);

#ifdef __cplusplus
}
#endif
