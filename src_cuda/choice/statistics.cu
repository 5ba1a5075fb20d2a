// What the choice of a kernel needs to know, counted on the device: the same numbers as bb_statistics_host.
#include "choice/length_bin.h"
#include "formats/prepare.h"
#include "formats/rows_of.cuh"
#include "runtime/device_sort.cuh"

namespace bmrm {

namespace {

constexpr int kThreads = 256;
using Count = unsigned long long;

__global__ void count_lengths(const int64_t* ptr, int64_t rows, Count* of_rows, Count* of_nnz,
                              Count* longest) {
    __shared__ Count row_bins[BB_LENGTH_BINS], nnz_bins[BB_LENGTH_BINS];
    for (int b = int(threadIdx.x); b < BB_LENGTH_BINS; b += kThreads) row_bins[b] = nnz_bins[b] = 0;
    __syncthreads();
    Count most = 0;
    BB_FOR (r, rows) {
        const int64_t length = ptr[r + 1] - ptr[r];
        const int bin = length_bin(length);
        atomicAdd(row_bins + bin, Count(1));
        atomicAdd(nnz_bins + bin, Count(length));
        if (Count(length) > most) most = Count(length);
    }
    atomicMax(longest, most);
    __syncthreads();
    for (int b = int(threadIdx.x); b < BB_LENGTH_BINS; b += kThreads) {
        if (row_bins[b]) atomicAdd(of_rows + b, row_bins[b]);
        if (nnz_bins[b]) atomicAdd(of_nnz + b, nnz_bins[b]);
    }
}

// Counts by the highest bit in which a column differs from the one before it in its row; a row's first column
// counts as bit 32.
__global__ void count_changes(const uint32_t* col, const uint32_t* row, int64_t nnz, Count* changes) {
    __shared__ unsigned bins[34];
    if (threadIdx.x < 34) bins[threadIdx.x] = 0;
    __syncthreads();
    BB_FOR (i, nnz) {
        int bit = 33;
        if (i > 0 && row[i] == row[i - 1]) bit = 32 - __clz(int(col[i] ^ col[i - 1]));
        atomicAdd(bins + bit, 1u);
    }
    __syncthreads();
    if (threadIdx.x < 34 && bins[threadIdx.x]) atomicAdd(changes + threadIdx.x, Count(bins[threadIdx.x]));
}

__global__ void count_columns(const uint32_t* col, int64_t nnz, unsigned* count) {
    BB_FOR (i, nnz) atomicAdd(count + col[i], 1u);
}

__global__ void complement(uint32_t* values, int64_t n) {
    BB_FOR (i, n) values[i] = ~values[i];
}

__global__ void widen(const uint32_t* from, int64_t n, int64_t* to) {
    BB_FOR (i, n) to[i] = from[i];
}

}  // namespace

Popularity popularity_of(Memory& memory, const Csr& a) {
    Popularity out;
    out.count = Array<uint32_t>(memory, a.cols);
    out.count.fill_bytes(0);
    const unsigned some = std::min(blocks_for(a.nnz), 8192u), few = std::min(blocks_for(a.cols), 8192u);
    count_columns<<<some, kThreads, 0, memory.stream>>>(a.col.data(), a.nnz, out.count.data());
    complement<<<few, kThreads, 0, memory.stream>>>(out.count.data(), a.cols);
    BB_CHECK(cudaGetLastError());
    out.order = sort_with_positions(memory, out.count, uint64_t(1) << 32);
    complement<<<few, kThreads, 0, memory.stream>>>(out.count.data(), a.cols);
    BB_CHECK(cudaGetLastError());
    return out;
}

bb_stats statistics(Memory& memory, const Csr& a, const ValueArray& coding, const Popularity& columns) {
    bb_stats out = {};
    out.rows = a.rows;
    out.cols = a.cols;
    out.nnz = a.nnz;
    out.value_bytes = coding.value_bytes();
    out.vector_bytes = coding.vector_bytes();
    out.repeated = a.repeated;
    Array<Count> counts(memory, 2 * BB_LENGTH_BINS + 1 + 34);
    counts.fill_bytes(0);
    Count *const longest = counts.data() + 2 * BB_LENGTH_BINS, *const changes = longest + 1;
    count_lengths<<<std::min(blocks_for(a.rows), 2048u), kThreads, 0, memory.stream>>>(
        a.ptr.data(), a.rows, counts.data(), counts.data() + BB_LENGTH_BINS, longest);
    BB_CHECK(cudaGetLastError());
    if (a.nnz) {
        const Array<uint32_t> row = expand_rows(memory, a);
        count_changes<<<std::min(blocks_for(a.nnz), 4096u), kThreads, 0, memory.stream>>>(
            a.col.data(), row.data(), a.nnz, changes);
        BB_CHECK(cudaGetLastError());
    }
    const std::vector<Count> found = counts.to_host();
    for (int b = 0; b < BB_LENGTH_BINS; b++) {
        out.length_rows[b] = int64_t(found[size_t(b)]);
        out.length_nnz[b] = int64_t(found[size_t(BB_LENGTH_BINS + b)]);
    }
    out.empty_rows = out.length_rows[0];
    out.longest = int64_t(found[2 * BB_LENGTH_BINS]);
    // A group of 2^k columns changes if bit k or a higher one does.
    for (int s = 0; s < BB_SPREADS; s++)
        for (int bit = s + BB_SPREAD_FIRST + 1; bit < 34; bit++)
            out.fragments[s] += int64_t(found[size_t(2 * BB_LENGTH_BINS + 1 + bit)]);
    Array<int64_t> wide(memory, a.cols);
    widen<<<std::min(blocks_for(a.cols), 8192u), kThreads, 0, memory.stream>>>(columns.count.data(), a.cols,
                                                                               wide.data());
    BB_CHECK(cudaGetLastError());
    const Array<int64_t> sums = offsets_of(memory, wide);
    for (int k = 0; k < BB_TOPS; k++)
        BB_CHECK(cudaMemcpyAsync(&out.top_nnz[k], sums.data() + std::min(int64_t(1) << k, a.cols), 8,
                                 cudaMemcpyDefault, memory.stream));
    BB_CHECK(cudaStreamSynchronize(memory.stream));
    return out;
}

}  // namespace bmrm
