// The loops over the entries of compressed rows that are no products: for each type of indices and values,
// for the compiler's default target. They are tables of functions, so that their callers exist once.
#pragma once

#include <cstdint>

#include "cpu/simd.h"

namespace bmrm {

/// Loops for one type of indices and one of values. Entries are given by their numbers [begin, end), or by
/// rows [begin, end) and the row pointers.
struct EntryLoops {
    /// Adds the number of entries of each column to counts.
    void (*count)(const void* idx, i64 begin, i64 end, i64* counts);
    void (*count_sample)(const void* idx, i64 begin, i64 end, std::uint32_t* counts);
    /// For each entry of the rows: its row less `base` and its value go to the place at[column]++ of `rows`,
    /// which has indices of two bytes, or four if `wide`, and of `to`.
    void (*place)(const i64* ptr, const void* idx, const void* val, i64 begin, i64 end, i64 base, bool wide,
                  i64* at, void* rows, void* to);
    /// sum[column] += value^2 for each entry.
    void (*add_squares)(const void* idx, const void* val, i64 begin, i64 end, double* sum);
    /// out[i] = the sum of squares of row i.
    void (*row_squares)(const i64* ptr, const void* val, i64 begin, i64 end, double* out);
    /// The checksum of the rows, numbered from `first` (entries.h).
    std::uint64_t (*checksum)(const i64* ptr, const void* idx, const void* val, i64 begin, i64 end,
                              std::uint64_t first, const std::uint64_t* keys);
    /// columns[k] = the column, values[k] = the value of each entry.
    void (*copy)(const void* idx, const void* val, i64 begin, i64 end, i64* columns, void* values);
    /// Replaces the columns of the rows by their places, in place and in the order of the places' classes;
    /// the values go to `to`.
    void (*permute)(const i64* ptr, void* idx, const void* val, i64 begin, i64 end, const std::uint32_t* of,
                    const std::uint8_t* class_at, void* to);
};

/// Number of classes of columns (column_order.h).
constexpr int kColumnClasses = 32;

/// The loops for indices and values of so many bytes, 0 for ones.
const EntryLoops& entry_loops(int index_bytes, int value_bytes);

}  // namespace bmrm
