// Distances from rows to centres, for one instruction set (cpu/isa.h).
#define BMRM_AVX512_OPTIONS ",prefer-vector-width=512"
#include "cpu/instruction_set.h"
//
#include "clusters/nearest.h"
#include "cpu/panels.h"

namespace bmrm::BMRM_ISA {

struct NearestLoops {
    static constexpr int kFloats = kLanes;  // of a register
    typedef double Doubles __attribute__((vector_size(8 * BMRM_DOUBLES), aligned(8)));
    typedef float Singles __attribute__((vector_size(4 * BMRM_DOUBLES), aligned(4)));

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
                subtract_products(panel + first, tile, d, sum);
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

    /// The same by groups of tiles: also the least value of each group, group by group; in the group of the
    /// nearest centre that of the others.
    BMRM_TARGET static void nearest_by_group(const float* panel, i64 d, const CenterTiles& centers,
                                             i64 tiles_per_group, float* least, float* second,
                                             std::int32_t* label, float* group_least) {
        alignas(64) float low[kPanelRows], next[kPanelRows], others[kPanelRows];
        alignas(64) std::int32_t at[kPanelRows];
        for (i64 l = 0; l < kPanelRows; ++l) {
            least[l] = second[l] = others[l] = std::numeric_limits<float>::infinity();
            label[l] = 0;
        }
        for (i64 t = 0, g = 0; t < centers.tiles; t += tiles_per_group, ++g) {
            const CenterTiles some{centers.values + t * kTileCenters * d, centers.halves + t * kTileCenters,
                                   tiles_per_group < centers.tiles - t ? tiles_per_group : centers.tiles - t};
            nearest(panel, d, some, low, next, at);
            const auto first = static_cast<std::int32_t>(t * kTileCenters);
            for (i64 l = 0; l < kPanelRows; ++l) {
                const float q = low[l], before = least[l];
                const bool better = q < before;
                const float worse = better ? before : q;
                float runner_up = second[l];
                runner_up = worse < runner_up ? worse : runner_up;
                second[l] = next[l] < runner_up ? next[l] : runner_up;
                others[l] = better ? next[l] : others[l];
                label[l] = better ? at[l] + first : label[l];
                least[l] = better ? q : before;
                group_least[g * kPanelRows + l] = q;
            }
        }
        const i64 per_group = tiles_per_group * kTileCenters;
        for (i64 l = 0; l < kPanelRows; ++l) group_least[label[l] / per_group * kPanelRows + l] = others[l];
    }

    /// Sets the bounds of a panel from its products: `least`, and those of its groups, which are in `lower`.
    BMRM_TARGET static void set_bounds(const float* norms, const float* least, float constant, float slope,
                                       i64 groups, float* upper, float* lower) {
        alignas(64) float apart[kPanelRows];
        for (i64 l = 0; l < kPanelRows; ++l) {
            apart[l] = (constant + slope * norms[l]) * kRoundUp;
            upper[l] = upper_bound(norms[l], least[l], apart[l]);
        }
        for (i64 g = 0; g < groups; ++g, lower += kPanelRows)
            for (i64 l = 0; l < kPanelRows; ++l) lower[l] = lower_bound(norms[l], lower[l], apart[l]);
    }

    /// Moves the bounds of a panel with the centres, and sets open[l] to the number of groups that may have a
    /// centre nearer than that of the label. Returns their sum.
    BMRM_TARGET static i64 move_bounds(const std::int32_t* label, const float* moves,
                                       const float* group_moves, i64 groups, float* upper, float* lower,
                                       std::uint8_t* open) {
        alignas(64) float limit[kPanelRows];
        alignas(64) std::int32_t count[kPanelRows];
        for (i64 l = 0; l < kPanelRows; ++l) {
            upper[l] = (upper[l] + moves[label[l]]) * kRoundUp;
            limit[l] = upper[l] * kMore;
            count[l] = 0;
        }
        for (i64 g = 0; g < groups; ++g, lower += kPanelRows)
            for (i64 l = 0; l < kPanelRows; ++l) {
                const float rest = (lower[l] - group_moves[g]) * (2.0f - kRoundUp);
                lower[l] = rest > 0.0f ? rest : 0.0f;
                count[l] += !(limit[l] < lower[l]);
            }
        std::int32_t sum = 0;
        for (i64 l = 0; l < kPanelRows; ++l) sum += count[l], open[l] = static_cast<std::uint8_t>(count[l]);
        return sum;
    }

