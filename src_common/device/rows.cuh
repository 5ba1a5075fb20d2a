// Loads of rows.
#pragma once
#include "device/operators.cuh"

namespace bmrm {

// COUNT values side by side, in one load.
template <class T, int COUNT>
struct alignas(sizeof(T) * COUNT) Several {
    T values[COUNT];
};

// Reads COUNT neighbours in pieces of up to 16 bytes, whose addresses are multiples of their size.
template <class T, int COUNT>
__device__ __forceinline__ void read_neighbours(const T* from, T (&out)[COUNT]) {
    constexpr int kEach = sizeof(T) * COUNT <= 16 ? COUNT : 16 / int(sizeof(T));
#pragma unroll
    for (int i = 0; i < COUNT; i += kEach) {
        const auto some = *reinterpret_cast<const Several<T, kEach>*>(from + i);
#pragma unroll
        for (int k = 0; k < kEach; k++) out[i + k] = some.values[k];
    }
}

// Reads the first WIDTH columns of a row that begins at `at`, `across` bytes from one to the next; PIECE
// columns at once if they are `packed`.
template <class V, int PIECE, int WIDTH, class T>
__device__ __forceinline__ void read_row(const char* at, whole across, bool packed, T (&x)[WIDTH]) {
    if (PIECE > 1 && packed) {
#pragma unroll
        for (int f = 0; f < WIDTH; f += PIECE) {
            const auto some = *reinterpret_cast<const Several<V, PIECE>*>(at + f * sizeof(V));
#pragma unroll
            for (int k = 0; k < PIECE; k++) x[f + k] = T(some.values[k]);
        }
    } else {
#pragma unroll
        for (int f = 0; f < WIDTH; f++) x[f] = T(*reinterpret_cast<const V*>(at + f * across));
    }
}

template <int BYTES>
struct Unwritten {
    typedef uint4 Word;
};
template <>
struct Unwritten<8> {
    typedef uint2 Word;
};

// Reads 8 or 16 bytes by the path for what no thread writes.
template <class T, int COUNT>
__device__ __forceinline__ Several<T, COUNT> read_unwritten(const T* from) {
    const auto word = __ldg(reinterpret_cast<const typename Unwritten<sizeof(T) * COUNT>::Word*>(from));
    return reinterpret_cast<const Several<T, COUNT>&>(word);
}

// Reads COUNT columns of a row: `first`, first + APART, ...; what is past `last` is `last`, unless all are
// there (WHOLE).  PIECE neighbours at once if they are `packed`.
template <int APART, bool WHOLE, int PIECE, class V, int COUNT>
__device__ __forceinline__ void read_columns(const char* at, whole across, bool packed, whole first,
                                             whole last, V (&out)[COUNT]) {
    if constexpr (PIECE > 1) {
        static_assert(APART == 1 && WHOLE, "pieces are neighbours, all of which are there");
        if (packed) {
#pragma unroll
            for (int i = 0; i < COUNT; i += PIECE) {
                const auto some = read_unwritten<V, PIECE>(reinterpret_cast<const V*>(at) + first + i);
#pragma unroll
                for (int k = 0; k < PIECE; k++) out[i + k] = some.values[k];
            }
            return;
        }
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const whole column = WHOLE ? first + APART * i : least<whole>(first + APART * i, last);
        out[i] = __ldg(reinterpret_cast<const V*>(at + column * across));
    }
}

}  // namespace bmrm
