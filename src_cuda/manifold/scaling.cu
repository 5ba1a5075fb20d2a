// Multidimensional scaling on a device: the C interface.
#include <algorithm>

#include "manifold/device_scaling.h"
#include "pairs/kernels/pair_vectors.cuh"

using namespace bmrm;

namespace {

static_assert(kSquaredColumns == BB_SCALING_SQUARED);

void expect(bool holds, const char* text) {
    if (!holds) throw Failure(BB_INVALID, text);
}

}  // namespace

void bb_scaling::over_degrees(int p, const double* degrees, const double* vector, double* to) {
    const NextLaunch launch(blocks_for(n * p), 256, 0, stream(), false);
    launch(divide_points, vector, degrees, n, p, to);
}

const double* bb_scaling::descent(int p, const double* X, bool single, double* direction) {
    if (single)
        return weighted() ? descend<true, float>(p, X, direction) : descend<false, float>(p, X, direction);
    return weighted() ? descend<true, double>(p, X, direction) : descend<false, double>(p, X, direction);
}

extern "C" {

bb_status bb_scaling_create(int32_t device, const bb_pairs* pairs, bb_scaling** out) {
    return guarded([&] {
        const OnDevice scope(device);
        *out = new bb_scaling(device, *pairs);
    });
}

void bb_scaling_destroy(bb_scaling* scaling) { destroy_handle(scaling); }

int64_t bb_scaling_sum_bytes(int64_t n, int32_t adds) {
    const int columns = adds <= 3 ? 4 : adds <= 8 ? 2 : 1;
    const int64_t rows = bb_scaling::strip_rows(n), strips = (n + rows - 1) / rows;
    const int64_t stacks = (n + kPairThreads * columns - 1) / (kPairThreads * columns);
    return 8 * ((strips + stacks) * n * round_up_to_power(adds) + strips * stacks * kMaxTotals);
}

int64_t bb_scaling_strip_rows(int64_t n) { return bb_scaling::strip_rows(n); }

bb_status bb_scaling_own_rows(bb_scaling* scaling, int32_t p, double* to) {
    return on_handle(scaling, [&](bb_scaling& s) { s.own_rows(p, to); });
}

bb_status bb_scaling_add_strips(bb_scaling* scaling, int32_t p, double* to) {
    return on_handle(scaling, [&](bb_scaling& s) { s.add_strips(p, to); });
}

bb_status bb_scaling_count_totals(bb_scaling* scaling, int64_t* size) {
    return on_handle(scaling, [&](bb_scaling& s) { *size = s.count_totals(); });
}

bb_status bb_scaling_own_totals(bb_scaling* scaling, int64_t size, double* values) {
    return on_handle(scaling, [&](bb_scaling& s) { s.own_totals(size, values); });
}

bb_status bb_scaling_sum_totals(bb_scaling* scaling, int64_t size, const double* values, double* totals) {
    return on_handle(scaling, [&](bb_scaling& s) { std::copy_n(s.sum_totals(size, values), 3, totals); });
}

bb_status bb_scaling_used(bb_scaling* scaling, int64_t* bytes) {
    return on_handle(scaling, [&](bb_scaling& s) { *bytes = s.memory.used(); });
}

bb_status bb_scaling_lend(bb_scaling* scaling, int64_t size, double** vector) {
    return on_handle(scaling, [&](bb_scaling& s) { *vector = s.lend(size); });
}

void bb_scaling_give(bb_scaling* scaling, int64_t size, double* vector) {
    on_handle(scaling, [&](bb_scaling& s) { s.give(size, vector); });
}

bb_status bb_scaling_put(bb_scaling* scaling, int64_t size, const double* values, double* vector) {
    return on_handle(scaling, [&](bb_scaling& s) {
        BB_CHECK(cudaMemcpyAsync(vector, values, size_t(size) * 8, cudaMemcpyDefault, s.stream()));
        BB_CHECK(cudaStreamSynchronize(s.stream()));
    });
}

bb_status bb_scaling_get(bb_scaling* scaling, int64_t size, const double* vector, double* values) {
    return bb_scaling_put(scaling, size, vector, values);
}

bb_status bb_scaling_combine(bb_scaling* scaling, int64_t size, const double* const* vectors,
                             const double* factors, int32_t count, double* to) {
    return on_handle(scaling, [&](bb_scaling& s) {
        expect(count >= 1 && count <= BB_PAIR_VECTORS, "vectors: expected 1 to 32");
        s.combine(size, vectors, factors, count, to);
    });
}

bb_status bb_scaling_products(bb_scaling* scaling, int64_t size, const double* const* vectors,
                              const double* const* others, int32_t count, double* products) {
    return on_handle(scaling, [&](bb_scaling& s) {
        expect(count >= 1 && count <= BB_PAIR_PRODUCTS, "vectors: expected 1 to 64");
        std::copy_n(s.products(size, vectors, others, count), count, products);
    });
}

bb_status bb_scaling_over_degrees(bb_scaling* scaling, int32_t p, const double* degrees, const double* vector,
                                  double* to) {
    return on_handle(scaling, [&](bb_scaling& s) { s.over_degrees(p, degrees, vector, to); });
}

bb_status bb_scaling_centre(bb_scaling* scaling, int32_t p, const double* vector, double* to) {
    return on_handle(scaling, [&](bb_scaling& s) {
        expect(p >= 1 && p <= BB_PAIR_AXES, "p: expected 1 to 16");
        s.centre(p, vector, to);
    });
}

bb_status bb_scaling_summary(bb_scaling* scaling, double* degrees, double* totals) {
    return on_handle(scaling, [&](bb_scaling& s) { std::copy_n(s.summary(degrees), 3, totals); });
}

bb_status bb_scaling_descent(bb_scaling* scaling, int32_t p, const double* X, int32_t terms,
                             double* direction, double* totals) {
    return on_handle(scaling, [&](bb_scaling& s) {
        std::copy_n(s.descent(p, X, terms == BB_FLOAT32, direction), 3, totals);
    });
}

bb_status bb_scaling_laplacian(bb_scaling* scaling, int32_t p, const double* Y, double* to) {
    return on_handle(scaling, [&](bb_scaling& s) { s.laplacian(p, Y, to); });
}

bb_status bb_scaling_squared(bb_scaling* scaling, int32_t p, const double* Y, double unknown, double* to) {
    return on_handle(scaling, [&](bb_scaling& s) { s.squared(p, Y, unknown, to); });
}

bb_status bb_scaling_pulls(bb_scaling* scaling, int32_t p, const double* X, double* to) {
    return on_handle(scaling, [&](bb_scaling& s) { s.pulls(p, X, to); });
}

bb_status bb_scaling_curvature(bb_scaling* scaling, int32_t p, const double* X, const double* direction,
                               double* to) {
    return on_handle(scaling, [&](bb_scaling& s) { s.curvature(p, X, direction, to); });
}

bb_status bb_scaling_row(bb_scaling* scaling, int64_t i, double* values) {
    return on_handle(scaling, [&](bb_scaling& s) {
        expect(i >= 0 && i < s.n, "row: out of range");
        s.row(i, values);
    });
}

}  // extern "C"
