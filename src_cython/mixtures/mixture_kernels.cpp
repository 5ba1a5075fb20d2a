// One panel of rows of an EM step, for one instruction set (cpu/isa.h).
#include "cpu/exponential.h"
//
#include "mixtures/mixture.h"
#include "parts/parts.h"

namespace bmrm::BMRM_ISA {

struct MixtureLoops {
    static constexpr int kGroups = kMixtureRows / BMRM_DOUBLES;

    BMRM_INLINE static Doubles load(const double* from, int v) {
        return *reinterpret_cast<const Doubles*>(from + v * BMRM_DOUBLES);
    }
    BMRM_INLINE static void store(double* to, int v, const Doubles& value) {
        *reinterpret_cast<Doubles*>(to + v * BMRM_DOUBLES) = value;
    }
    BMRM_INLINE static double sum(const Doubles& value) {
        // Halves are added until one number is left: three additions for eight numbers.
        double lane[BMRM_DOUBLES];
        store(lane, 0, value);
        for (int half = BMRM_DOUBLES / 2; half > 0; half /= 2)
            for (int l = 0; l < half; ++l) lane[l] += lane[l + half];
        return lane[0];
    }

    /// e = x - mean, both (d, kMixtureRows).
    BMRM_INLINE static void subtract_mean(const double* x, i64 d, const MixtureComponent& of, double* e) {
        for (i64 f = 0; f < d; ++f)
            for (int v = 0; v < kGroups; ++v)
                store(e + f * kMixtureRows, v, load(x + f * kMixtureRows, v) - of.mean[f]);
    }

    /// Logarithms of weight and density of one component at the rows of a panel x (d, kMixtureRows).
    BMRM_TARGET static void log_density(const double* x, i64 d, const MixtureComponent& of, double* e,
                                        double* out) {
        Doubles half[kGroups];
        for (int v = 0; v < kGroups; ++v) half[v] = Doubles{};
        if (of.full) {
            subtract_mean(x, d, of, e);
            for (i64 f = 0; f < d; ++f) {
                Doubles y[kGroups];
                for (int v = 0; v < kGroups; ++v) y[v] = Doubles{};
                for (i64 g = 0; g <= f; ++g)
                    for (int v = 0; v < kGroups; ++v)
                        y[v] += of.root[f * d + g] * load(e + g * kMixtureRows, v);
                for (int v = 0; v < kGroups; ++v) half[v] += y[v] * y[v];
            }
        } else {
            for (i64 f = 0; f < d; ++f)
                for (int v = 0; v < kGroups; ++v) {
                    const Doubles y = of.root[f] * (load(x + f * kMixtureRows, v) - of.mean[f]);
                    half[v] += y * y;
                }
        }
        for (int v = 0; v < kGroups; ++v) store(out, v, of.constant - 0.5 * half[v]);
    }

    /// From logarithms q (k, kMixtureRows): shares of the components, and the logarithm of their sum per row.
    BMRM_TARGET static void shares(double* q, i64 k, double* log_sum) {
        Doubles top[kGroups], total[kGroups];
        for (int v = 0; v < kGroups; ++v) {
            top[v] = load(q, v);
            total[v] = Doubles{};
        }
        for (i64 j = 1; j < k; ++j)
            for (int v = 0; v < kGroups; ++v) {
                const Doubles value = load(q + j * kMixtureRows, v);
                top[v] = value > top[v] ? value : top[v];
            }
        for (i64 j = 0; j < k; ++j) {
            double* row = q + j * kMixtureRows;
            for (int v = 0; v < kGroups; ++v) {
                store(row, v, exponential(load(row, v) - top[v]));
                total[v] += load(row, v);
            }
        }
        Doubles inverse[kGroups];
        for (int v = 0; v < kGroups; ++v) inverse[v] = 1.0 / total[v];
        for (i64 j = 0; j < k; ++j)
            for (int v = 0; v < kGroups; ++v)
                store(q + j * kMixtureRows, v, load(q + j * kMixtureRows, v) * inverse[v]);
        for (int v = 0; v < kGroups; ++v)
            for (int l = 0; l < BMRM_DOUBLES; ++l)
                log_sum[v * BMRM_DOUBLES + l] = top[v][l] + std::log(total[v][l]);
    }

