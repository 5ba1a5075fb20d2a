#include <cstdio>

#include "runtime/device_memory.h"

namespace bmrm {

namespace {
thread_local std::string last_failure;

bool stays(cudaError_t error) {
    return error == cudaErrorIllegalAddress || error == cudaErrorLaunchFailure || error == cudaErrorAssert ||
           error == cudaErrorIllegalInstruction || error == cudaErrorMisalignedAddress ||
           error == cudaErrorInvalidAddressSpace || error == cudaErrorInvalidPc ||
           error == cudaErrorECCUncorrectable || error == cudaErrorHardwareStackError ||
           error == cudaErrorLaunchTimeout;
}
}  // namespace

void remember_failure(const char* text) noexcept {
    try {
        last_failure = text;
    } catch (...) {
        last_failure.clear();
    }
}

std::string size_text(double bytes) {
    const char* units[] = {"B", "kB", "MB", "GB", "TB"};
    int unit = 0;
    while (bytes >= 1000 && unit < 4) {
        bytes /= 1000;
        unit++;
    }
    char text[32];
    snprintf(text, sizeof text, bytes < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

void check_cuda(cudaError_t error, const char* call) {
    if (error == cudaSuccess) return;
    cudaGetLastError();  // clears an error that is not sticky, for the next call
    const std::string what = cudaGetErrorString(error);
    if (stays(error)) {
        static std::string first;  // written once, by the first failure
        static const bool reported = (first = std::string(call) + ": " + what, true);
        static bool again = false;
        (void)reported;
        const std::string text = again ? "the device failed earlier in " + first + "; start a new process"
                                       : first + "; this process can no longer use the device";
        again = true;
        throw Failure(BB_CUDA, text);
    }
    if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver ||
        error == cudaErrorInvalidDevice || error == cudaErrorInitializationError ||
        error == cudaErrorSystemDriverMismatch || error == cudaErrorCompatNotSupportedOnDevice ||
        error == cudaErrorStubLibrary)
        throw Failure(BB_NO_DEVICE, what);
    if (error == cudaErrorMemoryAllocation) throw Failure(BB_MEMORY, std::string(call) + ": " + what);
    throw Failure(BB_CUDA, std::string(call) + ": " + what);
}

Memory::Memory(int device) : device(device) {
    OnDevice scope(device);
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    BB_CHECK(cudaMemPoolCreate(&pool_, &properties));
    // Freed memory stays in the pool for the next step of the preparation; trim() ends that.
    uint64_t keep = UINT64_MAX;
    const cudaError_t error = cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep);
    const cudaError_t made = error ? error : cudaStreamCreateWithFlags(&own_, cudaStreamNonBlocking);
    if (made != cudaSuccess) {
        cudaMemPoolDestroy(pool_);
        BB_CHECK(made);
    }
    stream = own_;
}

void Memory::settle() noexcept {
    cudaDeviceSynchronize();
    stream = own_;
}

Memory::~Memory() {
    int before = 0;
    cudaGetDevice(&before);
    cudaSetDevice(device);
    cudaStreamSynchronize(own_);
    cudaStreamDestroy(own_);
    cudaMemPoolDestroy(pool_);
    cudaSetDevice(before);
}

void* Memory::take(int64_t bytes) {
    if (bytes < 16) bytes = 16;
    void* out = nullptr;
    cudaError_t error = cudaErrorMemoryAllocation;
    if (limit_ == 0 || used_ + bytes <= limit_)
        error = cudaMallocFromPoolAsync(&out, size_t(bytes), pool_, stream);
    if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        size_t free_bytes = 0, total = 0;
        cudaMemGetInfo(&free_bytes, &total);
        std::string text = "device " + std::to_string(device) + ": " + size_text(double(bytes)) +
                           " more are needed, " + size_text(double(used_)) + " are in use by this matrix, ";
        text += limit_ && used_ + bytes > limit_
                    ? "the limit is " + size_text(double(limit_))
                    : size_text(double(free_bytes)) + " of " + size_text(double(total)) + " are free";
        throw Failure(BB_MEMORY, text);
    }
    check_cuda(error, "cudaMallocFromPoolAsync");
    used_ += bytes;
    if (used_ > peak_) peak_ = used_;
    return out;
}

void Memory::give(void* pointer, int64_t bytes) noexcept {
    used_ -= bytes < 16 ? 16 : bytes;
    cudaFreeAsync(pointer, stream);
}

void Memory::trim() noexcept {
    cudaStreamSynchronize(stream);
    cudaMemPoolTrimTo(pool_, 0);
}

}  // namespace bmrm

extern "C" const char* bb_last_error(void) { return bmrm::last_failure.c_str(); }
