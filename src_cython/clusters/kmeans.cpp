#include "clusters/kmeans.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "parts/parts.h"

namespace bmrm {
namespace {

double rounding_of(double terms, double unit) {
    return terms * unit < 0.5 ? terms * unit / (1.0 - terms * unit) : std::numeric_limits<double>::infinity();
}

/// k centres with each feature contiguous.
inline Buffer<double> transpose_centers(const double* centers, i64 k, i64 d) {
    constexpr i64 kSide = 8;  // of a square of numbers, each row of which takes a line of cache
    Buffer<double> out(k * d);
    for (i64 f = 0; f < d; f += kSide)
        for (i64 j = 0; j < k; ++j)
            for (i64 e = f; e < std::min(d, f + kSide); ++e) out[e * k + j] = centers[j * d + e];
    return out;
}

/// The least of k numbers; of equal ones the first.
inline i64 first_least(const double* values, i64 k) {
    i64 at = 0;
    for (i64 j = 1; j < k; ++j)
        if (values[j] < values[at]) at = j;
    return at;
}

/// Runs part(begin, end, sums or null, weights of the clusters) over the parts.
template <class Part>
PassCounts run_parts(const Parts& parts, const PassArguments& to, i64 d, int threads, const Part& part) {
    // The weights of a part are written with every row: they share no line of cache with the next part's
    // sums.
    constexpr i64 kLine = 16;  // numbers of two lines, which are read together
    const i64 size = to.want_sums ? to.k * d : 0, numbers = part_sums(to.want_sums, to.k, d),
              stride = to.parts ? numbers : (numbers + kLine - 1) / kLine * kLine;
    Buffer<double> own(to.parts ? 0 : parts.count * stride);
    double* all = to.parts ? to.parts : own.get();
    std::vector<PassCounts> counts(parts.count);
    for_each_task(parts.count, threads, [&](i64 p) {
        double* sum = all + p * stride;
        std::fill_n(sum, numbers, 0.0);
        counts[p] = part(parts.begin(p), parts.end(p), to.want_sums ? sum : nullptr, sum + size);
        sum[numbers - 1] = counts[p].inertia;
    });
    if (!to.parts) accumulate_parts(all, parts.count, numbers, stride, to.sums, threads);
    PassCounts found{};
    for (const PassCounts& one : counts) {
        found.changed += one.changed;
        found.rechecked += one.rechecked;
    }
    return found;
}

/// The gain of moving a row of weight w from its centre to the best other one; `distances` to all centres.
inline double best_move(const double* distances, i64 k, i64 from, double w, const double* cluster_weights) {
    const double rest = cluster_weights[from] - w;
    if (w <= 0.0 || rest <= 0.0) return 0.0;
    const double saved = cluster_weights[from] / rest * w * distances[from];
    double best = 0.0;
    for (i64 j = 0; j < k; ++j)
        if (j != from)
            best = std::max(best, saved - cluster_weights[j] / (cluster_weights[j] + w) * w * distances[j]);
    // Both terms are sums of squares: differences of their rounding do not count as a gain.
    return best > 1e-12 * saved ? best : 0.0;
}

template <class V>
class DenseClusters {
  public:
    DenseClusters(const V* X, i64 n, i64 d, i64 total, const double* shift, double scale, int threads)
        : X_(X),
          n_(n),
          total_(total),
          d_(d),
          threads_(threads),
          shift_(shift, shift + d),
          scale_(scale),
          panels_((n + kPanelRows - 1) / kPanelRows * kPanelRows * d),
          norms_(n) {
        const Parts parts(n, 1, total);
        for_each_task(parts.count, threads_, [&](i64 p) {
            for (i64 base = parts.begin(p); base < parts.end(p); base += kPanelRows) pack(base);
        });
    }

    PassCounts assign(const PassArguments& to) const {
        const i64 k = to.k, tiles = (k + kTileCenters - 1) / kTileCenters;
        Buffer<float> values(tiles * kTileCenters * d_), halves(tiles * kTileCenters);
        const double widest = tile_centers(to.centers, k, values.get(), halves.get());
        const double g = rounding_of(static_cast<double>(d_ + 6), 0x1p-24);
        const Certificate certain{
            2.01 * (g * widest * widest / 2 + static_cast<double>(d_) * 0x1p-140 * (1 + widest)),
            2.01 * g * widest};
        Centers centers{
            {values.get(), halves.get(), tiles}, certain, transpose_centers(to.centers, k, d_), {}};
        const bool bounded =
            to.want_sums && to.kept && to.bounds && k >= kMinBoundedCenters && k * d_ >= kMinBoundedWork;
        if (bounded) centers.single = for_single_rows(centers.tiles, k);
        PassCounts found{};
        const NearestKernels& kernels = nearest_kernels();
        found = to.want_sums ? assign_and_add(to, centers, kernels) : assign_only(to, centers, kernels);
        return found;
    }

