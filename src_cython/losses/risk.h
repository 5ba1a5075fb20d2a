// The empirical risk of scalar losses and its derivatives, on the CPU.
//
// Margins lie on a line, u_i = z_i + t dz_i + b: the solver needs no others. There are three passes:
//   slope: sum s_i l'(u_i) dz_i and sum s_i l'(u_i), which a line search needs;
//   cut:   r_i = s_i l'(u_i), and for each block of rows sum s_i l(u_i) and sum r_i;
//   bend:  r_i = s_i l''(u_i), and their sum.
// Rows are split into chunks that never cross a block and never depend on the number of threads. Chunk sums
// are added in order, so results are bit-identical for any number of threads.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/team.h"
#include "conjugates.h"
#include "losses.h"
#include "rounded.h"

namespace bmrm {

struct Rows {
    const double* z;
    const double* dz;
    const double* y;
    const double* s;  // weights, or null for equal ones
    double* r;        // cut and bend only: out, the derivatives
    double t, b;
    double scale;  // 1 / sum of weights
    LossParameter parameter;
};

using ChunkKernel = void (*)(const Rows&, int64_t, int64_t, double*);

struct Kernels {
    ChunkKernel slope[2];  // without and with weights
    ChunkKernel cut[2];
    ChunkKernel bend[2];
};

// Number of rows per chunk, whose sums are added in order.
constexpr int64_t chunk_rows = 2048;
// Number of rows per tile of a chunk, which stays in the first level of cache.
constexpr int64_t tile_rows = 128;
// Minimum number of chunks that pays for a team of threads.
constexpr int64_t worth_a_team = 32;

// Sum of eight lanes.
inline double fold(const double* lane) {
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

namespace baseline {
#include "losses/risk_kernels.inl"
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define BMRM_X86_LEVELS 1
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
namespace level3 {
#include "losses/risk_kernels.inl"
}
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4,prefer-vector-width=512")
namespace level4 {
#include "losses/risk_kernels.inl"
}
#pragma GCC pop_options
#endif

#ifdef BMRM_X86_LEVELS
// The highest compiled level that this processor supports.
inline int level() {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return 4;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 3 : 1;
}
#endif

inline const Kernels& kernels_for(const int loss, const Rows& rows) {
    const bool rounded = rows.parameter.width > 0.0;
#ifdef BMRM_X86_LEVELS
    if (level() == 4) return level4::kernels[loss][rounded];
    if (level() == 3) return level3::kernels[loss][rounded];
#endif
    return baseline::kernels[loss][rounded];
}

// Runs `kernel` over the rows [starts[p], starts[p+1]) of every block p and stores its totals in sums[2 p]
// and sums[2 p + 1]. Several threads work on at least `worth_a_team` chunks: a chunk takes about a
// microsecond, waking a thread takes several.
template <class SomeRows>
void for_blocks(void (*const kernel)(const SomeRows&, int64_t, int64_t, double*), const SomeRows& rows,
                const int64_t* starts, const int64_t blocks, const int threads, double* sums,
                const int64_t chunk_rows, const int64_t worth_a_team) {
    struct Chunk {
        int64_t from, to, block;
    };
    std::vector<Chunk> chunks;
    for (int64_t p = 0; p < blocks; ++p)
        for (int64_t from = starts[p]; from < starts[p + 1]; from += chunk_rows)
            chunks.push_back(
                {from, from + chunk_rows < starts[p + 1] ? from + chunk_rows : starts[p + 1], p});
    std::vector<double> parts(2 * chunks.size());
    const int64_t count = int64_t(chunks.size()), each = std::max<int64_t>(1, worth_a_team / 8);
    for_each_task((count + each - 1) / each, count < worth_a_team ? 1 : threads, [&](int64_t t) {
        for (int64_t c = t * each; c < std::min(count, (t + 1) * each); ++c)
            kernel(rows, chunks[c].from, chunks[c].to, &parts[2 * c]);
    });
    for (int64_t p = 0; p < 2 * blocks; ++p) sums[p] = 0.0;
    for (int64_t c = 0; c < count; ++c) {
        sums[2 * chunks[c].block] += parts[2 * c];
        sums[2 * chunks[c].block + 1] += parts[2 * c + 1];
    }
}

inline void risk_slope(const int loss, const Rows& rows, const int64_t m, const int threads, double* sums) {
    const int64_t starts[2] = {0, m};
    for_blocks(kernels_for(loss, rows).slope[rows.s != nullptr], rows, starts, 1, threads, sums, chunk_rows,
               worth_a_team);
    sums[0] *= rows.scale;
    sums[1] *= rows.scale;
}

inline void risk_cut(const int loss, const Rows& rows, const int64_t* starts, const int64_t blocks,
                     const int threads, double* sums) {
    for_blocks(kernels_for(loss, rows).cut[rows.s != nullptr], rows, starts, blocks, threads, sums,
               chunk_rows, worth_a_team);
}

// Stores the sum of the second derivatives in sums[0].
inline void risk_bend(const int loss, const Rows& rows, const int64_t m, const int threads, double* sums) {
    const int64_t starts[2] = {0, m};
    for_blocks(kernels_for(loss, rows).bend[rows.s != nullptr], rows, starts, 1, threads, sums, chunk_rows,
               worth_a_team);
}

// For a loss that is linear except for kinks: the slope of each row and, kink by kink, the places and jumps
// (rounded.h); slopes and jumps include the weights. Returns the number of kinks per row; writes nothing if
// `slope` is null.
template <class Loss>
int pieces_of(const Rows& rows, const int64_t m, double* slope, double* places, double* jumps) {
    using P = Pieces<Loss>;
    if constexpr (P::kinks > 0) {
        if (!slope) return P::kinks;
        for (int64_t i = 0; i < m; ++i) {
            const double s = rows.s ? rows.s[i] * rows.scale : rows.scale;
            slope[i] = s * P::slope(rows.y[i], rows.parameter);
            for (int k = 0; k < P::kinks; ++k) {
                places[k * m + i] = P::place(k, rows.y[i], rows.parameter);
                jumps[k * m + i] = s * P::jump;
            }
        }
    }
    return P::kinks;
}

inline int risk_pieces(const int loss, const Rows& rows, const int64_t m, double* slope, double* places,
                       double* jumps) {
#define BMRM_PIECES(name, Loss) pieces_of<Loss>,
    static constexpr int (*of[])(const Rows&, int64_t, double*, double*,
                                 double*) = {BMRM_LOSSES(BMRM_PIECES)};
#undef BMRM_PIECES
    return of[loss](rows, m, slope, places, jumps);
}

// The conjugate of each row, including its weight (conjugates.h); false for a loss without a simple
// conjugate.
template <class Loss>
bool conjugates_of(const Rows& rows, const int64_t m, Conjugate* out) {
    if constexpr (Dual<Loss>::known) {
        for (int64_t i = 0; i < m; ++i) {
            const double s = rows.s ? rows.s[i] * rows.scale : rows.scale;
            out[i] = Dual<Loss>::of(rows.y[i], rows.parameter).weighted(s);
        }
    }
    return Dual<Loss>::known;
}

inline bool risk_conjugates(const int loss, const Rows& rows, const int64_t m, Conjugate* out) {
#define BMRM_CONJUGATES(name, Loss) conjugates_of<Loss>,
    static constexpr bool (*of[])(const Rows&, int64_t, Conjugate*) = {BMRM_LOSSES(BMRM_CONJUGATES)};
#undef BMRM_CONJUGATES
    return of[loss](rows, m, out);
}

}  // namespace bmrm
