// All files are compiled for the same architectures, so the driver's answer for the kernel here holds for
// each.
#include <algorithm>
#include <atomic>
#include <cstdint>

#include "runtime/built_for.h"
#include "runtime/device_memory.h"

namespace bmrm {

namespace {

constexpr int kArchitectures[] = {__CUDA_ARCH_LIST__};  // ten times the numbers that people use

__global__ void nothing() {}

std::string capability(int number) { return std::to_string(number / 10) + "." + std::to_string(number % 10); }

std::string built_for() {
    std::string text;
    for (const int architecture : kArchitectures)
        text += (text.empty() ? "" : ", ") + capability(architecture / 10);
    return text;
}

}  // namespace

void expect_code(const bb_device& device) {
    // A bit for each device that has code; further ones are asked again.
    static std::atomic<uint64_t> found{0};
    const uint64_t bit = device.id < 64 ? uint64_t(1) << device.id : 0;
    if (found & bit) return;
    const OnDevice scope(device.id);
    cudaFuncAttributes attributes;
    const cudaError_t error = cudaFuncGetAttributes(&attributes, nothing);
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction ||
        error == cudaErrorUnsupportedPtxVersion || error == cudaErrorJitCompilerNotFound) {
        cudaGetLastError();
        const int number = device.major * 10 + device.minor;
        throw Failure(BB_NO_CODE, "device " + std::to_string(device.id) + ", " + device.name +
                                      ", has compute capability " + capability(number) +
                                      ", and this build has code for " + built_for() + " (" +
                                      cudaGetErrorString(error) +
                                      "); build with BMRM_CUDA_ARCH=" + std::to_string(number));
    }
    BB_CHECK(error);
    found |= bit;
}

}  // namespace bmrm

extern "C" int32_t bb_built_for(int32_t* architectures, int32_t capacity) {
    const int32_t count = int32_t(std::size(bmrm::kArchitectures));
    for (int32_t i = 0; i < std::min(count, capacity); i++) architectures[i] = bmrm::kArchitectures[i] / 10;
    return count;
}
