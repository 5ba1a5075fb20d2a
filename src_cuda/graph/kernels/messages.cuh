// Messages of walks, in float32 or in float16.
//
// float16 has 11 bits and a range of 2^40 only, so messages are multiplied by a power of two, which brings
// the largest message of the step before to 2^11 .. 2^12.  A step may have messages that are 16 times as
// large; larger ones are clipped.  So the error of a message is at most 2^-11 of it, or 2^-36 of the largest.
// No proof depends on it: the next exact step computes the residual in float64.  The largest message does not
// depend on the order in which it is found.
#pragma once
#include <cuda_fp16.h>
#include <stdint.h>

namespace bmrm {

// The largest message of the last steps, as the bits of a float, whose order is that of the numbers.  A pass
// that writes messages finds the largest of them, with the factor that follows from the pass before, while
// the product has messages with the factor from the pass before that; and one is cleared for the next pass.
constexpr int kPeaks = 4;

struct Peaks {
    uint32_t* at;
    int turn;  // of the pass, from 0 to kPeaks - 1

    __device__ __forceinline__ uint32_t before(int passes) const {
        return at[(turn + kPeaks - passes) % kPeaks];
    }
    __device__ __forceinline__ uint32_t* mine() const { return at + turn; }
    __device__ __forceinline__ uint32_t* next() const { return at + (turn + 1) % kPeaks; }
};

constexpr int kPeakExponent = 11;        // of the largest message of the step before
constexpr int kMaxFactorExponent = 120;  // so that a factor and its inverse are normal numbers
constexpr float kMaxHalf = 65504.0f;

// Returns the exponent of the factor of messages whose largest was `peak` in the pass before.
__device__ __forceinline__ int factor_exponent(uint32_t peak) {
    const int exponent = kPeakExponent - (int(peak >> 23) - 127);
    return max(-kMaxFactorExponent, min(kMaxFactorExponent, exponent));
}

__device__ __forceinline__ float power_of_two(int exponent) {
    return __uint_as_float(uint32_t(exponent + 127) << 23);
}

// How a pass writes messages of type Z: `put` is called for each, `end` by all threads of the block.
template <class Z>
struct Messages;

template <>
struct Messages<float> {
    static constexpr float product_factor = 1.0f;
    __device__ __forceinline__ explicit Messages(const Peaks&) {}
    __device__ __forceinline__ void put(float* to, float value) { *to = value; }
    __device__ __forceinline__ void end() {}
};

template <>
struct Messages<__half> {
    const Peaks peaks;
    const float factor, product_factor;
    float largest = 0.0f;

    __device__ __forceinline__ explicit Messages(const Peaks& peaks)
        : peaks(peaks),
          factor(power_of_two(factor_exponent(peaks.before(1)))),
          product_factor(power_of_two(-factor_exponent(peaks.before(2)))) {}
    __device__ __forceinline__ void put(__half* to, float value) {
        *to = __float2half_rn(fmaxf(-kMaxHalf, fminf(kMaxHalf, value * factor)));
        see(value);
    }
    __device__ __forceinline__ void see(float value) { largest = fmaxf(largest, fabsf(value)); }
    __device__ __forceinline__ void end() {
#pragma unroll
        for (int apart = 16; apart; apart /= 2)
            largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, apart));
        if (threadIdx.x % 32 == 0) atomicMax(peaks.mine(), __float_as_uint(largest));
        if (blockIdx.x == 0 && threadIdx.x == 0) *peaks.next() = 0;
    }
};

}  // namespace bmrm
