// What src_cuda/matrix calls of cuBLAS.
#include <cuda_runtime.h>

#define EXPORTED extern "C" __attribute__((visibility("default")))

struct Handle {
    cudaStream_t stream;
};

EXPORTED int cublasCreate_v2(void** out) {
    *out = new Handle{nullptr};
    return 0;
}
EXPORTED int cublasDestroy_v2(void* handle) {
    delete static_cast<Handle*>(handle);
    return 0;
}
EXPORTED int cublasSetStream_v2(void* handle, cudaStream_t stream) {
    static_cast<Handle*>(handle)->stream = stream;
    return 0;
}
// c = alpha a a' + beta c in the lower half; a is n x k, by columns.
EXPORTED int cublasDsyrk_v2(void* handle, int, int, int n, int k, const double* alpha, const double* a,
                            int lda, const double* beta, double* c, int ldc) {
    return emulator::launch(1, 1, 0, static_cast<Handle*>(handle)->stream, false,
                            [=, alpha = *alpha, beta = *beta] {
                                std::vector<double> sums(static_cast<size_t>(n));
                                for (int j = 0; j < n; j++) {
                                    sums.assign(sums.size(), 0);
                                    for (int l = 0; l < k; l++)
                                        for (int i = j; i < n; i++)
                                            sums[i] += a[i + l * lda] * a[j + l * lda];
                                    for (int i = j; i < n; i++)
                                        c[i + j * ldc] = alpha * sums[i] + (beta ? beta * c[i + j * ldc] : 0);
                                }
                            });
}
EXPORTED const char* cublasGetStatusString(int) { return "failed"; }