    /// Squared distances from each row to the centre of its label.
    void own_distances(const PassArguments& to, double* out) const {
        const Parts parts(n_, 1, total_);
        const NearestKernels& kernels = nearest_kernels();
        for_each_task(parts.count, threads_for(n_ * d_, threads_), [&](i64 p) {
            for (i64 i = parts.begin(p); i < parts.end(p); ++i)
                out[i] = kernels.of<V>().deviation(X_ + i * d_, to.centers + to.labels[i] * d_, d_, 1.0,
                                                   static_cast<double*>(nullptr));
        });
    }

    PassCounts single_moves(const PassArguments& to) const {
        const Buffer<double> columns = transpose_centers(to.centers, to.k, d_);
        const Parts parts(n_, 1, total_);
        std::vector<PassCounts> counts(parts.count);
        const NearestKernels& kernels = nearest_kernels();
        for_each_task(parts.count, threads_for(n_ * d_ * to.k, threads_), [&](i64 p) {
            Buffer<double> exact(to.k);
            for (i64 i = parts.begin(p); i < parts.end(p); ++i) {
                kernels.of<V>().all_distances(X_ + i * d_, d_, columns.get(), to.k, exact.get());
                const double gain = best_move(exact.get(), to.k, to.labels[i],
                                              to.weights ? to.weights[i] : 1.0, to.cluster_weights);
                counts[p].changed += gain > 0.0;
                counts[p].largest = std::max(counts[p].largest, gain);
            }
        });
        PassCounts all{};
        for (const PassCounts& one : counts) {
            all.changed += one.changed;
            all.largest = std::max(all.largest, one.largest);
        }
        return all;
    }

    /// For each of some candidates (count x d): what the sum of w min(closest, distance) would be if it
    /// became a centre, by panels: potentials[c * panels + panel]. Unless it is null, `least_distances` gets
    /// the minima, in rows `step` numbers apart; that of a single candidate may be `closest`.
    void potentials(const double* candidates, i64 count, const double* weights, const float* closest,
                    float* least_distances, i64 step, double* potentials) const {
        // Kernels exist for 1, 2 and 4 points: a last tile of 3 repeats a point.
        const i64 panels = (n_ + kPanelRows - 1) / kPanelRows, padded = count + count % kTileCenters / 3;
        Buffer<float> points(padded * d_);
        for (i64 c = 0; c < padded; ++c) {
            const i64 first = c / kTileCenters * kTileCenters,
                      width = std::min<i64>(kTileCenters, padded - first);
            const double* row = candidates + std::min(c, count - 1) * d_;
            float* point = points.get() + first * d_ + c - first;
            for (i64 f = 0; f < d_; ++f) point[f * width] = static_cast<float>((row[f] - shift_[f]) * scale_);
        }
        const Parts parts(n_, 1, total_);
        const NearestKernels& kernels = nearest_kernels();
        for_each_task(parts.count, threads_for(n_ * d_ * count, threads_), [&](i64 p) {
            alignas(64) float before[kPanelRows], least[kTileCenters * kPanelRows];
            alignas(64) double row_weights[kPanelRows];
            double sums[kTileCenters];
            for (i64 base = parts.begin(p); base < parts.end(p); base += kPanelRows) {
                const i64 rows = std::min(kPanelRows, n_ - base);
                std::fill_n(before, kPanelRows, 0.0f);
                std::fill_n(row_weights, kPanelRows, 1.0);
                std::copy_n(closest + base, rows, before);
                if (weights) std::copy_n(weights + base, rows, row_weights);
                for (i64 first = 0; first < count; first += kTileCenters) {
                    const i64 width = std::min<i64>(kTileCenters, padded - first);
                    kernels.closer[width / 2](panels_.get() + base * d_, d_, points.get() + first * d_,
                                              before, row_weights, least, sums);
                    for (i64 c = first; c < std::min<i64>(count, first + kTileCenters); ++c)
                        potentials[c * panels + base / kPanelRows] = sums[c - first];
                    if (!least_distances) continue;
                    for (i64 c = first; c < std::min<i64>(count, first + kTileCenters); ++c)
                        std::copy_n(least + (c - first) * kPanelRows, rows,
                                    least_distances + c * step + base);
                }
            }
        });
    }

