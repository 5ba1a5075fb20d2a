// Loops of a walk over some of the nodes, for one instruction set (kernels.h).
// Sums over nodes are taken in a fixed order, the same in all sets.
#pragma once

#include "graph/walk.h"

namespace bmrm::BMRM_ISA {

typedef float Floats __attribute__((vector_size(4 * kNodeLanes), aligned(4), may_alias));
typedef std::int32_t Bits __attribute__((vector_size(4 * kNodeLanes), aligned(4), may_alias));
typedef double Doubles __attribute__((vector_size(8 * kNodeLanes)));

BMRM_INLINE Floats read_floats(const float* from) { return *reinterpret_cast<const Floats*>(from); }
BMRM_INLINE void write_floats(float* to, Floats values) { *reinterpret_cast<Floats*>(to) = values; }
BMRM_INLINE Floats absolute(Floats values) { return (Floats)((Bits)values & 0x7fffffff); }

/// The sum of the lanes, and then of what was left over, in float64.
template <class Lanes>
BMRM_INLINE double lane_sum(const Lanes& lanes, double rest) {
    double sum = 0;
    for (int l = 0; l < kNodeLanes; ++l) sum += lanes[l];
    return sum + rest;
}

/// One column: nodes are lanes.
struct OneColumn {
    /// x = the mixture (not written if that is one vector), z = x scale; the sum of x over the nodes with
    /// scale 0 is added to *lost.
    BMRM_TARGET static void mix(const Mixture& mixture, const float* scale, i64 first, i64 last, float* x,
                                float* z, double* lost) {
        for (i64 begin = first; begin < last; begin += kNodeRun) {
            const i64 end = begin + kNodeRun < last ? begin + kNodeRun : last;
            const float* from = mixture.vectors[0];
            if (mixture.factors) {
                const float factor = static_cast<float>(mixture.factors[0]);
                for (i64 i = begin; i < end; ++i) x[i] = factor * from[i];
                for (int j = 1; j < mixture.count; ++j) {
                    const float a = static_cast<float>(mixture.factors[j]), *g = mixture.vectors[j];
                    for (i64 i = begin; i < end; ++i) x[i] += a * g[i];
                }
                from = x;
            }
            Floats sum = {};
            float rest = 0;
            i64 i = begin;
            for (; i + kNodeLanes <= end; i += kNodeLanes) {
                const Floats value = read_floats(from + i), s = read_floats(scale + i);
                write_floats(z + i, value * s);
                sum += (Floats)((Bits)value & (s == 0));
            }
            for (; i < end; ++i) {
                z[i] = from[i] * scale[i];
                if (scale[i] == 0) rest += from[i];
            }
            *lost += lane_sum(sum, rest);
        }
    }

    /// g = T(x), given the product y, which may be g; z = g scale. Adds to sums the l1
    /// norm of g - x, the sum of g over the nodes with scale 0, and the sum of g, this one by float64 alone.
    BMRM_TARGET static void advance(const Terms<float>& terms, const float* scale, const float* x,
                                    const float* y, i64 first, i64 last, float* g, float* z, double* sums) {
        const float d = terms.damping, c = static_cast<float>(terms.c[0]),
                    m = static_cast<float>(terms.mass[0]), even = c * terms.v0;
        for (i64 begin = first; begin < last; begin += kNodeRun) {
            const i64 end = begin + kNodeRun < last ? begin + kNodeRun : last;
            Floats size = {}, sum = {};
            Doubles all = {};
            float size_rest = 0, rest = 0;
            double all_rest = 0;
            i64 i = begin;
            for (; i + kNodeLanes <= end; i += kNodeLanes) {
                Floats value = read_floats(y + i) * d + even;
                if (terms.constant) value += read_floats(terms.constant + i);
                if (terms.v) value += read_floats(terms.v + i) * c;
                if (terms.u) value += read_floats(terms.u + i) * m;
                const Floats residual = value - read_floats(x + i), s = read_floats(scale + i);
                write_floats(g + i, value);
                write_floats(z + i, value * s);
                size += absolute(residual);
                sum += (Floats)((Bits)value & (s == 0));
                all += __builtin_convertvector(value, Doubles);
            }
            for (; i < end; ++i) {
                float value = y[i] * d + even;
                if (terms.constant) value += terms.constant[i];
                if (terms.v) value += terms.v[i] * c;
                if (terms.u) value += terms.u[i] * m;
                const float residual = value - x[i];
                g[i] = value;
                z[i] = value * scale[i];
                size_rest += std::fabs(residual);
                if (scale[i] == 0) rest += value;
                all_rest += value;
            }
            sums[0] += lane_sum(size, size_rest);
            sums[1] += lane_sum(sum, rest);
            sums[2] += lane_sum(all, all_rest);
        }
    }

