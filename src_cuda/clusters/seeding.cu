#include "clusters/seeding.h"

namespace bmrm {

namespace {

template <class V>
bool is_aligned(const V* X, int64_t d) {
    return d * int64_t(sizeof(V)) % 16 == 0 && reinterpret_cast<uintptr_t>(X) % 16 == 0;
}

}  // namespace

void Seeding::prepare(SeedingPass& pass, int64_t points, int64_t part_rows) {
    pass.strips = (pass.n + kStripRows - 1) / kStripRows;
    pass.panels = (pass.n + BB_PANEL_ROWS - 1) / BB_PANEL_ROWS;
    pass.part_panels = part_rows / BB_PANEL_ROWS;
    pass.parts = part_rows ? (pass.n + part_rows - 1) / part_rows : 0;
    reserve(memory_, strip_sums_, points * pass.strips);
    reserve(memory_, panel_sums_, points * pass.panels);
    reserve(memory_, part_sums_, points * pass.parts);
    if (tickets_.size() < pass.panels + pass.parts) {
        reserve(memory_, tickets_, pass.panels + pass.parts);
        tickets_.fill_bytes(0);
    }
    pass.strip_sums = strip_sums_.data();
    pass.panel_sums = panel_sums_.data();
    pass.part_sums = part_rows ? part_sums_.data() : nullptr;
    pass.tickets = tickets_.data();
}

template <int D, class V>
void Seeding::launch_narrow(const V* X, const SeedingPass& pass, bool early) const {
    const bool whole = is_aligned(X, pass.d) && pass.d == D;
    if (pass.panel_sums && pass.panels >= int64_t(device_.multiprocessors) * kPanelBlocks)
        return next_launch(unsigned(pass.panels), kNarrowRows, early)(measure_narrow<V, D, kPanelRounds>, X,
                                                                      pass, whole);
    next_launch(unsigned((pass.n + kNarrowRows - 1) / kNarrowRows), kNarrowRows, early)(
        measure_narrow<V, D, 1>, X, pass, whole);
}

template <class V>
void Seeding::launch_pass(const V* X, const SeedingPass& pass, bool early) const {
    if (pass.d > kMaxNarrowColumns)
        return next_launch(unsigned(pass.strips), kWideThreads, early)(
            is_aligned(X, pass.d) ? measure_wide<V, true> : measure_wide<V, false>, X, pass);
    if (pass.d <= 1) return launch_narrow<1>(X, pass, early);
    if (pass.d <= 2) return launch_narrow<2>(X, pass, early);
    if (pass.d <= 3) return launch_narrow<3>(X, pass, early);
    if (pass.d <= 4) return launch_narrow<4>(X, pass, early);
    if (pass.d <= 8) return launch_narrow<8>(X, pass, early);
    launch_narrow<16>(X, pass, early);
}

template <class V>
void Seeding::launch_centers(const V* X, int64_t end) {
    const auto choose = is_aligned(X, pass_.d) ? choose_and_draw<V, true> : choose_and_draw<V, false>;
    for (; done_ < end; done_++) {
        const int now = int(done_ % 2), next = 1 - now, trials = done_ + 1 < k_ ? trials_ : 0;
        pass_.points = points_[now].data();
        pass_.count = done_ ? 1 + trials_ : 1;
        pass_.summed = done_ ? 1 : 0;
        pass_.step = int(done_);
        launch_pass(X, pass_, done_ > 0);  // the first one reads what `begin` has queued before it waits
        const SeedingChoice choice = {rows_[now].data(),
                                      rows_[next].data(),
                                      points_[next].data(),
                                      uniform_.data() + done_ * trials_,
                                      trials,
                                      chosen_.data() + done_,
                                      found_.data(),
                                      stopped_.data()};
        next_launch(unsigned(std::max(1, trials)), kDrawThreads, true)(choose, X, pass_, choice);
    }
}

template <class V>
void Seeding::measure(const V* X, SeedingPass pass, int64_t count, bool takes, float* closest, double* sums) {
    prepare(pass, std::min<int64_t>(count, kMaxPoints), 0);
    pass.takes = takes;
    pass.closest = closest;
    float* points = pass.points;
    for (int64_t first = 0; first < count; first += kMaxPoints) {
        pass.points = points + first * pass.d;
        pass.count = int(std::min<int64_t>(kMaxPoints, count - first));
        pass.panel_sums = sums + first * pass.panels;
        launch_pass(X, pass, false);
    }
}

template <class V>
void Seeding::begin(const V* X, const SeedingPass& pass, int64_t row, const double* uniform, int64_t k,
                    int trials, int64_t part_rows, float* closest) {
    pass_ = pass;
    prepare(pass_, trials + 1, part_rows);
    if (pass_.strips <= kMaxFewStrips && pass_.parts <= kFewParts)
        pass_.panel_sums = pass_.part_sums = nullptr;
    pass_.takes = true;
    pass_.closest = closest;
    k_ = k;
    trials_ = trials;
    done_ = 0;
    reserve(memory_, uniform_, std::max<int64_t>(1, (k - 1) * trials));
    reserve(memory_, chosen_, k);
    reserve(memory_, found_, 1);
    reserve(memory_, stopped_, 1);
    for (int i = 0; i < 2; i++) {
        reserve(memory_, points_[i], (trials + 1) * pass.d);
        reserve(memory_, rows_[i], trials + 1);
    }
    if (k > 1) uniform_.from_host(uniform, (k - 1) * trials);
    pass_.stopped = stopped_.data();
    next_launch(1, 256, false)(begin_choice<V>, X, pass.d, pass.origin, row, points_[0].data(),
                               rows_[0].data(), found_.data(), stopped_.data());
    packs_ = sizeof(V) == 8 && pass.n * pass.d * 4 <= kMaxPackedBytes;
    if (!packs_) return;
    reserve(memory_, packed_, pass.n * pass.d);
    reserve(memory_, no_shift_, pass.d);
    no_shift_.fill_bytes(0);
    next_launch(blocks_for(pass.n * pass.d), 256, false)(pack_rows<V>, X, pass.n, pass.d, pass.origin,
                                                         packed_.data());
    pass_.origin = {nullptr, no_shift_.data(), 1.0, {1.0f, 1.0f}};
}

template <class V>
int64_t Seeding::go_on(const V* X, int64_t count, int64_t* rows) {
    const int64_t before = done_, end = std::min(k_, before + count);
    if (packs_)
        launch_centers(packed_.data(), end);
    else
        launch_centers(X, end);
    int64_t found = 0;
    copy(found_.data(), 1, &found);
    if (end > before) copy(chosen_.data() + before, end - before, rows);
    BB_CHECK(cudaStreamSynchronize(memory_.stream));
    return std::min(found, end) - before;
}

#define BMRM_SEEDING(V)                                                                              \
    template void Seeding::measure(const V*, SeedingPass, int64_t, bool, float*, double*);           \
    template void Seeding::begin(const V*, const SeedingPass&, int64_t, const double*, int64_t, int, \
                                 int64_t, float*);                                                   \
    template int64_t Seeding::go_on(const V*, int64_t, int64_t*);
BMRM_SEEDING(float)
BMRM_SEEDING(double)
#undef BMRM_SEEDING

}  // namespace bmrm
