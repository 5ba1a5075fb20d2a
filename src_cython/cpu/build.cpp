#include "cpu/build.h"

#include <atomic>
#include <string>

#include "cpu/column_order.h"
#include "cpu/dense_matrix.h"
#include "cpu/sparse_matrix.h"

namespace bmrm {
namespace {

/// Number of entries that a task checks or converts.
constexpr i64 kScan = 1 << 18;

void check_pointers(const i64* ptr, i64 m, i64 nnz) {
    if (ptr[0] != 0) throw BadData("indptr: starts at " + std::to_string(ptr[0]) + ", expected 0");
    for (i64 i = 0; i < m; ++i)
        if (ptr[i + 1] < ptr[i]) throw BadData("indptr: decreases at row " + std::to_string(i));
    if (ptr[m] != nnz)
        throw BadData("indptr: ends at " + std::to_string(ptr[m]) + ", but there are " + std::to_string(nnz) +
                      " indices");
}

/// Returns a copy of the indices as type I; throws if one is outside [0, d).
template <class I, class Source>
Buffer<unsigned char> compress(const Source* source, i64 nnz, i64 d, int threads) {
    Buffer<unsigned char> bytes((nnz + kIndexPad) * static_cast<i64>(sizeof(I)));
    I* const out = reinterpret_cast<I*>(bytes.get());
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
    std::fill_n(out + nnz, kIndexPad, I{0});
    return bytes;
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

/// Size of the index type for d columns, in bytes.
int index_bytes(i64 d) { return d <= 1 << 8 ? 1 : d <= 1 << 16 ? 2 : 4; }

template <class Source>
Buffer<unsigned char> compress_to_fit(const Source* source, i64 nnz, i64 d, int threads) {
    switch (index_bytes(d)) {
        case 1:
            return compress<std::uint8_t>(source, nnz, d, threads);
        case 2:
            return compress<std::uint16_t>(source, nnz, d, threads);
        default:
            return compress<std::uint32_t>(source, nnz, d, threads);
    }
}

ValueFacts facts_of(const void* val, int value_bytes, i64 nnz, int threads) {
    if (!val) return {true, true};
    return value_bytes == 4 ? inspect(static_cast<const float*>(val), nnz, threads)
                            : inspect(static_cast<const double*>(val), nnz, threads);
}

}  // namespace

std::unique_ptr<Matrix> make_sparse(const i64* ptr, const void* idx, int idx_bytes, const void* val,
                                    int value_bytes, i64 m, i64 d, i64 nnz, int threads,
                                    TransposePolicy policy, ColumnOrder order) {
    check_pointers(ptr, m, nnz);
    const ValueFacts facts = facts_of(val, value_bytes, nnz, threads);
    if (facts.ones) val = nullptr, value_bytes = 0;
    Buffer<unsigned char> columns =
        idx_bytes == 4 ? compress_to_fit(static_cast<const std::int32_t*>(idx), nnz, d, threads)
                       : compress_to_fit(static_cast<const i64*>(idx), nnz, d, threads);
    const Entries X{ptr, columns.get(), val, index_bytes(d), value_bytes};
    const auto as_it_is = [&](const void* values) {
        return std::make_unique<SparseMatrix>(m, d, ptr, std::move(columns), X.index_bytes, values,
                                              value_bytes, facts.finite, threads, policy);
    };
    if (order == ColumnOrder::as_given || (order == ColumnOrder::automatic && !may_be_ordered(d, nnz)))
        return as_it_is(val);
    const std::vector<std::uint32_t> counts = count_columns(X, nnz, d);
    if (order == ColumnOrder::automatic && !order_pays(counts)) return as_it_is(val);
    auto places = std::make_shared<const Places>(counts);
    Buffer<unsigned char> copy(nnz * value_bytes);
    permute_rows(X, columns.get(), m, *places, threads, copy.get());
    return std::make_unique<OrderedMatrix>(as_it_is(copy.get()), std::move(places), std::move(copy), threads);
}

std::unique_ptr<Matrix> make_dense(const void* X, int value_bytes, i64 m, i64 d, int threads) {
    if (value_bytes == 4)
        return std::make_unique<DenseMatrix<float>>(m, d, static_cast<const float*>(X), threads);
    return std::make_unique<DenseMatrix<double>>(m, d, static_cast<const double*>(X), threads);
}

RowAdditions row_additions(i64 columns) {
    // Rows of up to kShortRow entries may have one sum. Others have several, each of an equal part of the
    // entries and up to 3 more, and up to 3 additions join them. Pieces of a long row are summed in this way
    // too; adding the pieces up takes fewer additions than so many more entries.
    static_assert(kLoopRow <= kShortRow && kShortRow >= 16 && kPieceEntries >= 64);
    constexpr int lanes = 8;  // of Pack<8> in `dot`
    const int sums = columns == 1 ? lanes : columns <= 8 ? kRowSums<8> : kRowSums<32>;
    return {static_cast<double>(kShortRow), 1.0 / sums};
}

i64 predict_sparse_bytes(i64 m, i64 d, i64 nnz, i64 value_bytes, TransposePolicy policy) {
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

void keys_of_columns(const i64* numbers, i64 count, std::uint64_t* keys) {
    for (i64 j = 0; j < count; ++j) keys[j] = key_of_column(static_cast<std::uint64_t>(numbers[j]));
}

}  // namespace bmrm