    /// Adds the inner products of the residuals i and j <= i to sums[i * count + j].
    BMRM_TARGET static void inner_products(const Residual* residuals, int count, i64 first, i64 last,
                                           double* sums) {
        alignas(64) float some[kWalkHistory][kNodeRun];
        for (i64 begin = first; begin < last; begin += kNodeRun) {
            const i64 size = (begin + kNodeRun < last ? begin + kNodeRun : last) - begin;
            for (int j = 0; j < count; ++j) {
                const float *g = residuals[j].image + begin, *x = residuals[j].point;
                for (i64 k = 0; k < size; ++k) some[j][k] = x ? g[k] - x[begin + k] : g[k];
            }
            for (int i = 0; i < count; ++i)
                for (int j = 0; j <= i; ++j) {
                    Floats sum = {};
                    float rest = 0;
                    i64 k = 0;
                    for (; k + kNodeLanes <= size; k += kNodeLanes)
                        sum += read_floats(some[i] + k) * read_floats(some[j] + k);
                    for (; k < size; ++k) rest += some[i][k] * some[j][k];
                    sums[i * count + j] += lane_sum(sum, rest);
                }
        }
    }
};

/// K columns side by side: a row is a node.
template <int K>
struct SomeColumns {
    typedef float Row __attribute__((vector_size(4 * K), aligned(4), may_alias));
    typedef std::int32_t RowBits __attribute__((vector_size(4 * K), aligned(4), may_alias));

    BMRM_INLINE static Row read(const float* from) { return *reinterpret_cast<const Row*>(from); }
    BMRM_INLINE static void write(float* to, Row row) { *reinterpret_cast<Row*>(to) = row; }
    BMRM_INLINE static Row row_of(const double* from) {
        float values[K];
        for (int k = 0; k < K; ++k) values[k] = static_cast<float>(from[k]);
        return read(values);
    }
    BMRM_INLINE static void add_to(double* sums, Row row) {
        float values[K];
        write(values, row);
        for (int k = 0; k < K; ++k) sums[k] += values[k];
    }

    /// As for one column; the products y are those of the nodes from `first` on.
    BMRM_TARGET static void mix(const Mixture& mixture, const float* scale, i64 first, i64 last, float* x,
                                float* z, double* lost) {
        Row factors[kWalkHistory];
        const int count = mixture.factors ? mixture.count : 0;
        for (int j = 0; j < count; ++j) factors[j] = row_of(mixture.factors + j * K);
        for (i64 begin = first; begin < last; begin += kRowRun) {
            const i64 end = begin + kRowRun < last ? begin + kRowRun : last;
            Row sum = {};
            for (i64 i = begin; i < end; ++i) {
                Row value = read(mixture.vectors[0] + i * K);
                if (count) {
                    value *= factors[0];
                    for (int j = 1; j < count; ++j) value += factors[j] * read(mixture.vectors[j] + i * K);
                    write(x + i * K, value);
                }
                write(z + i * K, value * scale[i]);
                if (scale[i] == 0) sum += value;
            }
            add_to(lost, sum);
        }
    }

