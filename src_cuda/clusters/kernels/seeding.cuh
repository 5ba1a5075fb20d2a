// The passes of k-means++: what they have in common, and how shares are summed.  candidate_distances.cuh and
// candidate_draws.cuh have the kernels.
//
// A row's squared distance is one of float32, added up in the order of the columns, as on the CPU.  Its share
// is the least one times the weight, rounded.  Shares are added in four levels, all but the first of them in
// order: the kStripRows rows of a strip (eight sums of every eighth row, then these by pairs), the strips of
// a panel, the panels of a part, all parts.  bmrm/unsupervised/clusters/shared_clusters.py draws by the same
// sums, so that rows chosen here are those that single passes choose, wherever the rows are.
//
// choose_centers (bmrm/unsupervised/clusters/seeding.py) as a chain of launches: for each centre
// `measure_narrow` or `measure_wide` reads all rows once, and `choose_and_draw` takes the best candidate and
// draws the next ones. The distances to a new centre are computed again with those to the next candidates,
// since that reads nothing that is not read anyway.
#pragma once
#include "api/clusters.h"
#include "clusters/kernels/centers.cuh"

namespace bmrm {

constexpr int kStripRows = 64;
constexpr int kPanelStrips = BB_PANEL_ROWS / kStripRows;
constexpr int kMaxPoints = 1 + BB_MAX_TRIALS;  // of a pass: the last centre, and candidates for the next
constexpr int kMaxNarrowColumns = 16;          // of rows that a thread each keeps in registers
constexpr int kNarrowRows = 256;               // that a block has at a time
constexpr int kPanelRounds = BB_PANEL_ROWS / kNarrowRows;  // of a block that has a whole panel
constexpr int kWideThreads = 64;       // of a block with one strip: a warp has half the points
constexpr int kRowBytes = 128;         // of a row that are read at a time
constexpr int kMaxSeedingParts = 128;  // of all rows, as many as on the CPU
constexpr int kDrawThreads = 128;
constexpr int kDrawTiles = 4;                                 // tiles of a strip that are read at once
constexpr int kMaxFewStrips = 256;                            // of rows whose sums a draw adds up by itself
constexpr int kFewParts = kMaxFewStrips * kStripRows / 2048;  // of such rows; a part has at least 2048 rows

// A pass over all rows.  Sums of point c begin at c times the number of all strips, panels or parts.
struct SeedingPass {
    int64_t n, d;
    Origin origin;
    const double* weights;
    float* points;  // count x d, shifted and scaled
    int count;
    bool takes;  // whether the first point becomes a centre
    int summed;  // the first point of which sums are wanted
    float* closest;
    double *strip_sums, *panel_sums, *part_sums;  // NULL: not wanted; without panels there are no parts
    int64_t strips, panels, parts, part_panels;
    unsigned* tickets;   // 0 before and after: strips of each panel that are summed, and panels of each part
    int step;            // number of the pass, from 0
    const int* stopped;  // number of passes after which nothing is left to do, or 0; or NULL
};

// What is chosen after a pass, and drawn for the next one.
struct SeedingChoice {
    const int64_t* rows;  // of the points of the pass
    int64_t* next_rows;   // of the next pass, after the row of the centre
    float* next_points;
    const double* uniform;  // in [0, 1), one for each block
    int trials;             // rows to draw
    int64_t* chosen;        // where the row goes
    int64_t* found;         // the number of rows chosen so far
    int* stopped;           // gets the number of passes if all rows are at centres
};

__device__ __forceinline__ double fresh_sum(const double* at) { return __ldcg(at); }  // of another block

// Adds `count` numbers in order.
__device__ __forceinline__ double add_in_order(const double* values, int64_t count) {
    double sum = 0;
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        double some[8];
#pragma unroll
        for (int k = 0; k < 8; k++) some[k] = fresh_sum(values + i + k);
#pragma unroll
        for (int k = 0; k < 8; k++) sum += some[k];
    }
    for (; i < count; i++) sum += fresh_sum(values + i);
    return sum;
}

// Whether this block is the last of `count` to come here for a ticket; what the others wrote before is then
// visible.  Called by all threads.
__device__ __forceinline__ bool comes_last(unsigned* ticket, int64_t count) {
    __shared__ int last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(ticket, 1u) == unsigned(count - 1);
        if (last) *ticket = 0;
    }
    __syncthreads();
    const bool mine = last;
    __threadfence();
    __syncthreads();
    return mine;
}

// Adds up STRIPS strips from `first` on.  least: of each point, for these rows; row_weights: of the rows;
// sums: also gets the sums of point c from `c * stride` on.
template <int STRIPS>
__device__ __forceinline__ void sum_strips(const SeedingPass& pass, int64_t first, const float* least,
                                           const double* row_weights, double* sums, int stride) {
    constexpr int kRows = STRIPS * kStripRows, kLanes = 8;
    const int points = pass.count - pass.summed, tasks = points * STRIPS * kLanes;
    __syncthreads();
    for (int base = 0; base < tasks; base += int(blockDim.x)) {
        const int task = base + int(threadIdx.x), lane = task % kLanes, strip = task / kLanes % STRIPS;
        const int c = pass.summed + task / (kLanes * STRIPS);
        double sum = 0;
        if (task < tasks) {
#pragma unroll
            for (int i = 0; i < kStripRows / kLanes; i++) {
                const int row = strip * kStripRows + i * kLanes + lane;
                sum = __dadd_rn(sum, __dmul_rn(double(least[c * kRows + row]), row_weights[row]));
            }
        }
        for (int apart = 1; apart < kLanes; apart *= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, apart);
        if (task < tasks && lane == 0) {
            if (first + strip < pass.strips) pass.strip_sums[c * pass.strips + first + strip] = sum;
            if (sums) sums[c * stride + strip] = sum;
        }
    }
    __syncthreads();
}

// Adds up the panels of a part, after the last of them.
__device__ __forceinline__ void finish_part(const SeedingPass& pass, int64_t panel) {
    if (!pass.part_sums) return;
    const int64_t part = panel / pass.part_panels, from = part * pass.part_panels;
    const int64_t panels = min(pass.part_panels, pass.panels - from);
    if (!comes_last(pass.tickets + pass.panels + part, panels)) return;
    for (int c = pass.summed + int(threadIdx.x); c < pass.count; c += int(blockDim.x))
        pass.part_sums[c * pass.parts + part] =
            add_in_order(pass.panel_sums + c * pass.panels + from, panels);
}

// Adds up the strips of a panel, after the last block of some strips each.
__device__ __forceinline__ void finish_panel(const SeedingPass& pass, int64_t panel, int block_strips) {
    if (!pass.panel_sums) return;
    const int64_t strip = panel * kPanelStrips, strips = min(int64_t(kPanelStrips), pass.strips - strip);
    if (!comes_last(pass.tickets + panel, (strips + block_strips - 1) / block_strips)) return;
    for (int c = pass.summed + int(threadIdx.x); c < pass.count; c += int(blockDim.x))
        pass.panel_sums[c * pass.panels + panel] =
            add_in_order(pass.strip_sums + c * pass.strips + strip, strips);
    finish_part(pass, panel);
}

// Whether an earlier pass has found that nothing is left to do.  Blocks that draw after the same pass, one of
// which writes that, find it themselves: all threads of a block have to agree.
__device__ __forceinline__ bool has_stopped(const SeedingPass& pass) {
    if (!pass.stopped) return false;
    const int after = __ldcg(pass.stopped);
    return after && after <= pass.step;
}

}  // namespace bmrm
