// Copies rows of a CSR matrix to another one, in any order, each with ascending columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "text/parallel.h"

namespace svmlight {

using namespace text;

// A CSR matrix, with the sizes in bytes of a column number and of a value, 0 for no values.
struct RowSource {
    const int64_t* indptr;
    const void *columns, *values;
    int column_bytes, value_bytes;
};

template <class Column, class Value>
void copy_row(const Column* columns, const Value* values, int64_t count, Column* to_columns, Value* to_values,
              std::vector<std::pair<Column, int64_t>>& scratch) {
    if (std::is_sorted(columns, columns + count)) {
        std::copy_n(columns, count, to_columns);
        if (values) std::copy_n(values, count, to_values);
        return;
    }
    scratch.clear();
    for (int64_t k = 0; k < count; ++k) scratch.emplace_back(columns[k], k);
    std::sort(scratch.begin(), scratch.end());  // also by place, so that equal columns keep their order
    for (int64_t k = 0; k < count; ++k) {
        to_columns[k] = scratch[size_t(k)].first;
        if (values) to_values[k] = values[scratch[size_t(k)].second];
    }
}

template <class Column, class Value>
bool take_rows(const RowSource& from, const int64_t* rows, int64_t count, const int64_t* indptr,
               Column* columns, Value* values, int threads, Poll poll) {
    constexpr int64_t piece = 1024;
    const auto* source = static_cast<const Column*>(from.columns);
    const auto* numbers = from.value_bytes ? static_cast<const Value*>(from.values) : nullptr;
    return for_each(size_t((count + piece - 1) / piece), threads, poll, [&](size_t p) {
        std::vector<std::pair<Column, int64_t>> scratch;
        for (int64_t i = int64_t(p) * piece; i < std::min(count, int64_t(p + 1) * piece); ++i) {
            const int64_t first = from.indptr[rows[i]], last = from.indptr[rows[i] + 1];
            copy_row(source + first, numbers ? numbers + first : nullptr, last - first, columns + indptr[i],
                     numbers ? values + indptr[i] : nullptr, scratch);
        }
    });
}

// Like take_rows, with types chosen by their sizes. False if poll stopped it.
inline bool take_rows_of(const RowSource& from, const int64_t* rows, int64_t count, const int64_t* indptr,
                         void* columns, void* values, int threads, Poll poll) {
    const auto by_value = [&](auto column) {
        using Column = decltype(column);
        auto* to = static_cast<Column*>(columns);
        return from.value_bytes == 4
                   ? take_rows(from, rows, count, indptr, to, static_cast<float*>(values), threads, poll)
                   : take_rows(from, rows, count, indptr, to, static_cast<double*>(values), threads, poll);
    };
    return from.column_bytes == 4 ? by_value(int32_t{}) : by_value(int64_t{});
}

}  // namespace svmlight