    BMRM_TARGET static void advance(const Terms<float>& terms, const float* scale, const float* x,
                                    const float* y, i64 first, i64 last, float* g, float* z, double* sums) {
        const Row m = row_of(terms.mass);
        const Restarts& restarts = terms.restarts;
        double all[K] = {};
        i64 e = std::lower_bound(restarts.nodes, restarts.nodes + restarts.count, first) - restarts.nodes;
        for (i64 begin = first; begin < last; begin += kRowRun) {
            const i64 end = begin + kRowRun < last ? begin + kRowRun : last;
            for (i64 i = begin; i < end; ++i) {
                Row value = read(y + (i - first) * K) * terms.damping;
                if (terms.constant) value += read(terms.constant + i * K);
                if (terms.u) value += m * terms.u[i];
                write(g + i * K, value);
            }
            for (; e < restarts.count && restarts.nodes[e] < end; ++e)
                g[restarts.nodes[e] * K + restarts.columns[e]] +=
                    static_cast<float>(terms.c[restarts.columns[e]] * restarts.shares[e]);
            Row size = {}, sum = {};
            for (i64 i = begin; i < end; ++i) {
                const Row value = read(g + i * K), residual = value - read(x + i * K);
                write(z + i * K, value * scale[i]);
                size += (Row)((RowBits)residual & 0x7fffffff);
                if (scale[i] == 0) sum += value;
                for (int k = 0; k < K; ++k) all[k] += g[i * K + k];
            }
            add_to(sums, size);
            add_to(sums + K, sum);
        }
        for (int k = 0; k < K; ++k) sums[2 * K + k] += all[k];
    }

    BMRM_TARGET static void inner_products(const Residual* residuals, int count, i64 first, i64 last,
                                           double* sums) {
        constexpr i64 run = 256 / K;
        alignas(64) float some[kWalkHistory][run * K];
        for (i64 begin = first; begin < last; begin += run) {
            const i64 size = (begin + run < last ? begin + run : last) - begin;
            for (int j = 0; j < count; ++j) {
                const float *g = residuals[j].image + begin * K, *x = residuals[j].point;
                for (i64 k = 0; k < size * K; ++k) some[j][k] = x ? g[k] - x[begin * K + k] : g[k];
            }
            for (int i = 0; i < count; ++i)
                for (int j = 0; j <= i; ++j) {
                    Row sum = {};
                    for (i64 k = 0; k < size * K; k += K) sum += read(some[i] + k) * read(some[j] + k);
                    add_to(sums + (i * count + j) * K, sum);
                }
        }
    }
};

/// Passes of exact steps over W of K columns, from `column` on.
template <int W>
struct ExactColumns {
    /// x = (x + e) factor where that is positive, else 0, and z = x scale. Adds to sums the sums of x, then
    /// those of x over the nodes with scale 0.
    BMRM_TARGET static void move(const float* e, const double* factor, const double* scale, i64 first,
                                 i64 last, i64 K, i64 column, double* x, double* z, double* sums) {
        double all[W] = {}, lost[W] = {};
        for (i64 i = first; i < last; ++i) {
            double* row = x + i * K + column;
            const float* change = e + i * K + column;
            const double s = scale[i];
            for (int k = 0; k < W; ++k) {
                double value = (row[k] + static_cast<double>(change[k])) * factor[column + k];
                value = value > 0 ? value : 0.0;
                row[k] = value;
                z[i * W + k] = value * s;
                all[k] += value;
                lost[k] += s == 0 ? value : 0.0;
            }
        }
        for (int k = 0; k < W; ++k) sums[k] += all[k], sums[W + k] += lost[k];
    }

