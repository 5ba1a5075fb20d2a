// The row of every nonzero, from row pointers: each row's number is put where the row starts, and a running
// maximum carries it on, so that neither empty rows nor long ones cost more.
#pragma once
#include "formats/csr.h"
#include "runtime/device_sort.cuh"

namespace bmrm {

static __global__ void mark_starts(const int64_t* ptr, int64_t rows, uint32_t* mark) {
    BB_FOR (r, rows)
        if (ptr[r + 1] > ptr[r]) mark[ptr[r]] = uint32_t(r);
}

inline Array<uint32_t> expand_rows(Memory& memory, const Csr& a) {
    Array<uint32_t> mark(memory, a.nnz), row(memory, a.nnz);
    if (a.nnz == 0) return row;
    mark.fill_bytes(0);
    mark_starts<<<blocks_for(a.rows), 256, 0, memory.stream>>>(a.ptr.data(), a.rows, mark.data());
    BB_CHECK(cudaGetLastError());
    running_maximum(memory, mark, row);
    return row;
}

}  // namespace bmrm