    i64 bytes() const { return panels_.bytes() + norms_.bytes(); }

  private:
    /// A label is certain if the two least values are further apart than constant + slope |y|.
    struct Certificate {
        double constant, slope;
    };

    /// Centres for products of single rows: in sets of kSetCenters, feature by feature, and one by one.
    struct SingleRowCenters {
        Buffer<float> values, halves, rows;
        i64 sets = 0;
    };

    struct Centers {
        CenterTiles tiles;
        Certificate certain;
        Buffer<double> columns;
        SingleRowCenters single;  // without sets if there are no bounds
    };

    /// The nearest centres of the rows of a panel.
    struct Panel {
        alignas(64) float least[kPanelRows], second[kPanelRows];
        alignas(64) std::int32_t label[kPanelRows];
        alignas(64) std::uint8_t open[kPanelRows];
    };

    /// Calls row(l) for the rows whose byte is 1; most bytes are 0, so eight are looked at at once.
    template <class Row>
    static void for_each_open(const std::uint8_t* open, i64 rows, const Row& row) {
        for (i64 first = 0; first < rows; first += 8) {
            std::uint64_t word;
            std::memcpy(&word, open + first, 8);
            if (!word) continue;
            for (i64 l = first; l < std::min(rows, first + 8); ++l)
                if (open[l]) row(l);
        }
    }

    /// The nearest centre of a row of a panel.
    i64 decide(const NearestKernels& kernels, const Centers& centers, const Panel& panel, i64 base, i64 l,
               i64 k, Buffer<double>& exact, i64& rechecked) const {
        const i64 i = base + l;
        if (panel.second[l] - panel.least[l] > centers.certain.constant + centers.certain.slope * norms_[i])
            return panel.label[l];
        kernels.of<V>().all_distances(X_ + i * d_, d_, centers.columns.get(), k, exact.get());
        ++rechecked;
        return first_least(exact.get(), k);
    }

    PassCounts assign_only(const PassArguments& to, const Centers& centers,
                           const NearestKernels& kernels) const {
        const Parts parts(n_, part_sums(false, to.k, d_), total_);
        const auto one_part = [&](i64 begin, i64 end, double*, double* cluster_weights) {
            Panel panel;
            Buffer<double> exact(to.k);
            PassCounts one{};
            for (i64 base = begin; base < end; base += kPanelRows) {
                kernels.nearest(panels_.get() + base * d_, d_, centers.tiles, panel.least, panel.second,
                                panel.label);
                double inertia = 0.0;
                for (i64 l = 0; l < std::min(kPanelRows, end - base); ++l) {
                    const i64 i = base + l,
                              at = decide(kernels, centers, panel, base, l, to.k, exact, one.rechecked);
                    const double w = to.weights ? to.weights[i] : 1.0;
                    inertia += w * kernels.of<V>().deviation(X_ + i * d_, to.centers + at * d_, d_, w,
                                                             static_cast<double*>(nullptr));
                    cluster_weights[at] += w;
                    one.changed += to.labels[i] != at;
                    to.labels[i] = static_cast<std::int32_t>(at);
                }
                one.inertia += inertia;
            }
            return one;
        };
        return run_parts(parts, to, d_, threads_for(n_ * d_ * (to.k + 4), threads_), one_part);
    }

