// Weighted sums of the absolute values in each column of a CSR matrix, or of their squares.
//
// Rows are summed in a few pieces, which are added in order. Their number depends only on the matrix, so the
// sums are the same for any number of threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "svmlight/rows.h"
#include "text/parallel.h"

namespace svmlight {

using namespace text;

// Maximum number of pieces with sums of their own.
constexpr int64_t kMaxPieces = 16;

template <class Column, class Value>
bool column_sums(const RowSource& from, int64_t rows, const double* weights, bool squares, int64_t columns,
                 double* sums, int threads, Poll poll) {
    const auto* places = static_cast<const Column*>(from.columns);
    const auto* values = static_cast<const Value*>(from.values);
    // Each piece has its own sums, which should cost little compared to its values.
    const int64_t wanted = columns > 0 ? from.indptr[rows] / (4 * columns) : 1;
    const int64_t pieces = std::min(kMaxPieces, std::max<int64_t>(1, wanted));
    std::vector<std::vector<double>> parts(static_cast<size_t>(pieces));
    const auto add = [&](int64_t first, int64_t last, double* into) {
        for (int64_t i = first; i < last; ++i) {
            const double weight = weights[i];
            if (weight == 0.0) continue;  // such a row does not count, whatever its values are
            for (int64_t k = from.indptr[i]; k < from.indptr[i + 1]; ++k) {
                const double value = values[k];
                into[places[k]] += weight * (squares ? value * value : std::fabs(value));
            }
        }
    };
    const bool complete = for_each(size_t(pieces), threads, poll, [&](size_t p) {
        const int64_t first = rows * int64_t(p) / pieces, last = rows * (int64_t(p) + 1) / pieces;
        if (p > 0) parts[p].assign(static_cast<size_t>(columns), 0.0);
        add(first, last, p > 0 ? parts[p].data() : sums);
    });
    for (size_t p = 1; complete && p < size_t(pieces); ++p)
        for (int64_t j = 0; j < columns; ++j) sums[j] += parts[p][size_t(j)];
    return complete;
}

// Like column_sums, with types chosen by their sizes. `sums` must be zero initially. False if poll stopped
// it.
inline bool column_sums_of(const RowSource& from, int64_t rows, const double* weights, bool squares,
                           int64_t columns, double* sums, int threads, Poll poll) {
    const auto by_value = [&](auto column) {
        using Column = decltype(column);
        return from.value_bytes == 4
                   ? column_sums<Column, float>(from, rows, weights, squares, columns, sums, threads, poll)
                   : column_sums<Column, double>(from, rows, weights, squares, columns, sums, threads, poll);
    };
    return from.column_bytes == 4 ? by_value(int32_t{}) : by_value(int64_t{});
}

}  // namespace svmlight