    /// Adds to sums the sums of x, then those of x over the nodes with scale 0.
    BMRM_TARGET static void total(const double* x, const double* scale, i64 first, i64 last, i64 K,
                                  i64 column, double* sums) {
        double all[W] = {}, lost[W] = {};
        for (i64 i = first; i < last; ++i)
            for (int k = 0; k < W; ++k) {
                const double value = x[i * K + column + k];
                all[k] += value;
                lost[k] += scale[i] == 0 ? value : 0.0;
            }
        for (int k = 0; k < W; ++k) sums[k] += all[k], sums[W + k] += lost[k];
    }

    /// r = T(x) - x, given the products y of the nodes from `first` on. Adds to sums the l1 norms of r, the
    /// sums of T(x), and the sums of T(x) times the additions of each node.
    BMRM_TARGET static void residual(const Terms<double>& terms, const double* x,
                                     const std::int32_t* additions, const double* y, i64 first, i64 last,
                                     i64 K, i64 column, float* r, double* sums) {
        double size[W] = {}, all[W] = {}, counted[W] = {}, mass[W];
        for (int k = 0; k < W; ++k) mass[k] = terms.mass[column + k];
        const Restarts& restarts = terms.restarts;
        i64 e = std::lower_bound(restarts.nodes, restarts.nodes + restarts.count, first) - restarts.nodes;
        for (i64 i = first; i < last; ++i) {
            double image[W];
            const double share = terms.u ? terms.u[i] : 0.0, count = additions[i];
            for (int k = 0; k < W; ++k) image[k] = terms.damping * y[(i - first) * W + k] + mass[k] * share;
            for (; e < restarts.count && restarts.nodes[e] == i; ++e) {
                const i64 k = restarts.columns[e] - column;
                if (0 <= k && k < W) image[k] += terms.c[restarts.columns[e]] * restarts.shares[e];
            }
            const double* row = x + i * K + column;
            float* to = r + i * K + column;
            for (int k = 0; k < W; ++k) {
                const double difference = image[k] - row[k];
                to[k] = static_cast<float>(difference);
                size[k] += std::fabs(difference);
                all[k] += image[k];
                counted[k] += image[k] * count;
            }
        }
        for (int k = 0; k < W; ++k) sums[k] += size[k], sums[W + k] += all[k], sums[2 * W + k] += counted[k];
    }
};

/// The same for one column: the sums are those of kExactLanes lanes of nodes.
template <>
struct ExactColumns<1> {
    typedef double Lanes[kExactLanes];

    BMRM_INLINE static double sum(const Lanes& lanes) {
        double total = 0;
        for (int l = 0; l < kExactLanes; ++l) total += lanes[l];
        return total;
    }

    BMRM_TARGET static void move(const float* e, const double* factor, const double* scale, i64 first,
                                 i64 last, i64, i64, double* x, double* z, double* sums) {
        Lanes all = {}, lost = {};
        const double times = factor[0];
        for (i64 begin = first; begin < last; begin += kExactLanes) {
            const int count = static_cast<int>(last - begin < kExactLanes ? last - begin : kExactLanes);
            const auto one = [&](int l) __attribute__((always_inline)) {
                const i64 i = begin + l;
                double value = (x[i] + static_cast<double>(e[i])) * times;
                value = value > 0 ? value : 0.0;
                x[i] = value;
                z[i] = value * scale[i];
                all[l] += value;
                lost[l] += scale[i] == 0 ? value : 0.0;
            };
            if (count == kExactLanes)
                for (int l = 0; l < kExactLanes; ++l) one(l);
            else
                for (int l = 0; l < count; ++l) one(l);
        }
        sums[0] += sum(all);
        sums[1] += sum(lost);
    }

    BMRM_TARGET static void total(const double* x, const double* scale, i64 first, i64 last, i64, i64,
                                  double* sums) {
        Lanes all = {}, lost = {};
        for (i64 begin = first; begin < last; begin += kExactLanes) {
            const int count = static_cast<int>(last - begin < kExactLanes ? last - begin : kExactLanes);
            for (int l = 0; l < count; ++l) {
                all[l] += x[begin + l];
                lost[l] += scale[begin + l] == 0 ? x[begin + l] : 0.0;
            }
        }
        sums[0] += sum(all);
        sums[1] += sum(lost);
    }

