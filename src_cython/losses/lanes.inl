// Sums in eight lanes. Included once per instruction set, before the kernels that use them.

static inline void add_lanes(const double* tile, const int64_t n, double* lanes) {
    int64_t k = 0;
    for (; k + 8 <= n; k += 8)
        for (int64_t l = 0; l < 8; ++l) lanes[l] += tile[k + l];
    for (int64_t l = 0; k + l < n; ++l) lanes[l] += tile[k + l];
}
