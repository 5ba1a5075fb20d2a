// Newton's point of a smooth risk by conjugate gradients (Lin, Weng, Keerthi, JMLR 9 (2008) 627): a step
// takes a product with X and one with X', and the host sees two numbers of it.
//
// Points and residuals are float64, products of the matrix's type: the slope of the quadratic is to shrink to
// a share only, and objective, cuts and bound do not rest on the point.
#include <cmath>

#include "problem.h"

using namespace bmrm;

template <class T>
void bb_problem::image_of(const double* direction, const T* narrow, T* image, double curvature) {
    T *s = reinterpret_cast<T*>(derivatives[1].data()), *z = reinterpret_cast<T*>(derivatives[0].data());
    product(narrow, direction + cols, z);
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
    timed([&] { matrix->apply(BB_TRANSPOSED, z, image, 1); });
    if (constant != 0) constant_gradient<<<1, 1, 0, stream()>>>(constant, sums.data(), 0, image, cols);
    ranks.add_up(memory, type, image, width);
}

template <class T>
int32_t bb_problem::newton_point(const double* w, const T* z, const bb_newton_request& request, double* to,
                                 void* to_margins, double sums[3]) {
    const double lam = request.lam;
    double *residual = newton.residual.data(), *direction = newton.direction.data(),
           *step = newton.step.data(), *share = partial.data(), b = request.intercept;
    T *narrow = reinterpret_cast<T*>(rounded.data()), *image = reinterpret_cast<T*>(newton.image.data());
    Descent* const descent = newton.descent.data();
    uint32_t* turns = ticket.data();
    const unsigned across =
        unsigned(std::min<int64_t>(blocks_for(width, kDescentThreads), partial.size() / 4));

    void* second = derivatives[1].data();
    Letter letter = mailbox.next();
    void* arguments[] = {&risk, &z, &b, &second, &share, &turns, &letter};
    launch(kernels.curvature, blocks, arguments);
    double curvature = 0;
    numbers(&curvature, 1);
    newton.mean_squares.from_host(request.mean_squares, width);
    const Diagonal diagonal = {lam, curvature, newton.mean_squares.data()};

    rounded_of = nullptr;
    begin_descent<<<across, kDescentThreads, 0, stream()>>>(
        w, diagonal, cut<T>(request.cut), stride, int(request.cuts), width, residual, direction, step, narrow,
        share, turns, descent, mailbox.next());
    BB_CHECK(cudaGetLastError());
    double size = *answer();
    const double wanted = request.forcing * request.forcing * size;
    int32_t steps = 0;
    while (size > wanted && steps < request.steps) {
        const int parity = int(steps % 2);
        image_of(direction, narrow, image, request.profile ? curvature : 0.0);
        measure_bend<<<across, kDescentThreads, 0, stream()>>>(direction, image, lam, width, share, turns,
                                                               descent);
        descend<<<across, kDescentThreads, 0, stream()>>>(direction, image, diagonal, width, parity, residual,
                                                          step, share, turns, descent, mailbox.next());
        BB_CHECK(cudaGetLastError());
        const double* found = answer();
        if (!(found[1] > 0 && std::isfinite(found[1]))) break;
        size = found[0];
        steps++;
        turn<<<across, kDescentThreads, 0, stream()>>>(residual, diagonal, width, parity, descent, direction,
                                                       narrow);
    }
    end_descent<<<across, kDescentThreads, 0, stream()>>>(w, step, width, to, narrow, share, turns,
                                                          mailbox.next());
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