    /// Adds w, w (x - m) and w (x - m)(x - m)' to the sums of a component: w is the share times the row's
    /// weight.
    BMRM_TARGET static void add_moments(const double* x, i64 d, const MixtureComponent& of, const double* w,
                                        double* e, double* sums) {
        double *first = sums + 1, *second = sums + 1 + d;
        Doubles weight[kGroups], all = Doubles{};
        for (int v = 0; v < kGroups; ++v) {
            weight[v] = load(w, v);
            all += weight[v];
        }
        sums[0] += sum(all);
        if (of.full) {
            subtract_mean(x, d, of, e);
            for (i64 f = 0; f < d; ++f) {
                Doubles t[kGroups], total = Doubles{};
                for (int v = 0; v < kGroups; ++v) {
                    t[v] = weight[v] * load(e + f * kMixtureRows, v);
                    total += t[v];
                }
                first[f] += sum(total);
                for (i64 g = 0; g <= f; ++g) {
                    Doubles product = Doubles{};
                    for (int v = 0; v < kGroups; ++v) product += t[v] * load(e + g * kMixtureRows, v);
                    second[f * d + g] += sum(product);
                }
            }
            return;
        }
        for (i64 f = 0; f < d; ++f) {
            Doubles total = Doubles{}, product = Doubles{};
            for (int v = 0; v < kGroups; ++v) {
                const Doubles difference = load(x + f * kMixtureRows, v) - of.mean[f];
                const Doubles t = weight[v] * difference;
                total += t;
                product += t * difference;
            }
            first[f] += sum(total);
            second[f] += sum(product);
        }
    }
};

/// Calls use(first row, rows, packed rows, shares, log sums, scratch) for each panel of a part of the rows.
template <class Use>
void for_mixture_panels(const Mixture& m, const Parts& parts, int threads, const Use& use) {
    for_each_task(parts.count, threads_for(m.n * m.k * m.root_size(), threads), [&](i64 p) {
        Buffer<double> x(m.d * kMixtureRows), e(m.d * kMixtureRows), q(m.k * kMixtureRows);
        double log_sum[kMixtureRows];
        for (i64 base = parts.begin(p); base < parts.end(p); base += kMixtureRows) {
            m.pack(base, x.get());
            for (i64 j = 0; j < m.k; ++j)
                MixtureLoops::log_density(x.get(), m.d, m.component(j), e.get(), q.get() + j * kMixtureRows);
            MixtureLoops::shares(q.get(), m.k, log_sum);
            use(p, base, std::min(kMixtureRows, m.n - base), x.get(), q.get(), log_sum, e.get());
        }
    });
}

void step(const Mixture& m, double* sums, double* parts_out, int threads) {
    const i64 size = mixture_sums(m.k, m.d, m.full);
    const Parts parts(m.n, size, m.total);
    Buffer<double> own(parts_out ? 0 : parts.count * size);
    double* all = parts_out ? parts_out : own.get();
    std::fill_n(all, parts.count * size, 0.0);
    for_mixture_panels(
        m, parts, threads,
        [&](i64 p, i64 base, i64 rows, const double* x, double* q, const double* log_sum, double* e) {
            double* part = all + p * size;
            double row_weights[kMixtureRows] = {};
            double likelihood = 0.0;
            for (i64 l = 0; l < rows; ++l) {
                row_weights[l] = m.weights ? m.weights[base + l] : 1.0;
                likelihood += row_weights[l] * log_sum[l];
            }
            part[size - 1] += likelihood;
            for (i64 j = 0; j < m.k; ++j) {
                double* share = q + j * kMixtureRows;
                for (i64 l = 0; l < kMixtureRows; ++l) share[l] *= row_weights[l];
                MixtureLoops::add_moments(x, m.d, m.component(j), share, e, part + j * m.moments());
            }
        });
    if (!parts_out) accumulate_parts(all, parts.count, size, size, sums, threads);
}

void shares(const Mixture& m, double* log_densities, double* shares, int threads) {
    for_mixture_panels(
        m, Parts(m.n, 1, m.total), threads,
        [&](i64, i64 base, i64 rows, const double*, double* q, const double* log_sum, double*) {
            for (i64 l = 0; l < rows; ++l) {
                log_densities[base + l] = log_sum[l];
                for (i64 j = 0; j < m.k; ++j) shares[(base + l) * m.k + j] = q[j * kMixtureRows + l];
            }
        });
}

const MixtureKernels mixture_kernels = {step, shares};

}  // namespace bmrm::BMRM_ISA