    /// The same with sums, for which only rows are read that have changed since the last pass.
    PassCounts assign_and_add(const PassArguments& to, const Centers& centers,
                              const NearestKernels& kernels) const {
        const Parts parts(n_, part_sums(true, to.k, d_), total_);
        std::vector<KeptMoments> own;
        std::vector<KeptMoments>& all = to.kept ? *to.kept : own;
        all.resize(parts.count);
        KeptBounds* bounds = centers.single.sets ? to.bounds : nullptr;
        const bool bounded = bounds && bounds->begin(to.centers, to.k, d_, n_, scale_);
        const auto weight = [&](i64 i) { return to.weights ? to.weights[i] : 1.0; };
        const auto one_part = [&](i64 begin, i64 end, double* sums, double* cluster_weights) {
            KeptMoments& kept = all[begin / parts.each];
            const bool afresh = kept.begin(to.centers, to.k, d_, end - begin);
            Panel panel;
            Buffer<double> exact(to.k);
            SingleRows single(bounds ? d_ : 0, centers.single.sets);
            PassCounts one{};
            for (i64 base = begin; base < end; base += kPanelRows) {
                const i64 rows = std::min(kPanelRows, end - base);
                const std::int32_t* labels = kept.labels() + (base - begin);
                if (bounded && !afresh && rows == kPanelRows &&
                    decide_by_bounds(centers, kernels, *bounds, base, labels, to.k, single, exact,
                                     one.rechecked)) {
                    for (i64 l = 0; l < rows; ++l) {
                        if (single.label[l] == labels[l] && single.label[l] == to.labels[base + l]) continue;
                        const i64 i = base + l;
                        kept.put(kernels, i - begin, single.label[l], X_ + i * d_, weight(i));
                        one.changed += to.labels[i] != single.label[l];
                        to.labels[i] = single.label[l];
                    }
                    continue;
                }
                find_nearest(kernels, centers, bounds, base, panel);
                if (afresh || rows < kPanelRows)
                    std::fill_n(panel.open, rows, std::uint8_t{1});
                else
                    kernels.find_open(panel.least, panel.second, panel.label, norms_.get() + base,
                                      static_cast<float>(centers.certain.constant),
                                      static_cast<float>(centers.certain.slope), labels, to.labels + base,
                                      panel.open);
                for_each_open(panel.open, rows, [&](i64 l) {
                    const i64 i = base + l,
                              at = decide(kernels, centers, panel, base, l, to.k, exact, one.rechecked);
                    if (bounds && at != panel.label[l]) forget_bounds(*bounds, base, l);
                    kept.put(kernels, i - begin, at, X_ + i * d_, weight(i));
                    one.changed += to.labels[i] != at;
                    to.labels[i] = static_cast<std::int32_t>(at);
                });
            }
            one.inertia = kept.end(
                kernels, to.centers, sums, cluster_weights, [&](i64 l) { return X_ + (begin + l) * d_; },
                [&](i64 l) { return weight(begin + l); });
            return one;
        };
        return run_parts(parts, to, d_, threads_for(n_ * d_ * (to.k + 4), threads_), one_part);
    }

    /// The products of a panel, and from them its bounds.
    void find_nearest(const NearestKernels& kernels, const Centers& centers, KeptBounds* bounds, i64 base,
                      Panel& panel) const {
        const float* values = panels_.get() + base * d_;
        if (!bounds) {
            kernels.nearest(values, d_, centers.tiles, panel.least, panel.second, panel.label);
            return;
        }
        kernels.nearest_by_group(values, d_, centers.tiles,
                                 bounds->sets_per_group * (kSetCenters / kTileCenters), panel.least,
                                 panel.second, panel.label, bounds->lower(base));
        alignas(64) float norms[kPanelRows] = {};
        std::copy_n(norms_.get() + base, std::min(kPanelRows, n_ - base), norms);
        kernels.set_bounds(norms, panel.least, static_cast<float>(centers.certain.constant),
                           static_cast<float>(centers.certain.slope), bounds->groups, bounds->upper(base),
                           bounds->lower(base));
    }

    /// Sets bounds that prove nothing, for a row that was resolved in float64.
    static void forget_bounds(KeptBounds& bounds, i64 base, i64 l) {
        bounds.upper(base)[l] = std::numeric_limits<float>::infinity();
        for (i64 g = 0; g < bounds.groups; ++g) bounds.lower(base)[g * kPanelRows + l] = 0.0f;
    }

    /// Rows of a panel that are multiplied one by one.
    struct SingleRows {
        SingleRows(i64 d, i64 sets) : rows(kPanelRows * d), products(kRowsAtOnce * sets * kSetCenters) {}
        Buffer<float> rows, products;
        alignas(64) std::int32_t label[kPanelRows];
        alignas(64) std::uint8_t open[kPanelRows], contested[kPanelRows] = {};
        alignas(64) std::uint8_t need[kMaxCenterGroups * kPanelRows];
        alignas(64) float own[kPanelRows] = {}, apart[kPanelRows];
        i64 list[kPanelRows];
    };

