// The kernels of products, as tables of functions for each instruction set.
#pragma once

#include "cpu/isa.h"
#include "cpu/simd.h"

namespace bmrm {

/// Loops over compressed rows, for one type of indices and one of values: the functions of `Sparse`
/// (sparse_kernels.h). Callers do not know the types.
struct SparseKernels {
    void (*rows)(const i64* ptr, const void* idx, const void* val, i64 nnz, i64 begin, i64 end,
                 const double* w, bool add, bool far, double* out);
    void (*rows_by_length)(const i64* ptr, const void* idx, const void* val, i64 nnz, i64 begin,
                           const std::uint16_t* order, i64 count, const double* w, bool far, double* out);
    double (*span)(const void* idx, const void* val, i64 nnz, i64 lo, i64 hi, const double* w, bool far);
    double (*lone)(const void* idx, const void* val, i64 nnz, i64 lo, i64 hi, const double* w);
    void (*add_lone)(const void* idx, const void* val, i64 lo, i64 hi, double c, double* w);
    void (*lone_many)(const void* idx, const void* val, i64 lo, i64 hi, const double* W, i64 ld, double* out);
    void (*add_lone_to)(const void* idx, const void* val, i64 lo, i64 hi, const Change* changes, i64 count,
                        i64 ld, double* W);
    void (*fetch)(const void* idx, const void* val, const i64* soon, const double* w, i64 ld,
                  const i64* later);
    /// Null for indices of one byte, which X^T does not have.
    void (*rows_split)(const i64* ptr, const void* idx, const void* val, i64 nnz, i64 begin, i64 end,
                       const i64* bound, i64 parts, const double* w, double* const* out);
    void (*scatter)(const i64* at, i64 stride, const void* idx, const void* val, i64 begin, i64 end,
                    const double* r, bool skip, bool unlike, bool far, i64 ahead, double* acc);
    void (*add_pairs)(const i64* ptr, const void* idx, const void* val, i64 begin, i64 end, const double* s,
                      i64 d, double* pairs, double* squares);
    void (*rows_many[kWidths])(const i64* ptr, const void* idx, const void* val, i64 begin, i64 end,
                               const double* R, bool add, double* out);
    void (*scatter_many[kWidths])(const i64* ptr, const void* idx, const void* val, i64 begin, i64 end,
                                  const double* R, bool skip, double* acc);
};

/// Loops over dense rows: the functions of `Dense` (dense_kernels.h).
template <class V>
struct DenseKernels {
    void (*rows)(const V* X, i64 d, i64 begin, i64 end, const double* w, bool streams, double* out);
    void (*add_rows)(const V* const* row, const double* c, i64 n, i64 width, i64 ahead, double* acc);
    void (*lone_many)(const V* x, i64 d, const double* B, i64 ld, double* out);
    void (*pack_rows)(const V* X, i64 d, const double* s, const double* shift, const i64* row, i64 n,
                      i64 ahead, i64 ld, double* plain, double* scaled);
    void (*add_scaled)(const double* scaled, i64 n, i64 ld, double* sums);
    void (*add_packed)(const double* plain, const double* scaled, i64 n, i64 ld, i64 first, i64 last,
                       double* out);
    void (*rows_many[kWidths])(const V* X, i64 d, i64 n, const double* B, double* out);
    void (*add_rows_many[kWidths])(const V* X, i64 d, i64 n, const double* R, double* acc);
};

struct ProductKernels {
    SparseKernels sparse[3][3];  // indices of 1, 2 and 4 bytes; ones, float, double
    DenseKernels<float> dense_float;
    DenseKernels<double> dense_double;
    /// For indices of 4 bytes: cut[s] = the first entry of the row [lo, hi) whose index is at least bound[s],
    /// s < strips.
    void (*cut_row)(const std::uint32_t* idx, i64 lo, i64 hi, const i64* bound, i64 strips, i64* cut);
};

BMRM_TABLES(ProductKernels, product_kernels)

/// The kernels for indices and values of so many bytes, 0 for ones.
inline const SparseKernels& sparse_kernels(int index_bytes, int value_bytes) {
    return product_kernels().sparse[index_bytes / 2][value_bytes / 4];
}

template <class V>
const DenseKernels<V>& dense_kernels() {
    if constexpr (std::is_same_v<V, float>)
        return product_kernels().dense_float;
    else
        return product_kernels().dense_double;
}

}  // namespace bmrm
