// Loops over one chunk of rows of K margins. Included once per instruction set, after lanes.inl, inside its
// namespace and `#pragma GCC target`, with BMRM_LANES doubles per register. A row is processed in vectors
// of that length. If it does not divide K, the last vector overlaps the one before: this changes no maximum,
// so results do not depend on the length.

typedef double Lanes __attribute__((vector_size(8 * BMRM_LANES)));

#if BMRM_LANES == 8
static const Lanes numbered = {0, 1, 2, 3, 4, 5, 6, 7};
#elif BMRM_LANES == 4
static const Lanes numbered = {0, 1, 2, 3};
#else
static const Lanes numbered = {0, 1};
#endif

static inline Lanes lanes(const double* p) {
    Lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}

// Reduces all lanes by op.
template <class Op>
static inline double over_lanes(Lanes v, const Op& op) {
#if BMRM_LANES == 8
    v = op(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
    v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
    v = op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
#elif BMRM_LANES == 4
    v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));
    v = op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2));
#else
    v = op(v, __builtin_shufflevector(v, v, 1, 0));
#endif
    return v[0];
}

// The largest of K numbers, the first of equal ones, and its place. It is infinite if a number is NaN, so
// that an invalid margin does not look like a small one.
struct Largest {
    double value;
    int64_t place;

    // `number(c)` returns number c, `numbers(c)` a vector of the numbers from c on.
    template <class Number, class Numbers>
    Largest(const int64_t K, const Number& number, const Numbers& numbers) {
        if (K < BMRM_LANES) {
            value = -HUGE_VAL, place = 0;
            for (int64_t c = 0; c < K; ++c) {
                const double v = number(c), seen = v == v ? v : HUGE_VAL;
                place = seen > value ? c : place;
                value = seen > value ? seen : value;
            }
            return;
        }
        const Lanes infinite = Lanes{} + HUGE_VAL;
        Lanes best = -infinite, at = {};
        for (int64_t c = 0; c < K; c += BMRM_LANES) {
            const int64_t from = c + BMRM_LANES <= K ? c : K - BMRM_LANES;
            const Lanes v = numbers(from), seen = v == v ? v : infinite;
            const auto above = seen > best;
            best = above ? seen : best;
            at = above ? numbered + double(from) : at;
        }
        value = over_lanes(best, [](const Lanes& a, const Lanes& b) { return a > b ? a : b; });
        const Lanes first = best == Lanes{} + value ? at : Lanes{} + double(K);
        place = int64_t(over_lanes(first, [](const Lanes& a, const Lanes& b) { return a < b ? a : b; }));
    }
};

// The margins of one row on a line, at the step t.
struct Line {
    const double *z, *dz;
    double t;
    double operator()(const int64_t c) const { return z[c] + t * dz[c]; }
    Lanes from(const int64_t c) const { return lanes(z + c) + t * lanes(dz + c); }
};

// max_c (u_c + cost_yc) - u_y: derivative +1 at the maximum and -1 at y, or 0 if y itself is the maximum.
struct WinnerTakesAll {
    struct Row {
        double value;
        int64_t up, down;
    };
    static Row row(const ClassRows& rows, const int64_t i) {
        const int64_t K = rows.K, y = rows.y[i];
        const Line u{rows.z + i * K, rows.dz + i * K, rows.t};
        const double* cost = rows.costs ? rows.costs + y * K : rows.unit_costs + (K - y);
        const Largest worst(
            K, [&](int64_t c) { return u(c) + cost[c]; },
            [&](int64_t c) { return u.from(c) + lanes(cost + c); });
        const double own = u(y);
        const bool wins = !(worst.value > own), lost = !(worst.value < HUGE_VAL) || own != own;
        return {lost ? double(NAN) : wins ? 0.0 : worst.value - own, wins ? y : worst.place, y};
    }
};

// max(0, 1 + max of u_c over the labels that a row lacks - min of u_c over the labels that it has).
struct Separation {
    static WinnerTakesAll::Row row(const ClassRows& rows, const int64_t i) {
        const int64_t K = rows.K;
        const Line u{rows.z + i * K, rows.dz + i * K, rows.t};
        const double* y = rows.labels + i * K;
        const Lanes none = Lanes{} - HUGE_VAL;
        const Largest wrong(
            K, [&](int64_t c) { return y[c] < 0.0 ? u(c) : -HUGE_VAL; },
            [&](int64_t c) { return lanes(y + c) < 0.0 ? u.from(c) : none; });
        const Largest right(
            K, [&](int64_t c) { return y[c] > 0.0 ? -u(c) : -HUGE_VAL; },
            [&](int64_t c) { return lanes(y + c) > 0.0 ? -u.from(c) : none; });
        const double value = 1.0 + (wrong.value + right.value);
        const bool apart = !(value > 0.0), lost = wrong.value == HUGE_VAL || right.value == HUGE_VAL;
        return {lost ? double(NAN) : apart ? 0.0 : value, apart ? 0 : wrong.place, apart ? 0 : right.place};
    }
};