    /// Finds the labels of a panel by its bounds and the products that they leave; false, and nothing but
    /// bounds is changed, if these are too many. `labels` are those of the last pass.
    bool decide_by_bounds(const Centers& centers, const NearestKernels& kernels, KeptBounds& bounds, i64 base,
                          const std::int32_t* labels, i64 k, SingleRows& to, Buffer<double>& exact,
                          i64& rechecked) const {
        const i64 groups = bounds.groups, per_group = bounds.sets_per_group * kSetCenters;
        float *upper = bounds.upper(base), *lower = bounds.lower(base);
        const i64 needed = kernels.move_bounds(labels, bounds.moves.data(), bounds.group_moves.data(), groups,
                                               upper, lower, to.open);
        if (static_cast<double>(needed) > kManyProducts * static_cast<double>(kPanelRows * groups))
            return false;
        std::copy_n(labels, kPanelRows, to.label);
        if (needed == 0) return true;
        for_each_open(to.open, kPanelRows, [&](i64 l) {
            float* y = to.rows.get() + l * d_;
            kernels.of<V>().pack_row(X_ + (base + l) * d_, shift_.data(), scale_, d_, y);
            const i64 j = labels[l];
            to.own[l] = kernels.product(y, centers.single.rows.get() + j * d_, d_, centers.single.halves[j]);
            to.contested[l] = 0;
        });
        kernels.find_needs(norms_.get() + base, to.own, static_cast<float>(centers.certain.constant),
                           static_cast<float>(centers.certain.slope), to.open, groups, lower, upper, to.apart,
                           to.need);
        for (i64 g = 0; g < groups; ++g)
            multiply_group(centers, kernels, g, bounds.sets_per_group, labels, base, to,
                           lower + g * kPanelRows);
        for_each_open(to.contested, kPanelRows, [&](i64 l) {
            to.label[l] = static_cast<std::int32_t>(
                decide_alone(centers, kernels, bounds, base, l, per_group, k, to, exact, rechecked));
            to.contested[l] = 0;
        });
        return true;
    }

    /// Multiplies the listed rows of a panel by a group of centres; sets their bounds, and which are
    /// contested.
    void multiply_group(const Centers& centers, const NearestKernels& kernels, i64 g, i64 sets_per_group,
                        const std::int32_t* labels, i64 base, SingleRows& to, float* lower) const {
        const i64 first = g * sets_per_group, sets = std::min(sets_per_group, centers.single.sets - first),
                  width = sets * kSetCenters;
        i64 listed = 0;
        for_each_open(to.need + g * kPanelRows, kPanelRows, [&](i64 l) { to.list[listed++] = l; });
        for (i64 done = 0, count; done < listed; done += count) {
            const i64 left = listed - done;
            count = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
            const float* rows[kRowsAtOnce];
            for (i64 r = 0; r < count; ++r) rows[r] = to.rows.get() + to.list[done + r] * d_;
            for (i64 s = 0; s < sets; ++s)
                kernels.multiply_set(rows, count, d_,
                                     centers.single.values.get() + (first + s) * kSetCenters * d_,
                                     centers.single.halves.get() + (first + s) * kSetCenters, width,
                                     to.products.get() + s * kSetCenters);
            for (i64 r = 0; r < count; ++r) {
                const i64 l = to.list[done + r];
                const float least =
                    kernels.least_of(to.products.get() + r * width, width, labels[l] - first * kSetCenters);
                if (!(least - to.own[l] > to.apart[l])) to.contested[l] = 1;
                lower[l] = lower_bound(norms_[base + l], least, to.apart[l]);
            }
        }
    }

    /// The nearest centre of a row by its products with all centres; sets its bounds.
    i64 decide_alone(const Centers& centers, const NearestKernels& kernels, KeptBounds& bounds, i64 base,
                     i64 l, i64 per_group, i64 k, SingleRows& to, Buffer<double>& exact,
                     i64& rechecked) const {
        const float* y = to.rows.get() + l * d_;
        float* q = to.products.get();
        for (i64 s = 0; s < centers.single.sets; ++s)
            kernels.multiply_set(&y, 1, d_, centers.single.values.get() + s * kSetCenters * d_,
                                 centers.single.halves.get() + s * kSetCenters, 0, q + s * kSetCenters);
        const i64 all = centers.single.sets * kSetCenters;
        const float least = kernels.least_of(q, all, -1), norm = norms_[base + l];
        i64 at = 0;
        while (at < k - 1 && !(q[at] == least)) ++at;
        bounds.upper(base)[l] = upper_bound(norm, least, to.apart[l]);
        float second = std::numeric_limits<float>::infinity();
        for (i64 g = 0; g < bounds.groups; ++g) {
            const i64 first = g * per_group;
            const float other = kernels.least_of(q + first, std::min(per_group, all - first), at - first);
            second = std::min(second, other);
            bounds.lower(base)[g * kPanelRows + l] = lower_bound(norm, other, to.apart[l]);
        }
        if (second - least > centers.certain.constant + centers.certain.slope * norm) return at;
        kernels.of<V>().all_distances(X_ + (base + l) * d_, d_, centers.columns.get(), k, exact.get());
        ++rechecked;
        const i64 found = first_least(exact.get(), k);
        if (found != at) forget_bounds(bounds, base, l);
        return found;
    }

