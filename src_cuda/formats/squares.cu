// The sums of squares of each column, and of each row, computed while X is prepared: the preconditioner of
// conjugate gradients (training/newton.cu) and the curvatures of dual ascent (training/ascent.cu).  Later the
// values are in the orders of the products' formats.
//
// Sums are float64, over fixed shares, added in a fixed order.
#include "formats/dense.h"
#include "formats/kernels/values.cuh"
#include "formats/prepare.h"

namespace bmrm {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kLong = 512;  // values per row from which on a whole block takes a row
constexpr int kAcross = 32;     // columns per block of square_dense
constexpr int kDown = 32;       // warps per block of square_dense

// `lanes` threads per row, a power of two.
template <class T, int CODING>
__global__ void __launch_bounds__(kThreads)
    square_rows(const int64_t* __restrict__ ptr, const void* values, const void* dictionary, int64_t rows,
                int lanes, double* sums) {
    __shared__ double scratch[kThreads];
    const Elements<T, CODING, uint32_t, ONCE> e(nullptr, values, 0, 0, static_cast<const T*>(dictionary));
    const int lane = int(threadIdx.x) % lanes;
    const int64_t row = int64_t(blockIdx.x) * (kThreads / lanes) + int(threadIdx.x) / lanes;
    double sum = 0;
    if (row < rows)
        for (int64_t k = ptr[row] + lane; k < ptr[row + 1]; k += lanes) {
            const double v = double(e.at(uint64_t(k)));
            sum += v * v;
        }
    scratch[threadIdx.x] = sum;
    __syncthreads();
    for (int half = lanes / 2; half; half /= 2) {
        if (lane < half) scratch[threadIdx.x] += scratch[threadIdx.x + half];
        __syncthreads();
    }
    if (row < rows && lane == 0) sums[row] += scratch[threadIdx.x];
}

// Dense rows: a block takes some columns, and its warps take turns with the rows.  This needs no memory, of
// which a limit may leave none.
template <class T>
__global__ void __launch_bounds__(kAcross* kDown)
    square_dense(const T* __restrict__ values, int64_t rows, int64_t cols, double* sums) {
    __shared__ double scratch[kDown][kAcross];
    const int64_t col = int64_t(blockIdx.x) * kAcross + threadIdx.x;
    double sum = 0;
    if (col < cols)
#pragma unroll 8
        for (int64_t row = threadIdx.y; row < rows; row += kDown) {
            const double v = double(values[row * cols + col]);
            sum += v * v;
        }
    scratch[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || col >= cols) return;
    for (int k = 1; k < kDown; k++) sum += scratch[k][threadIdx.x];
    sums[col] += sum;
}

}  // namespace

void add_squares(Memory& memory, const Csr& a, const ValueArray& coding, double* sums) {
    const int lanes = a.nnz >= kLong * a.rows ? kThreads : 32;
    const unsigned blocks = unsigned((a.rows * lanes + kThreads - 1) / kThreads);
    with_values(coding.type, coding.coding, [&](auto kind) {
        using K = decltype(kind);
        square_rows<typename K::T, K::CODING><<<blocks, kThreads, 0, memory.stream>>>(
            a.ptr.data(), a.values.data(), coding.dictionary.data(), a.rows, lanes, sums);
    });
    BB_CHECK(cudaGetLastError());
}

void Dense::add_squares(double* sums) {
    by_type(type_, [&](auto t) {
        square_dense<<<unsigned((cols_ + kAcross - 1) / kAcross), dim3(kAcross, kDown), 0, memory_->stream>>>(
            reinterpret_cast<const decltype(t)*>(values_.data()), rows_, cols_, sums);
    });
}

}  // namespace bmrm