// Losses with at most two nonzero derivatives per row, +1 and -1.
template <class Loss>
static void pair_slope(const ClassRows& rows, const int64_t from, const int64_t to, double* sums) {
    double total = 0.0;
    for (int64_t i = from; i < to; ++i) {
        const auto row = Loss::row(rows, i);
        const double* dz = rows.dz + i * rows.K;
        total += (rows.s ? rows.s[i] : 1.0) * (dz[row.up] - dz[row.down]);
    }
    sums[0] = total;
    sums[1] = 0.0;
}

template <class Loss>
static void pair_cut(const ClassRows& rows, const int64_t from, const int64_t to, double* sums) {
    double total = 0.0;
    memset(rows.r + from * rows.K, 0, size_t(to - from) * rows.K * sizeof(double));
    for (int64_t i = from; i < to; ++i) {
        const auto row = Loss::row(rows, i);
        const double weight = rows.s ? rows.s[i] * rows.scale : rows.scale;
        total += weight * row.value;
        rows.r[i * rows.K + row.up] += weight;
        rows.r[i * rows.K + row.down] -= weight;
    }
    sums[0] = total;
    sums[1] = 0.0;
}

// log sum_c exp(u_c) - u_y: derivative p_c - [c = y], p the probabilities.
//
// Calls body(i, e, sum, top) for each row, with e_c = exp(u_c - top), top the largest u_c, and sum the sum of
// e.
template <class Body>
static void softmax_rows(const ClassRows& rows, const int64_t from, const int64_t to, const Body& body) {
    const int64_t K = rows.K, tile = K < 1024 ? 1024 / K : 1;
    std::vector<double> e(tile * K), top(tile);
    for (int64_t first = from; first < to; first += tile) {
        const int64_t n = to - first < tile ? to - first : tile;
        for (int64_t i = 0; i < n; ++i) {
            const Line u{rows.z + (first + i) * K, rows.dz + (first + i) * K, rows.t};
            top[i] = Largest(K, u, [&](int64_t c) { return u.from(c); }).value;
            double* out = &e[i * K];
#pragma omp simd
            for (int64_t c = 0; c < K; ++c) out[c] = u.z[c] + u.t * u.dz[c] - top[i];
        }
        double* flat = e.data();
#pragma omp simd
        for (int64_t k = 0; k < n * K; ++k) flat[k] = exp_branchless(flat[k]);
        for (int64_t i = 0; i < n; ++i) {
            double sums_of[8] = {0.0};
            add_lanes(&e[i * K], K, sums_of);
            body(first + i, &e[i * K], fold(sums_of), top[i]);
        }
    }
}

static void softmax_slope(const ClassRows& rows, const int64_t from, const int64_t to, double* sums) {
    double total = 0.0;
    softmax_rows(rows, from, to, [&](int64_t i, double* e, double sum, double) {
        const double* dz = rows.dz + i * rows.K;
        double sums_of[8] = {0.0};
        for (int64_t c = 0; c < rows.K; ++c) e[c] *= dz[c];
        add_lanes(e, rows.K, sums_of);
        total += (rows.s ? rows.s[i] : 1.0) * (fold(sums_of) / sum - dz[rows.y[i]]);
    });
    sums[0] = total;
    sums[1] = 0.0;
}

static void softmax_cut(const ClassRows& rows, const int64_t from, const int64_t to, double* sums) {
    double total = 0.0;
    softmax_rows(rows, from, to, [&](int64_t i, const double* e, double sum, double top) {
        const int64_t K = rows.K, y = rows.y[i];
        const double weight = rows.s ? rows.s[i] * rows.scale : rows.scale, share = weight / sum;
        const Line u{rows.z + i * K, rows.dz + i * K, rows.t};
        double* r = rows.r + i * K;
        for (int64_t c = 0; c < K; ++c) r[c] = share * e[c];
        r[y] -= weight;
        total += weight * (log(sum) + (top - u(y)));
    });
    sums[0] = total;
    sums[1] = 0.0;
}

// In the order of CLASS_LOSSES in _losses.pyx.
static const ClassKernels class_kernels[] = {{pair_slope<WinnerTakesAll>, pair_cut<WinnerTakesAll>},
                                             {softmax_slope, softmax_cut},
                                             {pair_slope<Separation>, pair_cut<Separation>}};