    void pack(i64 base) {
        const i64 rows = std::min(kPanelRows, n_ - base);
        float* panel = panels_.get() + base * d_;
        for (i64 l = 0; l < kPanelRows; ++l) {
            if (l >= rows) {
                for (i64 f = 0; f < d_; ++f) panel[f * kPanelRows + l] = 0.0f;
                continue;
            }
            const V* x = X_ + (base + l) * d_;
            double square = 0.0;
            for (i64 f = 0; f < d_; ++f) {
                const double y = (static_cast<double>(x[f]) - shift_[f]) * scale_;
                square += y * y;
                panel[f * kPanelRows + l] = static_cast<float>(y);
            }
            norms_[base + l] = static_cast<float>(std::sqrt(square) * (1.0 + 0x1p-20));
        }
    }

    SingleRowCenters for_single_rows(const CenterTiles& from, i64 k) const {
        SingleRowCenters to;
        to.sets = (k + kSetCenters - 1) / kSetCenters;
        const i64 padded = to.sets * kSetCenters;
        to.values = Buffer<float>(padded * d_);
        to.halves = Buffer<float>(padded);
        to.rows = Buffer<float>(k * d_);
        for (i64 j = 0; j < padded; ++j) {
            const float* tile = from.values + j / kTileCenters * kTileCenters * d_ + j % kTileCenters;
            float* set = to.values.get() + j / kSetCenters * kSetCenters * d_ + j % kSetCenters;
            to.halves[j] = j < k ? from.halves[j] : std::numeric_limits<float>::infinity();
            for (i64 f = 0; f < d_; ++f) {
                const float z = j < k ? tile[f * kTileCenters] : 0.0f;
                set[f * kSetCenters] = z;
                if (j < k) to.rows[j * d_ + f] = z;
            }
        }
        return to;
    }

    /// Returns the largest norm of a centre.
    double tile_centers(const double* centers, i64 k, float* values, float* halves) const {
        const i64 padded = (k + kTileCenters - 1) / kTileCenters * kTileCenters;
        double widest = 0.0;
        for (i64 j = 0; j < padded; ++j) {
            float* tile = values + j / kTileCenters * kTileCenters * d_ + j % kTileCenters;
            double square = j < k ? 0.0 : std::numeric_limits<double>::infinity();
            for (i64 f = 0; f < d_; ++f) {
                const double z = j < k ? (centers[j * d_ + f] - shift_[f]) * scale_ : 0.0;
                square += z * z;
                tile[f * kTileCenters] = static_cast<float>(z);
            }
            halves[j] = static_cast<float>(square / 2);
            if (j < k) widest = std::max(widest, std::sqrt(square) * (1.0 + 0x1p-20));
        }
        return widest;
    }

    const V* X_;
    i64 n_, total_, d_;
    int threads_;
    std::vector<double> shift_;
    double scale_;
    Buffer<float> panels_, norms_;
};

template <class I, class V>
class SparseClusters {
  public:
    SparseClusters(const i64* ptr, const I* index, const V* value, i64 n, i64 d, i64 total, int threads)
        : ptr_(ptr),
          index_(index),
          value_(value),
          n_(n),
          total_(total),
          d_(d),
          threads_(threads),
          squares_(n) {
        for_each_row(1, [&](i64 i, double*) {
            double sum = 0.0;
            for (i64 e = ptr_[i]; e < ptr_[i + 1]; ++e) sum += entry(e) * entry(e);
            squares_[i] = sum;
        });
    }

