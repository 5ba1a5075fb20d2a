// Loops over one chunk of rows. Included once per instruction set, after lanes.inl, inside
// its namespace and `#pragma GCC target`. Rows are processed in tiles: a loop without a sum, which any
// compiler vectorises, fills a tile, and sums over the tile run in eight fixed lanes, so their order does not
// depend on the width of the registers.

template <class Loss, bool Weighted>
static void slope_chunk(const Rows& rows, const int64_t from, const int64_t to, double* sums) {
    double along[8] = {0.0}, total[8] = {0.0}, g[tile_rows], g_dz[tile_rows];
    const double t = rows.t, b = rows.b;
    const LossParameter parameter = rows.parameter;
    for (int64_t first = from; first < to; first += tile_rows) {
        const int64_t n = to - first < tile_rows ? to - first : tile_rows;
        const double *z = rows.z + first, *dz = rows.dz + first, *y = rows.y + first;
        const double* s = Weighted ? rows.s + first : nullptr;
#pragma omp simd
        for (int64_t k = 0; k < n; ++k) {
            g[k] = with_weight(Weighted ? s[k] : 1.0, Loss::slope(z[k] + t * dz[k] + b, y[k], parameter));
            g_dz[k] = g[k] * dz[k];
        }
        add_lanes(g_dz, n, along);
        add_lanes(g, n, total);
    }
    sums[0] = fold(along);
    sums[1] = fold(total);
}

template <class Loss, bool Weighted>
static void cut_chunk(const Rows& rows, const int64_t from, const int64_t to, double* sums) {
    double value[8] = {0.0}, total[8] = {0.0}, v[tile_rows];
    const double t = rows.t, b = rows.b, scale = rows.scale;
    const LossParameter parameter = rows.parameter;
    for (int64_t first = from; first < to; first += tile_rows) {
        const int64_t n = to - first < tile_rows ? to - first : tile_rows;
        const double *z = rows.z + first, *dz = rows.dz + first, *y = rows.y + first;
        const double* s = Weighted ? rows.s + first : nullptr;
        double* r = rows.r + first;
#pragma omp simd
        for (int64_t k = 0; k < n; ++k) {
            const double u = z[k] + t * dz[k] + b, weight = Weighted ? s[k] * scale : scale;
            v[k] = with_weight(weight, Loss::value(u, y[k], parameter));
            r[k] = with_weight(weight, Loss::slope(u, y[k], parameter));
        }
        add_lanes(v, n, value);
        add_lanes(r, n, total);
    }
    sums[0] = fold(value);
    sums[1] = fold(total);
}

template <class Loss, bool Weighted>
static void bend_chunk(const Rows& rows, const int64_t from, const int64_t to, double* sums) {
    const double *z = rows.z, *dz = rows.dz, *y = rows.y, t = rows.t, b = rows.b, scale = rows.scale;
    const LossParameter parameter = rows.parameter;
    double total[8] = {0.0}, *r = rows.r;
#pragma omp simd
    for (int64_t k = from; k < to; ++k)
        r[k] = with_weight(Weighted ? rows.s[k] * scale : scale,
                           Loss::curvature(z[k] + t * dz[k] + b, y[k], parameter));
    add_lanes(r + from, to - from, total);
    sums[0] = fold(total);
    sums[1] = 0.0;
}

template <class Loss>
constexpr Kernels kernels_of() {
    return {{slope_chunk<Loss, false>, slope_chunk<Loss, true>},
            {cut_chunk<Loss, false>, cut_chunk<Loss, true>},
            {bend_chunk<Loss, false>, bend_chunk<Loss, true>}};
}

template <class Loss>
constexpr Kernels rounded_kernels_of() {
    if constexpr (Rounded<Loss>::kinked)
        return kernels_of<Rounded<Loss>>();
    else
        return kernels_of<Loss>();
}

#define BMRM_KERNELS(name, Loss) {kernels_of<Loss>(), rounded_kernels_of<Loss>()},
static const Kernels kernels[][2] = {BMRM_LOSSES(BMRM_KERNELS)};
#undef BMRM_KERNELS

const ScalarKernels scalar_kernels = {kernels};
