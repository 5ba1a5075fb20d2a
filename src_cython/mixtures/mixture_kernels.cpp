// One panel of rows of an EM step, for one instruction set (cpu/isa.h).
#include "cpu/exponential.h"
//
#include "mixtures/mixture.h"

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

const MixtureKernels mixture_kernels = {MixtureLoops::log_density, MixtureLoops::shares,
                                        MixtureLoops::add_moments};

}  // namespace bmrm::BMRM_ISA
