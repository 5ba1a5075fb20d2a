// Accelerated ascent in the dual of a risk under lam/2 |w|^2: all rows at once, whereas
// bmrm/linear/solvers/dual_ascent.py takes one row after another.
//
//     D(r) = -|X' r|^2 / (2 lam) - sum_i f_i(r_i),        f_i the conjugate of the loss of row i.
//
// From a point ahead of the last one, each r_i moves to the maximum of a model of D that knows no other row,
// and whose curvature along row i is `bend` times that of row i alone.  This is a step of the proximal
// gradient method with Nesterov's momentum (Beck, Teboulle, SIAM J. Imaging Sci. 2 (2009) 183).  The bend is
// the smallest factor found to suffice, and may decrease again (Scheinberg, Goldfarb, Bai, Found. Comput.
// Math. 14 (2014) 389); momentum that leads down is restarted (O'Donoghue, Candes, Found. Comput. Math. 15
// (2015) 715).
//
// A step is a product with X', one with X and two short kernels, and needs nothing from the host.
#include "training/problem.h"

using namespace bmrm;

namespace {

constexpr int kReplayedSteps = 8;  // steps queued by one call

}  // namespace

void AscentVectors::reserve(Memory& memory, int64_t rows, int64_t bytes) {
    for (Array<double>* vector : {&r, &base, &base_margins, &ahead, &ahead_margins})
        *vector = Array<double>(memory, rows);
    image = Array<unsigned char>(memory, rows * bytes);
    state = Array<AscentState>(memory, 1);
}

AscentRows bb_problem::ascent_rows() {
    return {ascent.r.data(),     ascent.base.data(),          ascent.base_margins.data(),
            ascent.ahead.data(), ascent.ahead_margins.data(), matrix->row_squares.data()};
}

void bb_problem::launch_ascent(const void* kernel, void** arguments) {
    BB_CHECK(cudaLaunchKernel(kernel, dim3(blocks_across(rows, kAscentThreads)), dim3(kAscentThreads),
                              arguments, 0, stream()));
}

void bb_problem::begin_ascent(bool from_derivatives) {
    if (!ascent.r.size()) ascent.reserve(memory, rows, bytes());
    AscentRows at = ascent_rows();
    AscentState* state = ascent.state.data();
    void* r = derivatives[0].data();
    void* from = from_derivatives ? r : nullptr;
    void* arguments[] = {&risk, &from, &at, &r, &state};
    launch_ascent(kernels.begin_ascent, arguments);
    if (!from_derivatives) {
        ascent.image.fill_bytes(0);
        return;
    }
    rounded_of = nullptr;
    timed([this] { ascent_products(); }, 2);
}

void bb_problem::ascent_products() {
    matrix->apply(BB_TRANSPOSED, derivatives[0].data(), rounded.data(), 1);
    matrix->apply(BB_NORMAL, rounded.data(), ascent.image.data(), 1);
}

template <class Run>
void bb_problem::queue_step_up(double lam, Run&& run) {
    AscentRows at = ascent_rows();
    AscentState* state = ascent.state.data();
    void *r = derivatives[0].data(), *image = ascent.image.data();
    double factor = 1.0 / lam;
    void* arguments[] = {&risk, &factor, &image, &at, &r, &state};
    launch_ascent(kernels.step_up, arguments);
    run([this] { ascent_products(); });
    const double unit = kRoundedUnits * (type == BB_FLOAT32 ? 0x1p-24 : 0x1p-53);
    by_type(type, [&](auto t) {
        using T = decltype(t);
        judge_step<<<blocks_across(rows, kAscentThreads), kAscentThreads, 0, stream()>>>(
            rows, factor, unit, static_cast<const T*>(image), at, partial.data(), ticket.data(), state);
    });
    BB_CHECK(cudaGetLastError());
}

double bb_problem::climb(double lam, int steps) {
    rounded_of = nullptr;
    const auto untimed = [](auto&& run) { run(); };
    int left = steps;
    if (left > 0) {
        queue_step_up(lam, [&](auto&& run) { timed(run, 2, steps); });
        left--;
    }
    if (left >= kReplayedSteps && !(ascent.replay && ascent.lam == lam)) {
        ascent.replay.capture(stream(), [&] {
            for (int k = 0; k < kReplayedSteps; k++) queue_step_up(lam, untimed);
        });
        ascent.lam = lam;
    }
    for (; left >= kReplayedSteps; left -= kReplayedSteps) ascent.replay.launch(stream());
    for (; left > 0; left--) queue_step_up(lam, untimed);
    AscentRows at = ascent_rows();
    AscentState* state = ascent.state.data();
    void* r = derivatives[0].data();
    double* share = partial.data();
    uint32_t* turns = ticket.data();
    Letter letter = mailbox.next();
    void* end[] = {&risk, &at, &r, &state, &share, &turns, &letter};
    launch_ascent(kernels.end_ascent, end);
    return *answer();
}

extern "C" {

bb_status bb_ascent_begin(bb_problem* problem, int32_t from_derivatives) {
    return on(problem, [&](bb_problem& p) {
        if (!p.kernels.step_up || p.constant != 0 || !p.ranks.alone() || !p.matrix->row_squares.size())
            throw Failure(
                BB_INVALID,
                "ascent: the loss has no simple conjugate, there is a constant or another rank, or X "
                "has many rows for its columns");
        p.begin_ascent(from_derivatives != 0);
    });
}

bb_status bb_ascent_climb(bb_problem* problem, double lam, int32_t steps, double* conjugate) {
    return on(problem, [&](bb_problem& p) {
        if (!p.ascent.r.size()) throw Failure(BB_INVALID, "ascent: it has not begun");
        p.ahead = {};
        *conjugate = p.climb(lam, steps);
    });
}

}  // extern "C"
