// Loops over one chunk of rows of K margins whose losses are softened. Included once per instruction set,
// after class_kernels.inl.
//
// `sums` has the level, the slope along the line, the K sums of derivatives and, if wanted, the K x K Hessian
// in the intercepts, of which the lower triangle is filled.

// A number that is at least 0: what a linear move leaves of a share.
static inline double kept(const double share) { return share > 0.0 ? share : 0.0; }

static inline double soft_weight(const SoftRows& rows, const int64_t i) {
    return rows.s ? rows.s[i] * rows.scale : rows.scale;
}

// Adds the derivatives of a row, which r holds, to the sums.
static inline void add_row(const SoftRows& rows, const int64_t i, const double* r, double* sums) {
    const double* dz = rows.dz + i * rows.K;
    double along = 0.0;
    for (int64_t c = 0; c < rows.K; ++c) along += r[c] * dz[c];
    sums[1] += along;
    for (int64_t c = 0; c < rows.K; ++c) sums[2 + c] += r[c];
    if (rows.r) memcpy(rows.r + i * rows.K, r, size_t(rows.K) * sizeof(double));
}

// Adds weight * (diag(p) - p p') to the Hessian.
static inline void add_spread(const SoftRows& rows, const double* p, const double weight, double* hessian) {
    const int64_t K = rows.K;
    for (int64_t c = 0; c < K; ++c) {
        const double part = weight * p[c];
        if (part == 0.0) continue;
        double* row = hessian + c * K;
#pragma omp simd
        for (int64_t k = 0; k <= c; ++k) row[k] -= part * p[k];
        row[c] += part;
    }
}

// max_c x_c - x_y with x_c = u_c + b_c + cost_yc, softened to width * log sum_c exp(x_c / width) - x_y: the
// derivatives are the shares p of the softmax, less 1 at y. Without costs and with `entropy` it is the
// softmax loss itself.
static void soft_classes(const SoftRows& rows, const int64_t from, const int64_t to, double* sums) {
    const int64_t K = rows.K, tile = K < 1024 ? 1024 / K : 1;
    const double narrow = 1.0 / rows.width;
    std::vector<double> x(tile * K), e(tile * K), r(K);
    for (int64_t first = from; first < to; first += tile) {
        const int64_t n = to - first < tile ? to - first : tile;
        for (int64_t i = 0; i < n; ++i) {
            const int64_t y = rows.y[first + i];
            const double *z = rows.z + (first + i) * K, *dz = rows.dz + (first + i) * K;
            const double* cost = rows.costs ? rows.costs + y * K : rows.unit_costs + (K - y);
            double* u = &x[i * K];
#pragma omp simd
            for (int64_t c = 0; c < K; ++c) u[c] = z[c] + rows.t * dz[c] + rows.b[c];
            if (!rows.entropy)
                for (int64_t c = 0; c < K; ++c) u[c] += cost[c];
            const double top =
                Largest(K, [&](int64_t c) { return u[c]; }, [&](int64_t c) { return lanes(u + c); }).value;
#pragma omp simd
            for (int64_t c = 0; c < K; ++c) e[i * K + c] = (u[c] - top) * narrow;
        }
        double* flat = e.data();
#pragma omp simd
        for (int64_t k = 0; k < n * K; ++k) flat[k] = exp_branchless(flat[k]);
        for (int64_t i = 0; i < n; ++i) {
            const double weight = soft_weight(rows, first + i);
            double *p = &e[i * K], sums_of[8] = {0.0};
            const double* u = &x[i * K];
            const int64_t y = rows.y[first + i];
            if (weight == 0.0) {
                if (rows.r) memset(rows.r + (first + i) * K, 0, size_t(K) * sizeof(double));
                continue;
            }
            add_lanes(p, K, sums_of);
            const double sum = fold(sums_of);
            for (int64_t c = 0; c < K; ++c) p[c] /= sum;
            if (rows.hessian) add_spread(rows, p, weight * narrow, sums + 2 + K);
            if (rows.move) {
                double mean = 0.0, total = 0.0;
                for (int64_t c = 0; c < K; ++c) mean += p[c] * rows.move[c];
                for (int64_t c = 0; c < K; ++c) p[c] = kept(p[c] * (1.0 + (rows.move[c] - mean) * narrow));
                for (int64_t c = 0; c < K; ++c) total += p[c];
                for (int64_t c = 0; c < K; ++c) p[c] /= total;
            }
            double level = 0.0;
            if (rows.entropy) {
                const double top =
                    Largest(
                        K, [&](int64_t c) { return u[c]; }, [&](int64_t c) { return lanes(u + c); })
                        .value;
                level = rows.width * log(sum) + (top - u[y]);
            } else {
                for (int64_t c = 0; c < K; ++c) level += p[c] == 0.0 ? 0.0 : p[c] * (u[c] - u[y]);
            }
            sums[0] += weight * level;
            for (int64_t c = 0; c < K; ++c) r[c] = weight * p[c];
            r[y] -= weight;
            add_row(rows, first + i, r.data(), sums);
        }
    }
}