    /// A row as it is packed.
    template <class V>
    BMRM_TARGET static void pack_row(const V* x, const double* shift, double scale, i64 d, float* y) {
        for (i64 f = 0; f < d; ++f) y[f] = static_cast<float>((static_cast<double>(x[f]) - shift[f]) * scale);
    }

    /// half - y . z.
    BMRM_TARGET static float product(const float* y, const float* z, i64 d, float half) {
        Floats sum[2] = {};
        i64 f = 0;
        for (; f + 2 * kFloats <= d; f += 2 * kFloats)
            for (int n = 0; n < 2; ++n)
                sum[n] += *reinterpret_cast<const Floats*>(y + f + n * kFloats) *
                          *reinterpret_cast<const Floats*>(z + f + n * kFloats);
        if (f + kFloats <= d) {
            sum[0] += *reinterpret_cast<const Floats*>(y + f) * *reinterpret_cast<const Floats*>(z + f);
            f += kFloats;
        }
        sum[0] += sum[1];
        float rest = half;
        for (; f < d; ++f) rest -= y[f] * z[f];
        return rest - fold<true, kFloats>(sum[0]);
    }

    /// The values of 1, 2, 4 or 8 rows for the centres of a set, 16 numbers per row; rows of `out` are
    /// `step` numbers apart.
    BMRM_TARGET static void multiply_set(const float* const* rows, i64 count, i64 d, const float* values,
                                         const float* halves, i64 step, float* out) {
        switch (count) {
            case 1:
                return rows_by_set<1>(rows, d, values, halves, step, out);
            case 2:
                return rows_by_set<2>(rows, d, values, halves, step, out);
            case 4:
                return rows_by_set<4>(rows, d, values, halves, step, out);
            default:
                rows_by_set<8>(rows, d, values, halves, step, out);
        }
    }

    /// The least of `count` numbers, a multiple of 16, without that at `skipped`.
    BMRM_TARGET static float least_of(const float* q, i64 count, i64 skipped) {
        const Floats infinity = Floats{} + std::numeric_limits<float>::infinity();
        Ints number;
        for (int l = 0; l < kFloats; ++l) number[l] = l;
        Floats least = infinity;
        for (i64 first = 0; first < count; first += kFloats) {
            const Ints here = number == Ints{} + static_cast<std::int32_t>(skipped - first);
            const Floats some = here ? infinity : *reinterpret_cast<const Floats*>(q + first);
            least = some < least ? some : least;
        }
        return fold<false, kFloats>(least);
    }

    /// Bounds on the distances of undecided rows from their products with their centres, and for each group
    /// which rows may have a nearer centre there: need[g * 64 + l] is 1.
    BMRM_TARGET static void find_needs(const float* norms, const float* own, float constant, float slope,
                                       const std::uint8_t* open, i64 groups, const float* lower, float* upper,
                                       float* apart, std::uint8_t* need) {
        alignas(64) float limit[kPanelRows];
        for (i64 l = 0; l < kPanelRows; ++l) {
            apart[l] = (constant + slope * norms[l]) * kRoundUp;
            const float bound = upper_bound(norms[l], own[l], apart[l]);
            upper[l] = open[l] ? bound : upper[l];
            limit[l] = upper[l] * kMore;
        }
        for (i64 g = 0; g < groups; ++g, lower += kPanelRows, need += kPanelRows)
            for (i64 l = 0; l < kPanelRows; ++l) need[l] = !(limit[l] < lower[l]) & (open[l] > 0);
    }

