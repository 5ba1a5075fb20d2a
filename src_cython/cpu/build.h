// Builds a resident matrix from the caller's arrays. Everything is checked here, once, so that the kernels
// need no checks.
#pragma once

#include <atomic>
#include <stdexcept>
#include <string>

#include "cpu/column_order.h"
#include "cpu/dense_matrix.h"
#include "cpu/sparse_matrix.h"

namespace bmrm {

/// The input does not describe a matrix; becomes DataError in Python.
struct BadData : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Number of entries that a task checks or converts.
constexpr i64 kScan = 1 << 18;

inline void check_pointers(const i64* ptr, i64 m, i64 nnz) {
    if (ptr[0] != 0) throw BadData("indptr: starts at " + std::to_string(ptr[0]) + ", expected 0");
    for (i64 i = 0; i < m; ++i)
        if (ptr[i + 1] < ptr[i]) throw BadData("indptr: decreases at row " + std::to_string(i));
    if (ptr[m] != nnz)
        throw BadData("indptr: ends at " + std::to_string(ptr[m]) + ", but there are " + std::to_string(nnz) +
                      " indices");
}

/// Returns a copy of the indices as type I; throws if one is outside [0, d).
template <class I, class Source>
Buffer<I> compress(const Source* source, i64 nnz, i64 d, int threads) {
    Buffer<I> out(nnz + kIndexPad);
    std::atomic<bool> bad{false};
    for_each_task((nnz + kScan - 1) / kScan, threads_for(nnz, threads), [&](i64 t) {
        i64 end = std::min(nnz, (t + 1) * kScan);
        bool wrong = false;
        for (i64 k = t * kScan; k < end; ++k) {
            wrong |= static_cast<std::uint64_t>(static_cast<i64>(source[k])) >= static_cast<std::uint64_t>(d);
            out[k] = static_cast<I>(source[k]);
        }
        if (wrong) bad = true;
    });
    if (bad)
        for (i64 k = 0; k < nnz; ++k)
            if (source[k] < 0 || static_cast<i64>(source[k]) >= d)
                throw BadData("indices: entry " + std::to_string(k) + " is " + std::to_string(source[k]) +
                              ", expected 0 to " + std::to_string(d - 1));
    std::fill_n(out.get() + nnz, kIndexPad, I{0});
    return out;
}

/// What the values allow: ones may be implicit; if all are finite, rows with r_i = 0 may be skipped.
struct ValueFacts {
    bool ones, finite;
};

template <class V>
ValueFacts inspect(const V* val, i64 nnz, int threads) {
    std::atomic<bool> ones{true}, finite{true};
    for_each_task((nnz + kScan - 1) / kScan, threads_for(nnz, threads), [&](i64 t) {
        i64 end = std::min(nnz, (t + 1) * kScan);
        bool other = false;
        V zero = 0;
        for (i64 k = t * kScan; k < end; ++k) {
            other |= val[k] != V{1};
            zero += val[k] * V{0};
        }
        if (other) ones = false;
        if (zero != V{0}) finite = false;
    });
    return {ones, finite};
}

template <class I, class V, class Source>
std::unique_ptr<Matrix> make_sparse_as(const i64* ptr, const Source* source, const V* val, bool finite, i64 m,
                                       i64 d, i64 nnz, int threads, TransposePolicy policy,
                                       ColumnOrder order) {
    Buffer<I> idx = compress<I>(source, nnz, d, threads);
    const auto as_it_is = [&](const V* values) {
        return std::make_unique<SparseMatrix<I, V>>(m, d, ptr, std::move(idx), values, finite, threads,
                                                    policy);
    };
    if (order == ColumnOrder::as_given || (order == ColumnOrder::automatic && !may_be_ordered(d, nnz)))
        return as_it_is(val);
    const std::vector<std::uint32_t> counts = count_columns(idx.get(), nnz, d);
    if (order == ColumnOrder::automatic && !order_pays(counts)) return as_it_is(val);
    auto places = std::make_shared<const Places>(counts);
    Buffer<unsigned char> values(std::is_same_v<V, One> ? 0 : nnz * static_cast<i64>(sizeof(V)));
    auto* copy = reinterpret_cast<V*>(values.get());
    permute_rows(ptr, m, idx.get(), val, *places, threads, copy);
    return std::make_unique<OrderedMatrix>(as_it_is(copy), std::move(places), std::move(values), threads);
}

template <class V, class Source>
std::unique_ptr<Matrix> make_sparse_of(const i64* ptr, const Source* idx, const V* val, bool finite, i64 m,
                                       i64 d, i64 nnz, int threads, TransposePolicy policy,
                                       ColumnOrder order) {
    if (d <= 1 << 8)
        return make_sparse_as<std::uint8_t>(ptr, idx, val, finite, m, d, nnz, threads, policy, order);
    if (d <= 1 << 16)
        return make_sparse_as<std::uint16_t>(ptr, idx, val, finite, m, d, nnz, threads, policy, order);
    return make_sparse_as<std::uint32_t>(ptr, idx, val, finite, m, d, nnz, threads, policy, order);
}

template <class V, class Source>
std::unique_ptr<Matrix> make_sparse_from(const i64* ptr, const Source* idx, const V* val, i64 m, i64 d,
                                         i64 nnz, int threads, TransposePolicy policy, ColumnOrder order) {
    ValueFacts facts = val ? inspect(val, nnz, threads) : ValueFacts{true, true};
    if (facts.ones)
        return make_sparse_of<One>(ptr, idx, static_cast<const One*>(nullptr), true, m, d, nnz, threads,
                                   policy, order);
    return make_sparse_of<V>(ptr, idx, val, facts.finite, m, d, nnz, threads, policy, order);
}

/// Builds the matrix of a CSR triple: indices of 4 or 8 bytes; values of 4 or 8 bytes, or none (ones).
inline std::unique_ptr<Matrix> make_sparse(const i64* ptr, const void* idx, int idx_bytes, const void* val,
                                           int value_bytes, i64 m, i64 d, i64 nnz, int threads,
                                           TransposePolicy policy, ColumnOrder order) {
    check_pointers(ptr, m, nnz);
    auto narrow = static_cast<const std::int32_t*>(idx);
    auto wide = static_cast<const i64*>(idx);
    auto f32 = static_cast<const float*>(val);
    auto f64 = static_cast<const double*>(val);
    if (value_bytes == 4 && idx_bytes == 4)
        return make_sparse_from(ptr, narrow, f32, m, d, nnz, threads, policy, order);
    if (value_bytes == 4) return make_sparse_from(ptr, wide, f32, m, d, nnz, threads, policy, order);
    if (idx_bytes == 4) return make_sparse_from(ptr, narrow, f64, m, d, nnz, threads, policy, order);
    return make_sparse_from(ptr, wide, f64, m, d, nnz, threads, policy, order);
}

inline std::unique_ptr<Matrix> make_dense(const void* X, int value_bytes, i64 m, i64 d, int threads) {
    if (value_bytes == 4)
        return std::make_unique<DenseMatrix<float>>(m, d, static_cast<const float*>(X), threads);
    return std::make_unique<DenseMatrix<double>>(m, d, static_cast<const double*>(X), threads);
}

/// Size of the index type for d columns, in bytes.
inline i64 index_bytes(i64 d) { return d <= 1 << 8 ? 1 : d <= 1 << 16 ? 2 : 4; }

inline i64 predict_sparse_bytes(i64 m, i64 d, i64 nnz, i64 value_bytes, TransposePolicy policy) {
    i64 bytes = (m + 1) * 8 + (nnz + kIndexPad) * index_bytes(d) + nnz * value_bytes,
        strips = strips_for(m, d, nnz);
    // The order of rows of unlike length.
    if (!value_bytes || (m >= kManyRows && nnz <= kFewPerRow * m)) bytes += m * 2;
    if (strips > 1) bytes += (m * strips + 1) * 8;
    if (may_be_ordered(d, nnz)) bytes += d * 5 + nnz * value_bytes;
    if (!keeps_transpose(policy, m, d, nnz)) return bytes;
    i64 panel = panel_rows(m, d, nnz), panels = std::max<i64>(1, (m + panel - 1) / panel);
    i64 row_index = panel <= kLargestPanel ? 2 : 4;
    return bytes + (panels * d + 1) * 8 + (nnz + kIndexPad) * row_index + nnz * value_bytes;
}

}  // namespace bmrm
