// X' diag(s) X of a dense X: rows times the square root of s, a chunk at a time in float64, and cuBLAS's sum
// of their products.  Interior-point steps use it (bmrm/linear/solvers/interior_point.py): s varies by many
// orders of magnitude from row to row, which float32 could not represent.
#include <algorithm>

#include "matrix/weighted_gram.h"
#include "runtime/library.h"

namespace bmrm {

namespace {

constexpr int64_t kChunkBytes = int64_t(64) << 20;
constexpr int kTile = 32;     // rows and columns of a tile that is mirrored
constexpr int kTileRows = 8;  // rows of threads per tile

// The part of cuBLAS's interface that is used here; it has not changed since version 4, except for the text,
// which is from 11.4.
using BlasHandle = void*;

struct BlasCalls {
    int (*create)(BlasHandle*);
    int (*destroy)(BlasHandle);
    int (*set_stream)(BlasHandle, cudaStream_t);
    int (*syrk)(BlasHandle, int, int, int, int, const double*, const double*, int, const double*, double*,
                int);
    const char* (*text)(int);
};

constexpr int kLower = 0;     // CUBLAS_FILL_MODE_LOWER
constexpr int kPlain = 0;     // CUBLAS_OP_N
constexpr int kNoMemory = 3;  // CUBLAS_STATUS_ALLOC_FAILED

LoadedCalls<BlasCalls> blas_calls;

void blas_check(int status, const char* what) {
    if (status)
        throw Failure(status == kNoMemory ? BB_MEMORY : BB_CUDA,
                      std::string(what) + ": " + blas_calls->text(status));
}

struct Blas {
    BlasHandle handle = nullptr;

    explicit Blas(cudaStream_t stream) {
        if (!blas_calls) throw Failure(BB_CUDA, "cuBLAS is not loaded");
        blas_check(blas_calls->create(&handle), "cublasCreate");
        blas_check(blas_calls->set_stream(handle, stream), "cublasSetStream");
    }
    ~Blas() {
        if (handle) blas_calls->destroy(handle);
    }
    Blas(const Blas&) = delete;
    Blas& operator=(const Blas&) = delete;
};

template <class T>
__global__ void scale_rows(const T* __restrict__ values, const double* __restrict__ s, int64_t cols,
                           int64_t n, double* __restrict__ to) {
    BB_FOR (i, n) to[i] = sqrt(s[i / cols]) * double(values[i]);
}

// Copies the half above the diagonal (row-major) to the other half.
__global__ void __launch_bounds__(kTile* kTileRows) mirror(double* gram, int64_t d) {
    __shared__ double tile[kTile][kTile + 1];
    const int64_t row = int64_t(blockIdx.y) * kTile, col = int64_t(blockIdx.x) * kTile;
    if (col < row) return;
    for (int k = threadIdx.y; k < kTile; k += kTileRows)
        if (row + k < d && col + threadIdx.x < d)
            tile[k][threadIdx.x] = gram[(row + k) * d + col + threadIdx.x];
    __syncthreads();
    for (int k = threadIdx.y; k < kTile; k += kTileRows)
        if (col + k < d && row + threadIdx.x < d && col + k > row + threadIdx.x)
            gram[(col + k) * d + row + threadIdx.x] = tile[threadIdx.x][k];
}

}  // namespace

void Dense::scale_rows_to(const double* s, int64_t first, int64_t count, double* to) {
    by_type(type_, [&](auto t) {
        using T = decltype(t);
        const int64_t n = count * cols_;
        scale_rows<<<blocks_for(n), 256, 0, memory_->stream>>>(
            reinterpret_cast<const T*>(values_.data()) + first * cols_, s + first, cols_, n, to);
    });
    BB_CHECK(cudaGetLastError());
}

WeightedGram::WeightedGram(Memory& memory, std::shared_ptr<void>& blas, int64_t rows, int64_t cols,
                           const double* s)
    : memory_(memory),
      blas_(blas ? blas : blas = std::make_shared<Blas>(memory.stream)),
      cols_(cols),
      step_(std::clamp<int64_t>(kChunkBytes / (8 * cols), 1, rows)),
      weights_(memory, rows),
      chunk_(memory, step_ * cols),
      sum_(memory, cols * cols) {
    BB_CHECK(cudaMemcpyAsync(weights_.data(), s, size_t(rows) * 8, cudaMemcpyHostToDevice, memory.stream));
    BB_CHECK(cudaMemsetAsync(sum_.data(), 0, size_t(cols * cols) * 8, memory.stream));
}

void WeightedGram::add(RowBlock& block, int64_t first) {
    const double one = 1.0;
    const int d = int(cols_);
    for (int64_t row = 0; row < block.rows(); row += step_) {
        const int64_t count = std::min(step_, block.rows() - row);
        block.scale_rows_to(weights_.data() + first, row, count, chunk_.data());
        // In cuBLAS's column-major order, a chunk's rows are columns, and the half below the diagonal is the
        // row-major half above it.
        blas_check(blas_calls->syrk(static_cast<const Blas*>(blas_.get())->handle, kLower, kPlain, d,
                                    int(count), &one, chunk_.data(), d, &one, sum_.data(), d),
                   "cublasDsyrk");
    }
}

void WeightedGram::to_host(double* gram) {
    const unsigned tiles = unsigned((cols_ + kTile - 1) / kTile);
    mirror<<<dim3(tiles, tiles), dim3(kTile, kTileRows), 0, memory_.stream>>>(sum_.data(), cols_);
    BB_CHECK(cudaGetLastError());
    const size_t bytes = size_t(cols_ * cols_) * 8;
    BB_CHECK(cudaMemcpyAsync(gram, sum_.data(), bytes, cudaMemcpyDeviceToHost, memory_.stream));
    BB_CHECK(cudaStreamSynchronize(memory_.stream));
}

}  // namespace bmrm

using namespace bmrm;

extern "C" {

bb_status bb_blas_load(const char* library) {
    return guarded([&] {
        blas_calls.load(library, [](const Library& found, BlasCalls& calls) {
            found.symbol(calls.create, "cublasCreate_v2");
            found.symbol(calls.destroy, "cublasDestroy_v2");
            found.symbol(calls.set_stream, "cublasSetStream_v2");
            found.symbol(calls.syrk, "cublasDsyrk_v2");
            found.symbol(calls.text, "cublasGetStatusString");
        });
    });
}

}  // extern "C"