    PassCounts assign(const PassArguments& to) const {
        const i64 k = to.k;
        const Buffer<double> columns = transpose_centers(to.centers, k, d_);
        const Buffer<double> squares = center_squares(to.centers, k);
        const double widest =
            std::sqrt(*std::max_element(squares.get(), squares.get() + k)) * (1.0 + 0x1p-20);
        const Parts parts(n_, part_sums(to.want_sums, k, d_), total_);
        PassCounts found{};
        const NearestKernels& kernels = nearest_kernels();
        found = run_parts(parts, to, d_, threads_for(ptr_[n_] * (k + 4), threads_),
                          [&](i64 begin, i64 end, double* sums, double* cluster_weights) {
                              Buffer<double> products(k), dense(d_);
                              std::fill_n(dense.get(), d_, 0.0);
                              PassCounts one{};
                              for (i64 i = begin; i < end; ++i) {
                                  const i64 first = ptr_[i], length = ptr_[i + 1] - first;
                                  kernels.sparse_products(index_ + first, value_ ? value_ + first : nullptr,
                                                          length, columns.get(), k, products.get());
                                  i64 at = 0;
                                  double least = std::numeric_limits<double>::infinity(), second = least;
                                  for (i64 j = 0; j < k; ++j) {
                                      const double q = squares[j] / 2 - products[j];
                                      if (q < least) {
                                          second = least, least = q, at = j;
                                      } else if (q < second) {
                                          second = q;
                                      }
                                  }
                                  const double dot = products[at];
                                  double square = positive_part(squares_[i], dot, squares[at]);
                                  // |c|^2 is a sum of d terms, x . c one of `length` terms
                                  const double g = rounding_of(static_cast<double>(d_ + 6), 0x1p-53),
                                               h = rounding_of(static_cast<double>(length + 6), 0x1p-53),
                                               norm = std::sqrt(squares_[i]) * (1.0 + 0x1p-20),
                                               error = g * widest * widest / 2 + h * norm * widest;
                                  if (!(second - least > 2.01 * error)) {
                                      at = decide(i, to.centers, squares, products, k, least + 2.01 * error,
                                                  dense, square);
                                      ++one.rechecked;
                                  }
                                  const double w = to.weights ? to.weights[i] : 1.0;
                                  if (sums)
                                      for (i64 e = first; e < first + length; ++e)
                                          sums[at * d_ + static_cast<i64>(index_[e])] += w * entry(e);
                                  one.inertia += w * square;
                                  cluster_weights[at] += w;
                                  one.changed += to.labels[i] != at;
                                  to.labels[i] = static_cast<std::int32_t>(at);
                              }
                              return one;
                          });
        return found;
    }

    void own_distances(const PassArguments& to, double* out) const {
        const Buffer<double> squares = center_squares(to.centers, to.k);
        for_each_row(1, [&](i64 i, double*) {
            const double* c = to.centers + to.labels[i] * d_;
            double dot = 0.0;
            for (i64 e = ptr_[i]; e < ptr_[i + 1]; ++e) dot += entry(e) * c[index_[e]];
            out[i] = positive_part(squares_[i], dot, squares[to.labels[i]]);
        });
    }

    PassCounts single_moves(const PassArguments& to) const {
        const Buffer<double> columns = transpose_centers(to.centers, to.k, d_);
        const Buffer<double> squares = center_squares(to.centers, to.k);
        Buffer<double> gains(n_);
        const NearestKernels& kernels = nearest_kernels();
        for_each_row(to.k, [&](i64 i, double* exact) {
            kernels.sparse_products(index_ + ptr_[i], value_ ? value_ + ptr_[i] : nullptr,
                                    ptr_[i + 1] - ptr_[i], columns.get(), to.k, exact);
            for (i64 j = 0; j < to.k; ++j) exact[j] = positive_part(squares_[i], exact[j], squares[j]);
            gains[i] =
                best_move(exact, to.k, to.labels[i], to.weights ? to.weights[i] : 1.0, to.cluster_weights);
        });
        PassCounts all{};
        for (i64 i = 0; i < n_; ++i) {
            all.changed += gains[i] > 0.0;
            all.largest = std::max(all.largest, gains[i]);
        }
        return all;
    }

    void potentials(const double* candidates, i64 count, const double* weights, const float* closest,
                    float* least_distances, i64 step, double* potentials) const {
        const i64 panels = (n_ + kPanelRows - 1) / kPanelRows;
        const Buffer<double> points = transpose_centers(candidates, count, d_);
        const Buffer<double> squares = center_squares(candidates, count);
        const Parts parts(n_, 1, total_);
        const NearestKernels& kernels = nearest_kernels();
        for_each_task(parts.count, threads_for(ptr_[n_] * count, threads_), [&](i64 p) {
            Buffer<double> products(count);
            for (i64 base = parts.begin(p); base < parts.end(p); base += kPanelRows) {
                for (i64 c = 0; c < count; ++c) potentials[c * panels + base / kPanelRows] = 0.0;
                for (i64 i = base; i < std::min(n_, base + kPanelRows); ++i) {
                    kernels.sparse_products(index_ + ptr_[i], value_ ? value_ + ptr_[i] : nullptr,
                                            ptr_[i + 1] - ptr_[i], points.get(), count, products.get());
                    for (i64 c = 0; c < count; ++c) {
                        const auto square =
                            static_cast<float>(positive_part(squares_[i], products[c], squares[c]));
                        const float least = std::min(square, closest[i]);
                        if (least_distances) least_distances[c * step + i] = least;
                        potentials[c * panels + base / kPanelRows] +=
                            static_cast<double>(least) * (weights ? weights[i] : 1.0);
                    }
                }
            }
        });
    }

