// Distances from rows to centres. Included once per instruction set (nearest.h), hence no include guard.

namespace bmrm::BMRM_ISA {

struct NearestKernels {
    static constexpr int kFloats = 2 * BMRM_DOUBLES;          // of a register
    static constexpr int kGroup = BMRM_DOUBLES == 8 ? 4 : 2;  // registers with the rows of one sweep
    static constexpr i64 kGroupRows = kFloats * kGroup;
    typedef float Floats __attribute__((vector_size(4 * kFloats), aligned(4)));
    typedef std::int32_t Ints __attribute__((vector_size(4 * kFloats), aligned(4)));

    /// For the rows of a panel: the least and the second least of |z|^2 / 2 - y . z over the centres z, and
    /// the centre of the least.
    BMRM_TARGET static void nearest(const float* panel, i64 d, const CenterTiles& centers, float* least,
                                    float* second, std::int32_t* label) {
        for (i64 first = 0; first < kPanelRows; first += kGroupRows) {
            Floats low[kGroup], next[kGroup];
            Ints at[kGroup];
            for (int v = 0; v < kGroup; ++v) {
                low[v] = Floats{} + std::numeric_limits<float>::infinity();
                next[v] = low[v];
                at[v] = Ints{};
            }
            for (i64 t = 0; t < centers.tiles; ++t) {
                const float* half = centers.halves + t * kTileCenters;
                const float* tile = centers.values + t * kTileCenters * d;
                Floats sum[kTileCenters][kGroup];
                for (int j = 0; j < kTileCenters; ++j)
                    for (int v = 0; v < kGroup; ++v) sum[j][v] = Floats{} + half[j];
                const float* y = panel + first;
                for (i64 f = 0; f < d; ++f, y += kPanelRows, tile += kTileCenters) {
                    Floats rows[kGroup];
                    for (int v = 0; v < kGroup; ++v)
                        rows[v] = *reinterpret_cast<const Floats*>(y + v * kFloats);
                    for (int j = 0; j < kTileCenters; ++j)
                        for (int v = 0; v < kGroup; ++v) sum[j][v] -= rows[v] * tile[j];
                }
                for (int j = 0; j < kTileCenters; ++j) {
                    const Ints number = Ints{} + static_cast<std::int32_t>(t * kTileCenters + j);
                    for (int v = 0; v < kGroup; ++v) {
                        const Floats q = sum[j][v];
                        const Ints better = q < low[v];
                        const Floats worse = better ? low[v] : q;
                        next[v] = worse < next[v] ? worse : next[v];
                        low[v] = better ? q : low[v];
                        at[v] = better ? number : at[v];
                    }
                }
            }
            for (int v = 0; v < kGroup; ++v) {
                *reinterpret_cast<Floats*>(least + first + v * kFloats) = low[v];
                *reinterpret_cast<Floats*>(second + first + v * kFloats) = next[v];
                *reinterpret_cast<Ints*>(label + first + v * kFloats) = at[v];
            }
        }
    }

    /// Sets open[l] to 0 if the label of a row of a panel is certain and is what it was twice before, else
    /// to 1. `constant` and `slope` as in `DenseClusters`, here in float32.
    BMRM_TARGET static void find_open(const float* least, const float* second, const std::int32_t* label,
                                      const float* norms, float constant, float slope,
                                      const std::int32_t* kept, const std::int32_t* former,
                                      std::uint8_t* open) {
        constexpr float kRoundUp = 1.0f + 0x1p-20f;
        for (i64 l = 0; l < kPanelRows; ++l) {
            const float apart = (constant + slope * norms[l]) * kRoundUp;
            open[l] = !(second[l] - least[l] > apart) | (label[l] != kept[l]) | (label[l] != former[l]);
        }
    }

