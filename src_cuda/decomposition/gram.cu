// The Gram matrix of dense rows: up to 64 columns by one pass over the rows, more in strips of 32, of which
// each pair is one pass.
#include <algorithm>

#include "api/gram.h"
#include "decomposition/kernels/gram.cuh"
#include "rows/resident_rows.h"
#include "runtime/partial_sums.cuh"

using namespace bmrm;

namespace {

constexpr int kStripBlocks = 4;          // blocks of 8 columns of a strip, if there are several
constexpr int64_t kMaxOneStrip = 64;     // columns up to which all sums of a pass stay in registers
constexpr int64_t kOneStripParts = 264;  // two for each multiprocessor of an H100; the same on all devices
constexpr int64_t kAllParts = 1056;      // times the pairs of strips
constexpr int64_t kMinPartGroups = 64;   // groups of eight rows of a part, eight for each warp

struct GramPlan {
    int blocks, strips, pairs;
    int64_t parts;

    GramPlan(int64_t n, int64_t d) {
        blocks = 1;
        while (blocks < 8 && 8 * blocks < d) blocks *= 2;
        if (d > kMaxOneStrip) blocks = kStripBlocks;
        strips = int((d + 8 * blocks - 1) / (8 * blocks));
        pairs = strips * (strips - 1) / 2;
        const int64_t most =
            blocks == 8 ? kOneStripParts : std::max<int64_t>(4, kAllParts / (strips + pairs));
        parts = std::clamp<int64_t>(groups(n) / kMinPartGroups, 1, most);
    }
    static int64_t groups(int64_t n) { return (n + kGramRows - 1) / kGramRows; }
    int64_t strip_numbers() const { return gram_numbers(blocks); }
    int64_t pair_numbers() const { return pairs ? cross_numbers(blocks) : 0; }
    int64_t numbers() const { return strips * strip_numbers() + pairs * pair_numbers(); }
};

template <class F>
void with_blocks(int blocks, F&& f) {
    if (blocks == 1) return f(std::integral_constant<int, 1>());
    if (blocks == 2) return f(std::integral_constant<int, 2>());
    if (blocks == 4) return f(std::integral_constant<int, 4>());
    f(std::integral_constant<int, 8>());
}

// Whether threads can read all columns of a strip in pieces of 16 bytes, or of the strip's share of a thread.
bool is_whole(const void* values, int64_t d, int64_t value_bytes, int blocks) {
    const int64_t piece = std::min<int64_t>(16, blocks * value_bytes);
    return d % (8 * blocks) == 0 && reinterpret_cast<uintptr_t>(values) % size_t(piece) == 0;
}

template <class T>
void queue_passes(bb_dense_rows& held, const GramPlan& plan, const GramRows<T>& rows, int grid,
                  double* strips, double* pairs) {
    const auto blocks_of = [&](int64_t items) { return dim3(unsigned(grid ? grid : items)); };
    const bool whole = is_whole(rows.values, rows.d, sizeof(T), plan.blocks);
    with_blocks(plan.blocks, [&](auto blocks) {
        constexpr int kBlocks = decltype(blocks)::value;
        const auto weighted = whole ? gram_pass<T, kBlocks, true, true> : gram_pass<T, kBlocks, false, true>;
        const auto plain = whole ? gram_pass<T, kBlocks, true, false> : gram_pass<T, kBlocks, false, false>;
        const NextLaunch launch(blocks_of(plan.parts * plan.strips), kGramWarps * 32,
                                gram_numbers(kBlocks) * 8, held.memory.stream, false);
        launch(rows.weights ? weighted : plain, rows, plan.strips, strips);
    });
    if (!plan.pairs) return;
    const auto kernel = whole ? cross_pass<T, kStripBlocks, true> : cross_pass<T, kStripBlocks, false>;
    const NextLaunch launch(blocks_of(plan.parts * plan.pairs), kGramWarps * 32,
                            cross_numbers(kStripBlocks) * 8, held.memory.stream, false);
    launch(kernel, rows, plan.pairs, pairs);
}

// Writes a block of sums into the matrix and its other half: `left` and `right` are the first columns of the
// block, of which each `blocks`-th belongs to it.
void unpack_block(const double* from, int blocks, int64_t left, int64_t right, int64_t d, double* gram) {
    for (int64_t g = 0, f = left; g < 8 && f < d; g++, f += blocks)
        for (int64_t t = 0, h = right; t < 8 && h < d; t++, h += blocks)
            gram[f * d + h] = gram[h * d + f] = from[g * 8 + t];
}

// Writes the sums of a strip into the matrix.
void unpack_strip(const double* from, int blocks, int64_t origin, int64_t d, double* gram, double* totals) {
    for (int p = 0; p < block_pairs(blocks); p++) {
        const BlockPair pair = block_pair(blocks, p);
        unpack_block(from + 128 * p, blocks, origin + pair.upper, origin + pair.column, d, gram);
        if (pair.lower >= 0)
            unpack_block(from + 128 * p + 64, blocks, origin + pair.lower, origin + pair.column, d, gram);
    }
    const double* sums = from + gram_numbers(blocks) - 8 * blocks;
    for (int b = 0; b < blocks; b++)
        for (int64_t g = 0, f = origin + b; g < 8 && f < d; g++, f += blocks) totals[f] = sums[8 * b + g];
}

// Writes the products of two strips into the matrix.
void unpack_strips(const double* from, int blocks, int64_t left, int64_t right, int64_t d, double* gram) {
    for (int a = 0; a < blocks; a++)
        for (int b = 0; b < blocks; b++)
            unpack_block(from + (a * blocks + b) * 64, blocks, left + a, right + b, d, gram);
}

}  // namespace

