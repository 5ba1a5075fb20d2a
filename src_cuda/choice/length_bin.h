// The bins of row lengths: 0 to 64 have a bin each, longer rows four per octave.
#pragma once
#include <stdint.h>

#include "api/blackbox.h"
#include "host_device.h"

namespace bmrm {

constexpr int kExactLengths = 64;

BMRM_HD int length_bin(int64_t length) {
    if (length <= kExactLengths) return length < 0 ? 0 : int(length);
#ifdef __CUDA_ARCH__
    const int octave = 63 - __clzll(length);  // at least 6
#else
    const int octave = 63 - __builtin_clzll(uint64_t(length));
#endif
    const int bin = kExactLengths + 1 + 4 * (octave - 6) + (int(length >> (octave - 2)) & 3);
    return bin < BB_LENGTH_BINS ? bin : BB_LENGTH_BINS - 1;
}

}  // namespace bmrm
