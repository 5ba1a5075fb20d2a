// Failures of a compiled function: the one of the earliest row is kept, with its place in the program.  A
// Table has the address of the word for it, error(), and SITES, more than the program has places.
#pragma once
#include "device/operators.cuh"

namespace bmrm {

template <class Table>
__device__ __forceinline__ void fail(const Table& table, whole row, int site) {
    atomicMin(table.error(), row * Table::SITES + site);
}
template <class Table>
__device__ __forceinline__ whole inside(whole index, whole size, bool used, const Table& table, whole row,
                                        int site) {
    if (bits64(index) < bits64(size)) return index;
    if (used) fail(table, row, site);
    return 0;
}
// The same for an index that is surely below the size.
template <class Table>
__device__ __forceinline__ whole not_below(whole index, bool used, const Table& table, whole row, int site) {
    if (index >= 0) return index;
    if (used) fail(table, row, site);
    return 0;
}
template <class Table>
__device__ __forceinline__ whole divisor(whole b, bool used, const Table& table, whole row, int site) {
    if (b == 0 && used) fail(table, row, site);
    return b == 0 ? 1 : b;
}

}  // namespace bmrm