    /// For some points, feature by feature: the squared distances from the rows of a panel, or `closest`
    /// where these are smaller, and their sum with weights. Distances come from differences: 0 for equal
    /// points.
    template <int kPoints>
    BMRM_TARGET static void closer(const float* panel, i64 d, const float* tile, const float* closest,
                                   const double* weights, float* out, double* sums) {
        for (i64 first = 0; first < kPanelRows; first += kGroupRows) {
            Floats sum[kPoints][kGroup] = {};
            const float *y = panel + first, *point = tile;
            for (i64 f = 0; f < d; ++f, y += kPanelRows, point += kPoints) {
                Floats rows[kGroup];
                for (int v = 0; v < kGroup; ++v) rows[v] = *reinterpret_cast<const Floats*>(y + v * kFloats);
                for (int j = 0; j < kPoints; ++j)
                    for (int v = 0; v < kGroup; ++v) {
                        const Floats e = rows[v] - point[j];
                        sum[j][v] += e * e;
                    }
            }
            for (int j = 0; j < kPoints; ++j)
                for (int v = 0; v < kGroup; ++v) {
                    const i64 l = first + v * kFloats;
                    const Floats before = *reinterpret_cast<const Floats*>(closest + l);
                    const Floats least = sum[j][v] < before ? sum[j][v] : before;
                    *reinterpret_cast<Floats*>(out + j * kPanelRows + l) = least;
                }
        }
        constexpr int kLanes = 8;
        for (int j = 0; j < kPoints; ++j) {
            double lane[kLanes] = {};
            for (i64 first = 0; first < kPanelRows; first += kLanes)
                for (int l = 0; l < kLanes; ++l)
                    lane[l] += static_cast<double>(out[j * kPanelRows + first + l]) * weights[first + l];
            sums[j] =
                ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
        }
    }

    /// Squared distances in float64 from one row to all centres; `columns` has each feature of all centres.
    template <class V>
    BMRM_TARGET static void all_distances(const V* x, i64 d, const double* columns, i64 k, double* out) {
        for (i64 j = 0; j < k; ++j) out[j] = 0.0;
        for (i64 f = 0; f < d; ++f, columns += k) {
            const double value = static_cast<double>(x[f]);
            for (i64 j = 0; j < k; ++j) {
                const double e = value - columns[j];
                out[j] += e * e;
            }
        }
    }

    /// Adds w (x - c) to `sum`, unless it is null; returns |x - c|^2.
    template <class V>
    BMRM_TARGET static double deviation(const V* x, const double* c, i64 d, double w, double* sum) {
        constexpr int kLanes = 4;
        double square[kLanes] = {};
        i64 f = 0;
        if (sum) {
            for (; f + kLanes <= d; f += kLanes)
                for (int l = 0; l < kLanes; ++l) {
                    const double e = static_cast<double>(x[f + l]) - c[f + l];
                    sum[f + l] += w * e;
                    square[l] += e * e;
                }
            for (; f < d; ++f) {
                const double e = static_cast<double>(x[f]) - c[f];
                sum[f] += w * e;
                square[0] += e * e;
            }
        } else {
            for (; f + kLanes <= d; f += kLanes)
                for (int l = 0; l < kLanes; ++l) {
                    const double e = static_cast<double>(x[f + l]) - c[f + l];
                    square[l] += e * e;
                }
            for (; f < d; ++f) {
                const double e = static_cast<double>(x[f]) - c[f];
                square[0] += e * e;
            }
        }
        return (square[0] + square[1]) + (square[2] + square[3]);
    }

    /// Adds x . c to `out` for all centres c; x has n entries.
    template <class I, class V>
    BMRM_TARGET static void sparse_products(const I* index, const V* value, i64 n, const double* columns,
                                            i64 k, double* out) {
        for (i64 j = 0; j < k; ++j) out[j] = 0.0;
        for (i64 e = 0; e < n; ++e) {
            const double v = value ? static_cast<double>(value[e]) : 1.0;
            const double* column = columns + static_cast<i64>(index[e]) * k;
            for (i64 j = 0; j < k; ++j) out[j] += v * column[j];
        }
    }
};

}  // namespace bmrm::BMRM_ISA