// sum_c max(0, x_c) with x_c = 1 - y_c (u_c + b_c), each softened to width * log(1 + exp(x_c / width)).
static void soft_labels(const SoftRows& rows, const int64_t from, const int64_t to, double* sums) {
    const int64_t K = rows.K;
    const double narrow = 1.0 / rows.width;
    std::vector<double> x(K), e(K), r(K);
    for (int64_t i = from; i < to; ++i) {
        const double *z = rows.z + i * K, *dz = rows.dz + i * K, *y = rows.labels + i * K;
        const double weight = soft_weight(rows, i);
        if (weight == 0.0) {
            if (rows.r) memset(rows.r + i * K, 0, size_t(K) * sizeof(double));
            continue;
        }
        double *at = x.data(), *low = e.data();
#pragma omp simd
        for (int64_t c = 0; c < K; ++c) {
            at[c] = 1.0 - y[c] * (z[c] + rows.t * dz[c] + rows.b[c]);
            low[c] = exp_branchless(-(at[c] < 0.0 ? -at[c] : at[c]) * narrow);
        }
        double level = 0.0;
        for (int64_t c = 0; c < K; ++c) {
            const double both = 1.0 + e[c], bend = e[c] / (both * both) * narrow;
            double share = (x[c] > 0.0 ? 1.0 : e[c]) / both;
            if (rows.move) share = kept(share - y[c] * bend * rows.move[c]);
            share = share > 1.0 ? 1.0 : share;
            level += share == 0.0 ? 0.0 : share * x[c];
            r[c] = -y[c] * weight * share;
            if (rows.hessian) sums[2 + K + c * K + c] += weight * bend;
        }
        sums[0] += weight * level;
        add_row(rows, i, r.data(), sums);
    }
}

// max(0, 1 + max of u_c over the labels that a row lacks - min over those that it has), the largest of all
// pairs of two such labels and 0, softened to width * log(1 + sum over pairs of exp((1 + u_c - u_d) /
// width)). The share of a pair is that of all pairs times p_c times p_d, the shares among labels of each
// kind.
static void soft_separation(const SoftRows& rows, const int64_t from, const int64_t to, double* sums) {
    const int64_t K = rows.K;
    const double narrow = 1.0 / rows.width;
    std::vector<double> x(K), p(K), side(K), r(K);
    for (int64_t i = from; i < to; ++i) {
        const double *z = rows.z + i * K, *dz = rows.dz + i * K, *y = rows.labels + i * K;
        const double weight = soft_weight(rows, i);
        double top[2] = {-HUGE_VAL, -HUGE_VAL}, total[2] = {0.0, 0.0};  // of missing and of present labels
        for (int64_t c = 0; c < K; ++c) {
            x[c] = -y[c] * (z[c] + rows.t * dz[c] + rows.b[c]);
            double& most = top[y[c] > 0.0];
            most = x[c] > most || x[c] != x[c] ? x[c] : most;
        }
        if (weight == 0.0 || top[0] == -HUGE_VAL || top[1] == -HUGE_VAL) {
            if (rows.r) memset(rows.r + i * K, 0, size_t(K) * sizeof(double));
            continue;
        }
        for (int64_t c = 0; c < K; ++c) p[c] = exp_branchless((x[c] - top[y[c] > 0.0]) * narrow);
        for (int64_t c = 0; c < K; ++c) total[y[c] > 0.0] += p[c];
        const double value = 1.0 + (top[0] + top[1]);
        const double logit = value * narrow + log(total[0]) + log(total[1]);
        const double low = exp_branchless(-(logit < 0.0 ? -logit : logit));
        double share = (logit > 0.0 ? 1.0 : low) / (1.0 + low);
        const double others = (logit > 0.0 ? low : 1.0) / (1.0 + low);
        double mean[2] = {0.0, 0.0};
        for (int64_t c = 0; c < K; ++c) {
            p[c] /= total[y[c] > 0.0];
            if (rows.move) mean[y[c] > 0.0] -= y[c] * p[c] * rows.move[c];
        }
        if (rows.hessian) {
            // The covariance of e_c - e_d, pair by pair, is that of each kind plus what the common share
            // adds.
            double* hessian = sums + 2 + K;
            for (int64_t c = 0; c < K; ++c) side[c] = -y[c] * p[c];
            for (int64_t c = 0; c < K; ++c) {
                double* row = hessian + c * K;
                const double part = weight * narrow * share;
                for (int64_t k = 0; k <= c; ++k) {
                    row[k] += part * others * side[c] * side[k];
                    if (y[c] == y[k]) row[k] -= part * p[c] * p[k];
                }
                row[c] += part * p[c];
            }
        }
        if (rows.move) {
            // Shares of pairs move in proportion to themselves: by their own label, and by all pairs
            // together.
            const double common = others * (mean[0] + mean[1]);
            total[0] = total[1] = 0.0;
            for (int64_t c = 0; c < K; ++c) {
                const bool kind = y[c] > 0.0;
                p[c] = kept(p[c] * (1.0 + (-y[c] * rows.move[c] - mean[kind] + common) * narrow));
                total[kind] += p[c];
            }
            share *= total[0] < total[1] ? total[0] : total[1];
            share = share > 1.0 ? 1.0 : share;
            for (int64_t c = 0; c < K; ++c)
                if (p[c] != 0.0) p[c] /= total[y[c] > 0.0];
        }
        double level = value;
        for (int64_t c = 0; c < K; ++c) {
            if (p[c] != 0.0) level += p[c] * (x[c] - top[y[c] > 0.0]);
            r[c] = -y[c] * weight * share * p[c];
        }
        sums[0] += share == 0.0 ? 0.0 : weight * share * level;
        add_row(rows, i, r.data(), sums);
    }
}

static constexpr SoftKernel soft_kernels[] = {soft_classes, soft_labels, soft_separation};

const ClassTables class_tables = {class_kernels, soft_kernels};