    BMRM_TARGET static void residual(const Terms<double>& terms, const double* x,
                                     const std::int32_t* additions, const double* y, i64 first, i64 last, i64,
                                     i64, float* r, double* sums) {
        Lanes size = {}, all = {}, counted = {};
        const double d = terms.damping, c = terms.c[0], mass = terms.mass[0], even = c * terms.v0;
        for (i64 begin = first; begin < last; begin += kExactLanes) {
            const int count = static_cast<int>(last - begin < kExactLanes ? last - begin : kExactLanes);
            const auto one = [&](int l) __attribute__((always_inline)) {
                const i64 i = begin + l;
                double image = d * y[i - first] + even;
                if (terms.v) image += c * terms.v[i];
                if (terms.u) image += mass * terms.u[i];
                const double difference = image - x[i];
                r[i] = static_cast<float>(difference);
                size[l] += std::fabs(difference);
                all[l] += image;
                counted[l] += image * additions[i];
            };
            if (count == kExactLanes)
                for (int l = 0; l < kExactLanes; ++l) one(l);
            else
                for (int l = 0; l < count; ++l) one(l);
        }
        sums[0] += sum(size);
        sums[1] += sum(all);
        sums[2] += sum(counted);
    }
};

/// Products of rows of edges and W columns of T side by side.
template <class T, int W>
struct EdgeRows {
    typedef T Row __attribute__((vector_size(sizeof(T) * W), aligned(sizeof(T)), may_alias));
    static constexpr int kSums = sum_count<T, W>();

    BMRM_INLINE static void fetch(const T* z, const std::int32_t* idx, i64 k, i64 edges) {
        const char* place = reinterpret_cast<const char*>(z + idx[k < edges ? k : edges - 1] * i64{W});
        for (std::size_t b = 0; b < sizeof(Row); b += 64) __builtin_prefetch(place + b);
    }

    template <bool weighted>
    BMRM_INLINE static void add(const T* z, const std::int32_t* idx, const double* val, i64 k, Row& sum) {
        const Row row = *reinterpret_cast<const Row*>(z + idx[k] * i64{W});
        if constexpr (weighted)
            sum += row * static_cast<T>(val[k]);
        else
            sum += row;
    }

    template <bool weighted>
    BMRM_INLINE static void multiply(const i64* ptr, const std::int32_t* idx, const double* val, i64 edges,
                                     i64 first, i64 last, const T* z, T* out) {
        for (i64 i = first; i < last; ++i) {
            Row sum[kSums] = {};
            i64 k = ptr[i];
            for (; k + kSums <= ptr[i + 1]; k += kSums)
                for (int n = 0; n < kSums; ++n) {
                    fetch(z, idx, k + n + kRowsAhead, edges);
                    add<weighted>(z, idx, val, k + n, sum[n]);
                }
            for (; k < ptr[i + 1]; ++k) {
                fetch(z, idx, k + kRowsAhead, edges);
                add<weighted>(z, idx, val, k, sum[0]);
            }
            for (int n = 1; n < kSums; ++n) sum[0] += sum[n];
            *reinterpret_cast<Row*>(out + (i - first) * W) = sum[0];
        }
    }

    /// The sums over the edges of the targets [first, last) of W entries of z each, times the weight, to out.
    BMRM_TARGET static void rows(const i64* ptr, const std::int32_t* idx, const double* val, i64 edges,
                                 i64 first, i64 last, const T* z, T* out) {
        if (val)
            multiply<true>(ptr, idx, val, edges, first, last, z, out);
        else
            multiply<false>(ptr, idx, val, edges, first, last, z, out);
    }
};

}  // namespace bmrm::BMRM_ISA