extern "C" {

bb_status bb_gram(bb_dense_rows* rows, const double* shift, int32_t grid, double* gram, double* totals) {
    return on_handle(rows, [&](bb_dense_rows& held) {
        const int64_t n = held.rows.n, d = held.rows.d;
        const GramPlan plan(n, d);
        Memory& memory = held.memory;
        const int64_t of_strips = plan.strips * plan.strip_numbers(),
                      of_pairs = plan.pairs * plan.pair_numbers();
        reserve(memory, held.work, d + plan.parts * plan.numbers());
        double *const shifts = held.work.data(), *const strips = shifts + d,
                      *const pairs = strips + plan.parts * of_strips;
        double* const origin = held.given.reserve(d);
        std::copy_n(shift, d, origin);
        BB_CHECK(cudaMemcpyAsync(shifts, origin, size_t(d) * 8, cudaMemcpyDefault, memory.stream));
        // The few results are written to the memory of the host, which is faster than a copy.
        double* const found = held.found.reserve(plan.numbers());
        held.rows.with([&](auto* values) {
            using T = std::remove_const_t<std::remove_pointer_t<decltype(values)>>;
            const GramRows<T> given = {values, held.weights.data(), shifts, n, d, plan.parts};
            queue_passes(held, plan, given, grid, strips, pairs);
        });
        add_up(strips, plan.parts, of_strips, of_strips, found, memory.stream, false);
        if (of_pairs) add_up(pairs, plan.parts, of_pairs, of_pairs, found + of_strips, memory.stream, false);
        BB_CHECK(cudaStreamSynchronize(memory.stream));
        for (int s = 0; s < plan.strips; s++)
            unpack_strip(found + s * plan.strip_numbers(), plan.blocks, int64_t(s) * 8 * plan.blocks, d, gram,
                         totals);
        for (int p = 0; p < plan.pairs; p++) {
            int left, right;
            strips_of(p, left, right);
            unpack_strips(found + of_strips + p * plan.pair_numbers(), plan.blocks,
                          int64_t(left) * 8 * plan.blocks, int64_t(right) * 8 * plan.blocks, d, gram);
        }
    });
}

int64_t bb_gram_additions(int64_t n, int64_t d) {
    const GramPlan plan(n, d);
    const int64_t groups = (GramPlan::groups(n) + plan.parts - 1) / plan.parts;
    return (groups + kGramWarps - 1) / kGramWarps * kGramRows + kGramWarps + plan.parts;
}

int64_t bb_gram_bytes(int64_t n, int64_t d) {
    const GramPlan plan(n, d);
    return 8 * (d + plan.parts * plan.numbers());
}

}  // extern "C"
