// Instructions of the tensor cores, by the layouts of fragments that the PTX ISA gives.
#pragma once
#include <cuda_fp16.h>

namespace bmrm {

inline void load_matrices(const void* shared, uint32_t (&out)[4]) {
    const int lane = emulator::current % 32;
    for (int m = 0; m < 4; m++) {
        const auto address = emulator::shuffle(reinterpret_cast<uintptr_t>(shared), m * 8 + lane / 4);
        memcpy(&out[m], reinterpret_cast<const char*>(address) + 4 * (lane % 4), 4);
    }
}

// Number `which` of a register of two.
inline float part_of(uint32_t both, int which) {
    return __half2float({uint16_t(which ? both >> 16 : both & 0xFFFFu)});
}

inline void multiply_add(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    static uint32_t fragments[2][1024][6];
    const int lane = emulator::current % 32, warp = emulator::current / 32 * 32;
    const int turn = emulator::threads[size_t(emulator::current)].generation;
    const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    memcpy(fragments[turn][emulator::current], mine, sizeof mine);
    emulator::shuffle(0, 0);  // all lanes are here
    for (int s = 0; s < 4; s++) {
        const int row = lane / 4 + s / 2 * 8, column = lane % 4 * 2 + s % 2;
        for (int k = 0; k < 16; k++) {
            const uint32_t* of_row = fragments[turn][warp + row % 8 * 4 + k % 8 / 2];
            const uint32_t* of_column = fragments[turn][warp + column * 4 + k % 8 / 2];
            sums[s] += part_of(of_row[row / 8 + k / 8 * 2], k % 2) * part_of(of_column[4 + k / 8], k % 2);
        }
    }
}

}  // namespace bmrm