    /// Sets open[l] to 0 if the label of a row of a panel is certain and is what it was twice before, else
    /// to 1. `constant` and `slope` as in `DenseClusters`, here in float32.
    BMRM_TARGET static void find_open(const float* least, const float* second, const std::int32_t* label,
                                      const float* norms, float constant, float slope,
                                      const std::int32_t* kept, const std::int32_t* former,
                                      std::uint8_t* open) {
        for (i64 l = 0; l < kPanelRows; ++l) {
            const float apart = (constant + slope * norms[l]) * kRoundUp;
            open[l] = !(second[l] - least[l] > apart) | (label[l] != kept[l]) | (label[l] != former[l]);
        }
    }

    /// For some points, feature by feature: the squared distances from the rows of a panel, or `closest`
    /// where these are smaller, and their sum with weights, whose products are rounded first, as those on a
    /// GPU. Distances come from differences: 0 for equal points.
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
        constexpr int kLanes = 8, kRegisters = kLanes / BMRM_DOUBLES;
        for (int j = 0; j < kPoints; ++j) {
            Doubles sum[kRegisters] = {};
            for (i64 first = 0; first < kPanelRows; first += kLanes)
                for (int r = 0; r < kRegisters; ++r) {
                    const i64 l = first + r * BMRM_DOUBLES;
                    const auto least = *reinterpret_cast<const Singles*>(out + j * kPanelRows + l);
                    Doubles share = __builtin_convertvector(least, Doubles) *
                                    *reinterpret_cast<const Doubles*>(weights + l);
#if defined(__x86_64__)
                    asm("" : "+x"(share));  // no fused multiply-add
#elif defined(__aarch64__)
                    asm("" : "+w"(share));
#endif
                    sum[r] += share;
                }
            double lane[kLanes];
            std::memcpy(lane, sum, sizeof lane);
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

  private:
    /// The sum of the numbers of a register or the least of them, by halves.
    template <bool kSum, int kCount, class Pack>
    BMRM_INLINE static float fold(const Pack& values) {
        if constexpr (kCount == 1) {
            return values[0];
        } else {
            typedef float Half __attribute__((vector_size(2 * kCount), aligned(4)));
            Half low, high;
            std::memcpy(&low, &values, sizeof(Half));
            std::memcpy(&high, reinterpret_cast<const char*>(&values) + sizeof(Half), sizeof(Half));
            if constexpr (kSum)
                low += high;
            else
                low = low < high ? low : high;
            return fold<kSum, kCount / 2>(low);
        }
    }

    template <int kRows>
    BMRM_INLINE static void rows_by_set(const float* const* rows, i64 d, const float* values,
                                        const float* halves, i64 step, float* out) {
        constexpr int kParts = kSetCenters / kFloats;
        Floats sum[kRows][kParts];
        for (int r = 0; r < kRows; ++r)
            for (int v = 0; v < kParts; ++v)
                sum[r][v] = *reinterpret_cast<const Floats*>(halves + v * kFloats);
        for (i64 f = 0; f < d; ++f, values += kSetCenters) {
            Floats some[kParts];
            for (int v = 0; v < kParts; ++v) some[v] = *reinterpret_cast<const Floats*>(values + v * kFloats);
            for (int r = 0; r < kRows; ++r)
                for (int v = 0; v < kParts; ++v) sum[r][v] -= some[v] * rows[r][f];
        }
        for (int r = 0; r < kRows; ++r)
            for (int v = 0; v < kParts; ++v)
                *reinterpret_cast<Floats*>(out + r * step + v * kFloats) = sum[r][v];
    }
};

template <class V>
constexpr RowKernels<V> rows_of() {
    using L = NearestLoops;
    return {L::pack_row<V>, L::all_distances<V>, L::deviation<V>, L::sparse_products<std::int32_t, V>,
            L::sparse_products<i64, V>};
}

const NearestKernels nearest_kernels = {
    NearestLoops::nearest,    NearestLoops::nearest_by_group,
    NearestLoops::set_bounds, NearestLoops::move_bounds,
    NearestLoops::product,    NearestLoops::multiply_set,
    NearestLoops::least_of,   NearestLoops::find_needs,
    NearestLoops::find_open,  {NearestLoops::closer<1>, NearestLoops::closer<2>, NearestLoops::closer<4>},
    rows_of<float>(),         rows_of<double>()};

}  // namespace bmrm::BMRM_ISA
