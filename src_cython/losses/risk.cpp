#include "losses/risk.h"

#include <algorithm>
#include <vector>

#include "common/team.h"
#include "losses/kernels.h"

namespace bmrm {
namespace {

// Minimum number of chunks that pays for a team of threads.
constexpr int64_t worth_a_team = 32;

#ifdef BMRM_X86_LEVELS
// The highest compiled level that this processor supports.
int level() {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
        return 4;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 3 : 1;
}
#endif

const ScalarKernels& scalar_kernels() {
#ifdef BMRM_X86_LEVELS
    if (level() == 4) return level4::scalar_kernels;
    if (level() == 3) return level3::scalar_kernels;
#endif
    return baseline::scalar_kernels;
}

const ClassTables& class_tables() {
#ifdef BMRM_X86_LEVELS
    if (level() == 4) return level4::class_tables;
    if (level() == 3) return level3::class_tables;
#endif
    return baseline::class_tables;
}

const Kernels& kernels_of(const int loss, const Rows& rows) {
    return scalar_kernels().of[loss][rows.parameter.width > 0.0];
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

}  // namespace

void risk_slope(const int loss, const Rows& rows, const int64_t m, const int threads, double* sums) {
    const int64_t starts[2] = {0, m};
    for_blocks(kernels_of(loss, rows).slope[rows.s != nullptr], rows, starts, 1, threads, sums, chunk_rows,
               worth_a_team);
    sums[0] *= rows.scale;
    sums[1] *= rows.scale;
}

void risk_cut(const int loss, const Rows& rows, const int64_t* starts, const int64_t blocks,
              const int threads, double* sums) {
    for_blocks(kernels_of(loss, rows).cut[rows.s != nullptr], rows, starts, blocks, threads, sums, chunk_rows,
               worth_a_team);
}

void risk_bend(const int loss, const Rows& rows, const int64_t m, const int threads, double* sums) {
    const int64_t starts[2] = {0, m};
    for_blocks(kernels_of(loss, rows).bend[rows.s != nullptr], rows, starts, 1, threads, sums, chunk_rows,
               worth_a_team);
}

template <class Loss>
static int pieces_of(const Rows& rows, const int64_t m, double* slope, double* places, double* jumps) {
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

int risk_pieces(const int loss, const Rows& rows, const int64_t m, double* slope, double* places,
                double* jumps) {
#define BMRM_PIECES(name, Loss) pieces_of<Loss>,
    static constexpr int (*of[])(const Rows&, int64_t, double*, double*,
                                 double*) = {BMRM_LOSSES(BMRM_PIECES)};
#undef BMRM_PIECES
    return of[loss](rows, m, slope, places, jumps);
}

template <class Loss>
static bool conjugates_of(const Rows& rows, const int64_t m, Conjugate* out) {
    if constexpr (Dual<Loss>::known) {
        for (int64_t i = 0; i < m; ++i) {
            const double s = rows.s ? rows.s[i] * rows.scale : rows.scale;
            out[i] = Dual<Loss>::of(rows.y[i], rows.parameter).weighted(s);
        }
    }
    return Dual<Loss>::known;
}

bool risk_conjugates(const int loss, const Rows& rows, const int64_t m, Conjugate* out) {
#define BMRM_CONJUGATES(name, Loss) conjugates_of<Loss>,
    static constexpr bool (*of[])(const Rows&, int64_t, Conjugate*) = {BMRM_LOSSES(BMRM_CONJUGATES)};
#undef BMRM_CONJUGATES
    return of[loss](rows, m, out);
}

// Number of rows per chunk.
static int64_t class_chunk(const int64_t K) { return 8192 / K > 16 ? 8192 / K : 16; }
// Minimum number of chunks that pays for a team of threads.
constexpr int64_t class_chunks_per_team = 8;

void class_slope(const int loss, const ClassRows& rows, const int64_t m, const int threads, double* sums) {
    const int64_t starts[2] = {0, m};
    for_blocks(class_tables().classes[loss].slope, rows, starts, 1, threads, sums, class_chunk(rows.K),
               class_chunks_per_team);
    sums[0] *= rows.scale;
}

void class_cut(const int loss, const ClassRows& rows, const int64_t* starts, const int64_t blocks,
               const int threads, double* sums) {
    for_blocks(class_tables().classes[loss].cut, rows, starts, blocks, threads, sums, class_chunk(rows.K),
               class_chunks_per_team);
}

constexpr int64_t soft_chunk = 256;  // rows whose sums are added up before they are added to others
constexpr int64_t soft_parts = 64;   // maximum number of parts of the rows
constexpr int64_t soft_numbers =
    1 << 21;  // maximum number of sums that all parts may have, if there are several

void soft_pass(const SoftKind kind, const SoftRows& rows, const int64_t m, const int threads, double* sums) {
    const SoftKernel kernel = class_tables().soft[kind];
    const int64_t width = soft_width(rows), chunks = (m + soft_chunk - 1) / soft_chunk;
    int64_t parts = soft_numbers / width;
    if (parts > soft_parts) parts = soft_parts;
    if (parts > chunks) parts = chunks;
    if (parts < 1) parts = 1;
    std::vector<double> found(size_t(parts * width), 0.0), scratch(size_t(parts * width));
    const int team = m * rows.K < worth_a_team * chunk_rows ? 1 : threads;
    for_each_task(parts, team, [&](const int64_t part) {
        double *total = &found[size_t(part * width)], *here = &scratch[size_t(part * width)];
        for (int64_t c = chunks * part / parts; c < chunks * (part + 1) / parts; ++c) {
            for (int64_t k = 0; k < width; ++k) here[k] = 0.0;
            const int64_t from = c * soft_chunk, to = from + soft_chunk < m ? from + soft_chunk : m;
            kernel(rows, from, to, here);
            for (int64_t k = 0; k < width; ++k) total[k] += here[k];
        }
    });
    for (int64_t k = 0; k < width; ++k) sums[k] = 0.0;
    for (int64_t part = 0; part < parts; ++part)
        for (int64_t k = 0; k < width; ++k) sums[k] += found[size_t(part * width + k)];
    if (!rows.hessian) return;
    double* hessian = sums + 2 + rows.K;
    for (int64_t c = 0; c < rows.K; ++c)
        for (int64_t k = 0; k < c; ++k) hessian[k * rows.K + c] = hessian[c * rows.K + k];
}

}  // namespace bmrm
