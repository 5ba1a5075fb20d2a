// The risk along a line: its search, slopes, value and derivatives.
#include <algorithm>
#include <vector>

#include "training/problem.h"

using namespace bmrm;

double bb_problem::risk_at(const void* z, const void* dz, double t, double b, void* moved) {
    Letter letter = mailbox.next();
    double *to = partial.data(), *at = sums.data(), found = 0;
    uint32_t* turn = ticket.data();
    void* arguments[] = {&risk, &z, &dz, &t, &b, &moved, &to, &turn, &at, &letter};
    launch(kernels.value, blocks, arguments);
    numbers(&found, 1);
    return found;
}

void bb_problem::take_derivatives(const void* z, const void* dz, double t, double b, int which,
                                  const int64_t* starts, int count, Letter letter) {
    void* out = derivatives[which].data();
    for (int p = 0; p < count; p++) {
        RiskRows part = risk;
        part.begin = starts[p];
        part.end = starts[p + 1];
        double *to = partial.data(), *at = sums.data() + 2 * p;
        uint32_t* turn = ticket.data();
        void* arguments[] = {&part, &z, &dz, &t, &b, &out, &to, &turn, &at, &letter};
        launch(kernels.derivatives, blocks, arguments);
    }
}

bb_search_answer bb_problem::search_over_ranks(const void* z, void* end, void* moved, const void* w,
                                               const void* w_end, const bb_search_request& request) {
    LineBracket bracket = {0.0, 0.0, 0.0, 0.0, false};
    LinePoints points;
    double slope[kPoints];
    first_points(request.first, request.longest, points.t);
    int pass = 0;
    do {
        Letter letter = mailbox.next();
        bool first = pass == 0;
        double* to = partial.data();
        uint32_t* turn = ticket.data();
        void* arguments[] = {&risk, &z, &end, &points, &first, &to, &turn, &letter};
        launch(kernels.points, blocks, arguments);
        numbers(slope, kPoints);
        for (int k = 0; k < kPoints; k++) slope[k] += request.p + request.q * points.t[k];
    } while (!ends(bracket, pass, request.longest, request.accuracy, points.t, slope));
    double step = nearest(bracket), beyond = step + std::min(request.farthest, request.reach * step);
    const bool made = request.cut >= 0 && request.cut < capacity;
    Letter letter = mailbox.next();
    double *to = partial.data(), *of_cut = ahead_sums.data(), found = 0;
    uint32_t* turn = ticket.data();
    void* out = made ? derivatives[0].data() : nullptr;
    void* arguments[] = {&risk, &z, &end, &step, &beyond, &moved, &to, &turn, &out, &of_cut, &letter};
    launch(kernels.end, blocks, arguments);
    if (made) {
        const int64_t starts[2] = {0, rows};
        queue_cut(request.cut, starts, 1, w, w_end, Step{beyond, nullptr}, of_cut, ahead_mailbox);
    }
    numbers(&found, 1);
    ahead = made ? CutPlace{request.cut, z, end, w, w_end, beyond} : CutPlace{};
    return {step, found, pass};
}

extern "C" {

bb_status bb_search(bb_problem* problem, const void* z, void* end, void* moved, const void* w,
                    const void* w_end, const bb_search_request* request, bb_search_answer* answer) {
    return on(problem, [&](bb_problem& p) {
        if (!p.ranks.alone()) {
            *answer = p.search_over_ranks(z, end, moved, w, w_end, *request);
            return;
        }
        const bool ahead = request->cut >= 0 && request->cut < p.capacity;
        Letter letter = p.mailbox.next();
        bb_search_request wanted = *request;
        double *partial = p.partial.data(), *sums = p.ahead_sums.data();
        void* derivatives = ahead ? p.derivatives[0].data() : nullptr;
        void* arguments[] = {&p.risk, &z, &end, &moved, &wanted, &partial, &derivatives, &sums, &letter};
        p.launch(p.kernels.search, p.blocks, arguments, true);
        if (ahead) {
            const int64_t starts[2] = {0, p.rows};
            p.queue_cut(request->cut, starts, 1, w, w_end, Step{0, sums + 2}, sums, p.ahead_mailbox);
        }
        const double* values = p.answer();
        answer->step = values[0];
        answer->risk = values[1];
        answer->passes = int32_t(values[2]);
        p.ahead = ahead ? CutPlace{request->cut, z, end, w, w_end, values[3]} : CutPlace{};
    });
}

bb_status bb_slope(bb_problem* problem, const void* z, const void* dz, double t, double b, double slopes[2]) {
    return on(problem, [&](bb_problem& p) {
        Letter letter = p.mailbox.next();
        double* partial = p.partial.data();
        uint32_t* ticket = p.ticket.data();
        void* arguments[] = {&p.risk, &z, &dz, &t, &b, &partial, &ticket, &letter};
        p.launch(p.kernels.slope, p.blocks, arguments);
        p.numbers(slopes, 2);
    });
}

bb_status bb_risk_at(bb_problem* problem, const void* z, const void* dz, double t, double b, void* moved,
                     double* risk) {
    return on(problem, [&](bb_problem& p) { *risk = p.risk_at(z, dz, t, b, moved); });
}

bb_status bb_derivatives(bb_problem* problem, const void* z, const void* dz, double t, double b,
                         int32_t which, double sums[2]) {
    return on(problem, [&](bb_problem& p) {
        const int64_t starts[2] = {0, p.rows};
        p.take_derivatives(z, dz, t, b, which, starts, 1, p.mailbox.next());
        p.numbers(sums, 2);
    });
}

bb_status bb_set_derivatives(bb_problem* problem, const double* r, const int64_t* starts, int32_t blocks) {
    return on(problem, [&](bb_problem& p) {
        if (blocks < 1 || blocks > kMaxBlocks)
            throw Failure(BB_INVALID, "derivatives: too many blocks of rows");
        // The risk and the sum of derivatives per block; the gradient of a constant feature comes from the
        // latter.
        std::vector<double> sums(size_t(2 * blocks), 0.0);
        for (int32_t k = 0; k < blocks; k++)
            for (int64_t row = starts[k]; row < starts[k + 1]; row++) sums[size_t(2 * k + 1)] += r[row];
        Array<double> wide(p.memory, p.rows);
        BB_CHECK(cudaMemcpyAsync(wide.data(), r, size_t(p.rows) * 8, cudaMemcpyHostToDevice, p.stream()));
        BB_CHECK(
            cudaMemcpyAsync(p.sums.data(), sums.data(), sums.size() * 8, cudaMemcpyHostToDevice, p.stream()));
        by_type(p.type, [&](auto t) {
            using T = decltype(t);
            narrow_numbers<<<blocks_for(p.rows), 256, 0, p.stream()>>>(
                wide.data(), p.rows, reinterpret_cast<T*>(p.derivatives[0].data()));
        });
        BB_CHECK(cudaGetLastError());
        BB_CHECK(cudaStreamSynchronize(p.stream()));
    });
}

bb_status bb_mix_derivatives(bb_problem* problem, double share) {
    return on(problem, [&](bb_problem& p) {
        by_type(p.type, [&](auto t) {
            using T = decltype(t);
            mix<<<blocks_for(p.rows), 256, 0, p.stream()>>>(
                reinterpret_cast<T*>(p.derivatives[0].data()),
                reinterpret_cast<const T*>(p.derivatives[1].data()), share, p.rows);
        });
    });
}

}  // extern "C"
