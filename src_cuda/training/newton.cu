// Newton's point of a smooth risk by conjugate gradients (Lin, Weng, Keerthi, JMLR 9 (2008) 627): a step
// takes a product with X and one with X', and the host sees two of its numbers.
//
// Points and residuals are float64; products have the matrix's type.  That suffices, since the slope of the
// quadratic is only reduced to a share, and objective, cuts and bound do not depend on the accuracy of the
// point.
#include <cmath>

#include "training/problem.h"

using namespace bmrm;

template <class T, class Run>
void bb_problem::image_of_direction(double curvature, Run&& run) {
    T *s = reinterpret_cast<T*>(derivatives[1].data()), *z = reinterpret_cast<T*>(derivatives[0].data());
    T* image = reinterpret_cast<T*>(newton.image.data());
    run([&] { matrix->apply(BB_NORMAL, rounded.data(), z, 1); });
    add_constant_to(newton.direction.data() + cols, z);
    double mean = 0;
    if (curvature > 0) {
        sum_along<<<unsigned(blocks), kRowThreads, 0, stream()>>>(s, z, rows, partial.data(), ticket.data(),
                                                                  mailbox.next());
        BB_CHECK(cudaGetLastError());
        numbers(&mean, 1);
        mean /= curvature;
    }
    weigh<<<unsigned(blocks), kRowThreads, 0, stream()>>>(s, z, rows, mean, partial.data(), ticket.data(),
                                                          sums.data() + 1);
    run([&] { matrix->apply(BB_TRANSPOSED, z, image, 1); });
    if (constant != 0) constant_gradient<<<1, 1, 0, stream()>>>(constant, sums.data(), 0, image, cols);
    ranks.add_up(memory, type, image, width);
}

template <class T, class Run>
void bb_problem::queue_descent(int32_t number, double curvature, Run&& run) {
    double *residual = newton.residual.data(), *direction = newton.direction.data(), *share = partial.data();
    const double* mean_squares = newton.mean_squares.data();
    T *narrow = reinterpret_cast<T*>(rounded.data()), *image = reinterpret_cast<T*>(newton.image.data());
    Descent* const descent = newton.descent.data();
    uint32_t* turns = ticket.data();
    const unsigned across = blocks_across(width, kDescentThreads);
    const int parity = int(number % 2);
    if (number > 0)
        turn<<<across, kDescentThreads, 0, stream()>>>(residual, mean_squares, width, 1 - parity, descent,
                                                       direction, narrow);
    image_of_direction<T>(curvature, run);
    measure_bend<<<across, kDescentThreads, 0, stream()>>>(direction, image, width, share, turns, descent);
    descend<<<across, kDescentThreads, 0, stream()>>>(direction, image, mean_squares, width, parity, residual,
                                                      newton.step.data(), share, turns, descent,
                                                      newton.mailbox.next());
    BB_CHECK(cudaGetLastError());
}

template <class T>
int32_t bb_problem::newton_point(const double* w, const T* z, const bb_newton_request& request, double* to,
                                 void* to_margins, double sums[3]) {
    double *share = partial.data(), b = request.intercept;
    T* narrow = reinterpret_cast<T*>(rounded.data());
    uint32_t* turns = ticket.data();
    const unsigned across = blocks_across(width, kDescentThreads);

    // A step that needs nothing from the host is queued by one call.
    const bool replayed = ranks.alone() && !request.profile;
    void* second = derivatives[1].data();
    double *total = this->sums.data() + 2, curvature = 0;
    Letter letter = mailbox.next();
    void* arguments[] = {&risk, &z, &b, &second, &share, &turns, &total, &letter};
    launch(kernels.curvature, blocks, arguments);
    if (!replayed) numbers(&curvature, 1);
    newton.mean_squares.from_host(request.mean_squares, width);
    const Descent first = {{}, 0, 0, request.lam, curvature, newton.mailbox.sent()};

    rounded_of = nullptr;
    begin_descent<<<across, kDescentThreads, 0, stream()>>>(
        w, first, replayed ? total : nullptr, newton.mean_squares.data(), cut<T>(request.cut), stride,
        int(request.cuts), width, newton.residual.data(), newton.direction.data(), newton.step.data(), narrow,
        share, turns, newton.descent.data());
    BB_CHECK(cudaGetLastError());
    double each = 0;  // the time of the first step's products, assumed for the others
    int32_t steps = 0;
    for (bool steep = true; steep && steps < request.steps;) {
        if (replayed && steps > 0) {
            Graph& replay = newton.replays[steps % 2];
            if (replay)
                newton.mailbox.next();
            else
                replay.capture(stream(), [&] { queue_descent<T>(steps, 0.0, [](auto&& run) { run(); }); });
            replay.launch(stream());
            product_seconds += each;
            products += 2;
        } else {
            queue_descent<T>(steps, request.profile ? curvature : 0.0, [&](auto&& run) { timed(run); });
        }
        const double* found = answer(newton.mailbox);
        if (!(found[1] > 0 && std::isfinite(found[1]))) break;
        if (steps == 0) each = last_products();
        steep = found[0] > request.forcing * request.forcing * found[2];
        steps++;
    }
    end_descent<<<across, kDescentThreads, 0, stream()>>>(w, newton.step.data(), width, to, narrow, share,
                                                          turns, mailbox.next());
    BB_CHECK(cudaGetLastError());
    std::copy_n(answer(), 3, sums);
    rounded_of = to;
    if (!steps || !std::isfinite(sums[0])) return 0;
    margins(to, to_margins);
    return steps;
}

extern "C" bb_status bb_newton_point(bb_problem* problem, const void* w, const void* z,
                                     const bb_newton_request* request, void* to, void* to_margins,
                                     double sums[3], int32_t* steps) {
    return on(problem, [&](bb_problem& p) {
        if (!p.kernels.curvature || p.in_rows())
            throw Failure(BB_INVALID, "Newton's point: the loss is not smooth, or weights are of rows");
        if (request->cut < 0 || request->cuts < 1 || request->cut + request->cuts > p.capacity)
            throw Failure(BB_INVALID, "Newton's point: no such cuts");
        by_type(p.type, [&](auto t) {
            *steps = p.newton_point(static_cast<const double*>(w), static_cast<const decltype(t)*>(z),
                                    *request, static_cast<double*>(to), to_margins, sums);
        });
    });
}
