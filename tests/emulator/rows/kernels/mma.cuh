// Instructions of the tensor cores, by the layouts of fragments that the PTX ISA gives.
#pragma once
#include <cuda_fp16.h>

namespace bmrm {

inline void load_matrices(const void* shared, uint32_t (&out)[4]) {
    const void* const* rows = emulator::meet(emulator::MATRICES, ~0u, shared);
    for (int m = 0; m < 4; m++) {
        const void* row = emulator::shown<const void*>(rows, m * 8 + emulator::lane / 4);
        memcpy(&out[m], static_cast<const char*>(row) + 4 * (emulator::lane % 4), 4);
    }
}

// Number `which` of a register of two.
inline float part_of(uint32_t both, int which) {
    return __half2float({uint16_t(which ? both >> 16 : both & 0xFFFFu)});
}

inline void multiply_add(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    struct Fragments {
        uint32_t a[4], b[2];
    };
    const Fragments mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    const void* const* seen = emulator::meet(emulator::MULTIPLY, ~0u, mine);
    const int lane = emulator::lane;
    for (int k = 0; k < 16; k++) {
        const auto of_rows = emulator::shown<Fragments>(seen, lane / 4 * 4 + k % 8 / 2);
        for (int column = 0; column < 2; column++) {
            const auto of_column = emulator::shown<Fragments>(seen, (lane % 4 * 2 + column) * 4 + k % 8 / 2);
            const float factor = part_of(of_column.b[k / 8], k % 2);
            for (int row = 0; row < 2; row++)
                sums[row * 2 + column] += part_of(of_rows.a[row + k / 8 * 2], k % 2) * factor;
        }
    }
}

}  // namespace bmrm