    i64 bytes() const { return squares_.bytes(); }

  private:
    double entry(i64 e) const { return value_ ? static_cast<double>(value_[e]) : 1.0; }

    /// |x|^2 - 2 x.c + |c|^2; what may be rounding alone counts as 0, so that equal rows have the distance 0.
    static double positive_part(double x, double dot, double c) {
        const double square = x - 2 * dot + c;
        return square > 0x1p-46 * (x + c) ? square : 0.0;
    }

    Buffer<double> center_squares(const double* centers, i64 k) const {
        Buffer<double> out(k);
        for (i64 j = 0; j < k; ++j) {
            double sum = 0.0;
            for (i64 f = 0; f < d_; ++f) sum += centers[j * d_ + f] * centers[j * d_ + f];
            out[j] = sum;
        }
        return out;
    }

    /// The nearest of the centres that rounding left in question, from differences; sets `square`.
    i64 decide(i64 i, const double* centers, const Buffer<double>& squares, const Buffer<double>& products,
               i64 k, double limit, Buffer<double>& dense, double& square) const {
        for (i64 e = ptr_[i]; e < ptr_[i + 1]; ++e) dense[index_[e]] = entry(e);
        i64 at = -1;
        for (i64 j = 0; j < k; ++j) {
            if (squares[j] / 2 - products[j] > limit) continue;
            double sum = 0.0;
            for (i64 f = 0; f < d_; ++f) {
                const double e = dense[f] - centers[j * d_ + f];
                sum += e * e;
            }
            if (at < 0 || sum < square) at = j, square = sum;
        }
        for (i64 e = ptr_[i]; e < ptr_[i + 1]; ++e) dense[index_[e]] = 0.0;
        return std::max<i64>(at, 0);
    }

    /// Runs row(i, scratch) over all rows.
    template <class Row>
    void for_each_row(i64 scratch, const Row& row) const {
        const Parts parts(n_, 1, total_);
        for_each_task(parts.count, threads_for(ptr_[n_] * scratch, threads_), [&](i64 p) {
            Buffer<double> memory(scratch);
            for (i64 i = parts.begin(p); i < parts.end(p); ++i) row(i, memory.get());
        });
    }

    const i64* ptr_;
    const I* index_;
    const V* value_;
    i64 n_, total_, d_;
    int threads_;
    Buffer<double> squares_;
};

template <class Of>
class ClustersOf final : public Clusters {
  public:
    template <class... Words>
    explicit ClustersOf(Words... words) : of_(words...) {}
    PassCounts assign(const PassArguments& to) const override { return of_.assign(to); }
    void own_distances(const PassArguments& to, double* out) const override { of_.own_distances(to, out); }
    PassCounts single_moves(const PassArguments& to) const override { return of_.single_moves(to); }
    void potentials(const double* candidates, i64 count, const double* weights, const float* closest,
                    float* least, i64 step, double* out) const override {
        of_.potentials(candidates, count, weights, closest, least, step, out);
    }
    i64 bytes() const override { return of_.bytes(); }

  private:
    Of of_;
};

template <class I>
Clusters* make_sparse_clusters_of(const i64* ptr, const I* index, const void* value, int value_bytes, i64 n,
                                  i64 d, i64 total, int threads) {
    if (value_bytes == 4)
        return new ClustersOf<SparseClusters<I, float>>(ptr, index, static_cast<const float*>(value), n, d,
                                                        total, threads);
    return new ClustersOf<SparseClusters<I, double>>(ptr, index, static_cast<const double*>(value), n, d,
                                                     total, threads);
}

}  // namespace

Clusters* make_dense_clusters(const void* X, int value_bytes, i64 n, i64 d, i64 total, const double* shift,
                              double scale, int threads) {
    if (value_bytes == 4)
        return new ClustersOf<DenseClusters<float>>(static_cast<const float*>(X), n, d, total, shift, scale,
                                                    threads);
    return new ClustersOf<DenseClusters<double>>(static_cast<const double*>(X), n, d, total, shift, scale,
                                                 threads);
}

Clusters* make_sparse_clusters(const i64* ptr, const void* index, int index_bytes, const void* value,
                               int value_bytes, i64 n, i64 d, i64 total, int threads) {
    if (index_bytes == 4)
        return make_sparse_clusters_of(ptr, static_cast<const std::int32_t*>(index), value, value_bytes, n, d,
                                       total, threads);
    return make_sparse_clusters_of(ptr, static_cast<const i64*>(index), value, value_bytes, n, d, total,
                                   threads);
}

}  // namespace bmrm
