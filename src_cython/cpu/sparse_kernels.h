// Inner loops over compressed rows, for one instruction set (product_kernels.cpp). Indices and values come
// without their types, as in the table.
#pragma once

#include "cpu/pack.h"

namespace bmrm {
namespace BMRM_ISA {

/// Prefetches x[idx[0]] to x[idx[n - 1]] for reading or writing, if x is long and they are `far` apart.
template <int Write, class I>
BMRM_INLINE void fetch_places(const double* x, const I* idx, i64 n, bool far) {
    if constexpr (sizeof(I) == 4)
        if (far)
            for (i64 u = 0; u < n; ++u) __builtin_prefetch(x + idx[u], Write);
}

/// The cache level that the entries of a row are prefetched into: only L2 if there are values, which would
/// fill L1, and indices of this type reach a vector that needs all of L1.
template <class I, class V>
constexpr int kLevel = std::is_same_v<V, One> || sizeof(I) == 1 ? kIntoL1 : kIntoL2;

/// The sum over k in [lo, hi) of val[k] * w[idx[k]]; nnz is the length of val. Prefetches what follows in
/// memory, unless the row is a `lone` one.
template <bool lone = false, class I, class V>
BMRM_INLINE double dot(const I* idx, const V* val, i64 lo, i64 hi, i64 nnz, const double* w, bool far) {
    constexpr bool ones = std::is_same_v<V, One>;
    Pack<8> sum, gathered, values;
    sum.clear();
    i64 k = lo;
    for (; k + 8 <= hi; k += 8) {
        if constexpr (!lone) {
            __builtin_prefetch(idx + k + kAhead, 0, kLevel<I, V>);
            if constexpr (!ones) __builtin_prefetch(val + k + kAhead, 0, kLevel<I, V>);
            fetch_places<0>(w, idx + k + kFetchAhead, 8, far);
        }
        gathered.gather(w, idx + k);
        if constexpr (ones) {
            sum.add(gathered);
        } else {
            values.read(val + k);
            sum.add_product(gathered, values);
        }
    }
    if (k < hi) {
        if constexpr (!lone) fetch_places<0>(w, idx + k + kFetchAhead, hi - k, far);
        gathered.gather(w, idx + k);
        if constexpr (!ones) {
            values.read_tail(val + k, hi - k, nnz - k);
            gathered.multiply(values);
        }
        gathered.keep_first(hi - k);
        sum.add(gathered);
    }
    return sum.sum();
}

template <class I, class V>
struct Sparse {
    /// out[i] = row i . w for i in [begin, end), added to out[i] if `add`. `far`: whether the places of
    /// consecutive entries are far apart, so that they are worth fetching; here and below.
    BMRM_TARGET static void rows(const i64* ptr, const void* indices, const void* values, i64 nnz, i64 begin,
                                 i64 end, const double* w, bool add, bool far, double* out) {
        const I* idx = static_cast<const I*>(indices);
        const V* val = static_cast<const V*>(values);
        i64 i = begin;
        if constexpr (std::is_same_v<V, One>)
            for (; i + 8 <= end; i += 8)
                if (!short_rows(ptr + i, idx, w, add, far, out + i))
                    for (i64 row = i; row < i + 8; ++row)
                        whole_row(ptr + row, idx, val, nnz, w, add, far, out + row);
        if constexpr (!std::is_same_v<V, One>)
            for (; !add && i + 8 <= end; i += 8) {
                if (ptr[i + 8] - ptr[i] >= 8 * kLoopRow) {
                    for (i64 row = i; row < i + 8; ++row)
                        if (length_of(ptr, row) < kLoopRow)
                            out[row] = short_row(ptr + row, idx, val, w);
                        else
                            whole_row(ptr + row, idx, val, nnz, w, false, far, out + row);
                    continue;
                }
                for (i64 row = i; row < i + 8; row += 2) {
                    fetch_ahead(idx, val, ptr[row]);
                    out[row] = short_row(ptr + row, idx, val, w);
                    out[row + 1] = short_row(ptr + row + 1, idx, val, w);
                }
            }
        for (; i < end; ++i) whole_row(ptr + i, idx, val, nnz, w, add, far, out + i);
    }

    /// The rows begin + order[k], k < count: out[row] = row . w. The order permutes windows of kWindow<V>
    /// rows; in each, lengths ascend up to kShortRow, and longer rows come last.
    BMRM_TARGET static void rows_by_length(const i64* ptr, const void* indices, const void* values, i64 nnz,
                                           i64 begin, const std::uint16_t* order, i64 count, const double* w,
                                           bool far, double* out) {
        const I* idx = static_cast<const I*>(indices);
        const V* val = static_cast<const V*>(values);
        ptr += begin;
        out += begin;
        for (i64 first = 0; first < count; first += kWindow<V>) {
            const i64 last = count - first < kWindow<V> ? count : first + kWindow<V>;
            if constexpr (std::is_same_v<V, One>)
                ones_by_length(ptr, idx, nnz, order, first, last, w, far, out);
            else
                window_by_length(ptr, idx, val, nnz, order, first, last, w, far, out);
        }
    }

    /// The product of w and part of one row, the entries [lo, hi).
    BMRM_TARGET static double span(const void* indices, const void* values, i64 nnz, i64 lo, i64 hi,
                                   const double* w, bool far) {
        const I* idx = static_cast<const I*>(indices);
        const V* val = static_cast<const V*>(values);
        return dot(idx, val, lo, hi, nnz, w, far);
    }

    /// For single rows, the entries [lo, hi), that are not visited in the order of memory: the product of the
    /// row and w, w += c times the row, and the same with columns of W (d, ld), ld a multiple of 8.
    BMRM_TARGET static double lone(const void* indices, const void* values, i64 nnz, i64 lo, i64 hi,
                                   const double* w) {
        const I* idx = static_cast<const I*>(indices);
        const V* val = static_cast<const V*>(values);
        return dot<true>(idx, val, lo, hi, nnz, w, false);
    }

    BMRM_TARGET static void add_lone(const void* indices, const void* values, i64 lo, i64 hi, double c,
                                     double* w) {
        const I* idx = static_cast<const I*>(indices);
        const V* val = static_cast<const V*>(values);
        i64 k = lo;
        for (; k + 8 <= hi; k += 8)
            for (int u = 0; u < 8; ++u) w[idx[k + u]] += scaled(val, k + u, c);
        for (; k < hi; ++k) w[idx[k]] += scaled(val, k, c);
    }

    BMRM_TARGET static void lone_many(const void* indices, const void* values, i64 lo, i64 hi,
                                      const double* W, i64 ld, double* out) {
        const I* idx = static_cast<const I*>(indices);
        const V* val = static_cast<const V*>(values);
        i64 c = 0;
        for (; c + 32 <= ld; c += 32) lone_pack<32>(idx, val, lo, hi, W + c, ld, out + c);
        if (c + 24 <= ld) lone_pack<24>(idx, val, lo, hi, W + c, ld, out + c), c += 24;
        if (c + 16 <= ld) lone_pack<16>(idx, val, lo, hi, W + c, ld, out + c), c += 16;
        if (c + 8 <= ld) lone_pack<8>(idx, val, lo, hi, W + c, ld, out + c);
    }

    BMRM_TARGET static void add_lone_to(const void* indices, const void* values, i64 lo, i64 hi,
                                        const Change* changes, i64 count, i64 ld, double* W) {
        const I* idx = static_cast<const I*>(indices);
        const V* val = static_cast<const V*>(values);
        for (i64 k = lo; k < hi; ++k) {
            double* row = W + idx[k] * ld;
            for (i64 c = 0; c < count; ++c) row[changes[c].column] += scaled(val, k, changes[c].factor);
        }
    }

    /// Prefetches the entries of the row `later` and, if w is long, the first of the ld numbers in w of each
    /// entry of the row `soon`.
    BMRM_TARGET static void fetch(const void* indices, const void* values, const i64* soon, const double* w,
                                  i64 ld, const i64* later) {
        const I* idx = static_cast<const I*>(indices);
        const V* val = static_cast<const V*>(values);
        if constexpr (sizeof(I) == 4)
            for (i64 k = soon[0]; k < soon[1]; ++k) __builtin_prefetch(w + idx[k] * ld, 1);
        for (i64 k = later[0]; k < later[1]; k += 64 / i64(sizeof(I))) __builtin_prefetch(idx + k);
        if constexpr (!std::is_same_v<V, One>)
            for (i64 k = later[0]; k < later[1]; k += 64 / i64(sizeof(V))) __builtin_prefetch(val + k);
    }

    /// Rows split by index into consecutive parts: out[n][i] += the sum of row i over the indices in
    /// [bound[n], bound[n + 1]), n < parts. Indices ascend; a row is read once for all parts.
    BMRM_TARGET static void rows_split(const i64* ptr, const void* indices, const void* values, i64 nnz,
                                       i64 begin, i64 end, const i64* bound, i64 parts, const double* w,
                                       double* const* out) {
        const I* idx = static_cast<const I*>(indices);
        const V* val = static_cast<const V*>(values);
        for (i64 i = begin; i < end; ++i) {
            i64 lo = ptr[i], last = ptr[i + 1];
            if (bound[0] > 0) lo += count_below(idx + lo, last - lo, bound[0]);
            for (i64 n = 0; n < parts && lo < last; ++n) {
                i64 hi = lo + count_below(idx + lo, last - lo, bound[n + 1]);
                if (lo < hi) out[n][i] += dot(idx, val, lo, hi, nnz, w, true);
                lo = hi;
            }
        }
    }

    /// acc += the rows [begin, end), row i times r[i]; rows with r[i] == 0 may be left out if `skip`. A row
    /// consists of the entries at[i*stride] to at[i*stride + 1], the whole row if stride is 1. Rows whose
    /// entries are not contiguous in memory are prefetched `ahead` rows early. `unlike` says that lengths
    /// change from row to row.
    BMRM_TARGET static void scatter(const i64* at, i64 stride, const void* indices, const void* values,
                                    i64 begin, i64 end, const double* r, bool skip, bool unlike, bool far,
                                    i64 ahead, double* acc) {
        const I* idx = static_cast<const I*>(indices);
        const V* val = static_cast<const V*>(values);
        constexpr i64 kChunk = 256;
        i64 used[kChunk];
        double factors[kMaxRun + 16];
        for (i64 first = begin; first < end; first += kChunk) {
            i64 last = first + kChunk < end ? first + kChunk : end, zeros = 0, count = 0;
            if (skip)
                for (i64 i = first; i < last; ++i) zeros += r[i] == 0;
            // A few zeros are not skipped: they leave finite sums as they are.
            if (stride == 1 && 8 * zeros <= last - first) {
                const i64 entries = at[last] - at[first];
                if (unlike && entries <= kMaxRun)
                    add_as_one_run(at, idx, val, first, last, r, factors, far, acc);
                else if (entries < 2 * kLoopRow * (last - first))
                    add_short(at, idx, val, first, last, r, far, acc);
                else
                    for (i64 i = first; i < last; ++i)
                        add_row<true>(idx, val, at[i], at[i + 1], at[i] + kAhead, r[i], far, acc);
                continue;
            }
            for (i64 i = first; i < last; ++i) {
                used[count] = i;
                count += !skip || r[i] != 0;
            }
            for (i64 q = 0; q < count; ++q) {
                const i64* row = at + used[q] * stride;
                const i64* next = at + used[q + 1 < count ? q + 1 : q] * stride;
                i64 soon = at[used[q + ahead < count ? q + ahead : q] * stride];
                add_row<false>(idx, val, row[0], row[1], soon, r[used[q]], far, acc, next[0], next[1]);
            }
        }
    }

    /// Sums over the rows i in [begin, end) with s[i] != 0: pairs[a*d + b] += s_i x_ia x_ib for each pair of
    /// different entries of a row, the one of column a stored after the one of column b, and
    /// squares[a] += s_i x_ia^2 for each entry.
    BMRM_TARGET static void add_pairs(const i64* ptr, const void* indices, const void* values, i64 begin,
                                      i64 end, const double* s, i64 d, double* pairs, double* squares) {
        const I* idx = static_cast<const I*>(indices);
        const V* val = static_cast<const V*>(values);
        for (i64 i = begin; i < end; ++i) {
            if (s[i] == 0) continue;
            const I* row = idx + ptr[i];
            const V* value = val + (std::is_same_v<V, One> ? 0 : ptr[i]);
            i64 n = ptr[i + 1] - ptr[i];
            for (i64 k = 0; k < n; ++k) {
                double c = scaled(value, k, s[i]), *to = pairs + row[k] * d;
                squares[row[k]] += scaled(value, k, c);
                i64 l = 0;
                for (; l + 4 <= k; l += 4)
                    for (int u = 0; u < 4; ++u) to[row[l + u]] += scaled(value, l + u, c);
                for (; l < k; ++l) to[row[l]] += scaled(value, l, c);
            }
        }
    }

    /// cut[s] = the first entry of the row [lo, hi) whose index is at least bound[s], s < strips; indices
    /// ascend.
    BMRM_TARGET static void cut_row(const I* idx, i64 lo, i64 hi, const i64* bound, i64 strips, i64* cut) {
        for (i64 s = 0; s < strips; ++s) cut[s] = lo = lo + count_below(idx + lo, hi - lo, bound[s]);
    }

    /// out[i*W + c] = the sum over the entries k of row i of val[k] * R[idx[k]*W + c], c < W, added if `add`.
    template <int W>
    BMRM_TARGET static void rows_many(const i64* ptr, const void* indices, const void* values, i64 begin,
                                      i64 end, const double* R, bool add, double* out) {
        const I* idx = static_cast<const I*>(indices);
        const V* val = static_cast<const V*>(values);
        for (i64 i = begin; i < end; ++i) {
            constexpr int sums = kRowSums<W>;
            Pack<W> sum[sums], row;
            for (int n = 0; n < sums; ++n) sum[n].clear();
            if (add) sum[0].read(out + i * W);
            i64 k = ptr[i];
            for (; k + sums <= ptr[i + 1]; k += sums)
                for (int n = 0; n < sums; ++n) {
                    row.read(R + idx[k + n] * i64{W});
                    sum[n].add_product(scaled(val, k + n, 1.0), row);
                }
            for (; k < ptr[i + 1]; ++k) {
                row.read(R + idx[k] * i64{W});
                sum[0].add_product(scaled(val, k, 1.0), row);
            }
            for (int n = 1; n < sums; ++n) sum[0].add(sum[n]);
            sum[0].write(out + i * W);
        }
    }

    /// acc[idx[k]*W + c] += val[k] * R[(i - begin)*W + c] over the entries k of the rows i in [begin, end), c
    /// < W; rows whose W numbers are all zero are left out if `skip`.
    template <int W>
    BMRM_TARGET static void scatter_many(const i64* ptr, const void* indices, const void* values, i64 begin,
                                         i64 end, const double* R, bool skip, double* acc) {
        const I* idx = static_cast<const I*>(indices);
        const V* val = static_cast<const V*>(values);
        for (i64 i = begin; i < end; ++i) {
            if (skip && all_zero<W>(R + (i - begin) * W)) continue;
            Pack<W> row;
            row.read(R + (i - begin) * W);
            i64 k = ptr[i];
            for (; k + 8 <= ptr[i + 1]; k += 8) {
                __builtin_prefetch(idx + k + kAhead);
                if constexpr (!std::is_same_v<V, One>) __builtin_prefetch(val + k + kAhead);
                if constexpr (W >= 8)
                    for (int u = 0; u < 8; ++u) __builtin_prefetch(acc + idx[k + u + kSumsAhead] * i64{W}, 1);
                for (int u = 0; u < 8; ++u) add_entry(idx, val, k + u, row, acc);
            }
            for (; k < ptr[i + 1]; ++k) add_entry(idx, val, k, row, acc);
        }
    }

  private:
    BMRM_INLINE static i64 length_of(const i64* ptr, i64 row) { return ptr[row + 1] - ptr[row]; }

    /// Prefetches the entries that come up after entry k.
    BMRM_INLINE static void fetch_ahead(const I* idx, const V* val, i64 k) {
        __builtin_prefetch(idx + k + kAhead, 0, kLevel<I, V>);
        if constexpr (!std::is_same_v<V, One>) __builtin_prefetch(val + k + kAhead, 0, kLevel<I, V>);
    }

    BMRM_INLINE static void whole_row(const i64* ptr, const I* idx, const V* val, i64 nnz, const double* w,
                                      bool add, bool far, double* out) {
        double s = dot(idx, val, ptr[0], ptr[1], nnz, w, far);
        *out = add ? *out + s : s;
    }

    /// The product of w and a row with values, as one loop.
    BMRM_INLINE static double short_row(const i64* ptr, const I* idx, const V* val, const double* w) {
        double sum = 0;
#pragma GCC unroll 1
        for (i64 k = ptr[0]; k < ptr[1]; ++k) sum += static_cast<double>(val[k]) * w[idx[k]];
        return sum;
    }

    BMRM_INLINE static void ones_by_length(const i64* ptr, const I* idx, i64 nnz, const std::uint16_t* order,
                                           i64 first, i64 last, const double* w, bool far, double* out) {
        for (i64 k = first; k < last;) {
            const i64 length = length_of(ptr, order[k]);
            if (length > kShortRow || k + 8 > last || length_of(ptr, order[k + 7]) != length) {
                const i64 row = order[k++];
                whole_row(ptr + row, idx, static_cast<const V*>(nullptr), nnz, w, false, far, out + row);
                continue;
            }
            // One row in each lane, which saves the sum over lanes and the mispredicted end of every row.
            const I* from[8];
            for (int l = 0; l < 8; ++l) from[l] = idx + ptr[order[k + l]];
            if (k + kGroupsAhead * 8 + 8 <= last)
                for (int l = 0; l < 8; ++l) __builtin_prefetch(idx + ptr[order[k + kGroupsAhead * 8 + l]]);
            Pack<8> sum;
            sum.clear();
            for (i64 n = 0; n < length; ++n) sum.add_across(w, from, n);
            double sums[8];
            sum.write(sums);
            for (int l = 0; l < 8; ++l) out[order[k + l]] = sums[l];
            k += 8;
        }
    }

    /// A window of rows with values, while the next one is fetched in the order of memory.
    BMRM_INLINE static void window_by_length(const i64* ptr, const I* idx, const V* val, i64 nnz,
                                             const std::uint16_t* order, i64 first, i64 last, const double* w,
                                             bool far, double* out) {
        const i64 next = ptr[last] - kAhead, share = 8 * (next - ptr[first] + kAhead) / (last - first) + 1;
        i64 to = next;
        for (i64 k = first; k < last;) {
            const i64 length = length_of(ptr, order[k]);
            if (length <= kTinyRow && k + 8 <= last && length_of(ptr, order[k + 7]) == length) {
                for (i64 at = to; at < to + share; at += 8) fetch_ahead(idx, val, at);
                to += share;
                eight_alike(ptr, idx, val, order + k, length, w, out);
                k += 8;
                continue;
            }
            const i64 row = order[k++];
            if (length < kLoopRow)
                out[row] = short_row(ptr + row, idx, val, w);
            else
                whole_row(ptr + row, idx, val, nnz, w, false, far, out + row);
        }
    }

    /// Eight rows with values, all of the same length <= kTinyRow.
    BMRM_INLINE static void eight_alike(const i64* ptr, const I* idx, const V* val,
                                        const std::uint16_t* order, i64 length, const double* w,
                                        double* out) {
        static_assert(kTinyRow == 8);
        switch (length) {
            case 0:
                return eight_of<0>(ptr, idx, val, order, w, out);
            case 1:
                return eight_of<1>(ptr, idx, val, order, w, out);
            case 2:
                return eight_of<2>(ptr, idx, val, order, w, out);
            case 3:
                return eight_of<3>(ptr, idx, val, order, w, out);
            case 4:
                return eight_of<4>(ptr, idx, val, order, w, out);
            case 5:
                return eight_of<5>(ptr, idx, val, order, w, out);
            case 6:
                return eight_of<6>(ptr, idx, val, order, w, out);
            case 7:
                return eight_of<7>(ptr, idx, val, order, w, out);
            default:
                return eight_of<8>(ptr, idx, val, order, w, out);
        }
    }

    template <int Length>
    BMRM_INLINE static void eight_of(const i64* ptr, const I* idx, const V* val, const std::uint16_t* order,
                                     const double* w, double* out) {
#pragma GCC unroll 8
        for (int l = 0; l < 8; ++l) {
            const i64 start = ptr[order[l]];
            double sum = 0;
#pragma GCC unroll 8
            for (int n = 0; n < Length; ++n) sum += static_cast<double>(val[start + n]) * w[idx[start + n]];
            out[order[l]] = sum;
        }
    }

    /// Sums eight rows of ones at once, one in each lane, which saves the sum over lanes and the mispredicted
    /// end of every row. False if the rows are too long or their lengths too different for that.
    BMRM_INLINE static bool short_rows(const i64* ptr, const I* idx, const double* w, bool add, bool far,
                                       double* out) {
        const I* from[8];
        i64 length[8], longest = 0, total = ptr[8] - ptr[0];
        if (total > 8 * kShortRow) return false;
        for (int l = 0; l < 8; ++l) {
            from[l] = idx + ptr[l];
            length[l] = ptr[l + 1] - ptr[l];
            longest = length[l] > longest ? length[l] : longest;
        }
        if (longest > kShortRow || longest * 8 > total + total / 4 + 8) return false;
        __builtin_prefetch(from[0] + kAhead);
        __builtin_prefetch(from[4] + kAhead);
        fetch_places<0>(w, from[0] + kFetchAhead, total, far);
        Pack<8> sum, before;
        sum.clear();
        for (i64 k = 0; k < longest; ++k) sum.add_where(w, from, k, length);
        if (add) {
            before.read(out);
            sum.add(before);
        }
        sum.write(out);
        return true;
    }

    /// N columns of the product of a single row and W.
    template <int N>
    BMRM_INLINE static void lone_pack(const I* idx, const V* val, i64 lo, i64 hi, const double* W, i64 ld,
                                      double* out) {
        Pack<N> sum[2], row;
        for (auto& s : sum) s.clear();
        i64 k = lo;
        for (; k + 2 <= hi; k += 2)
            for (int n = 0; n < 2; ++n) {
                row.read(W + idx[k + n] * ld);
                sum[n].add_product(scaled(val, k + n, 1.0), row);
            }
        if (k < hi) {
            row.read(W + idx[k] * ld);
            sum[0].add_product(scaled(val, k, 1.0), row);
        }
        sum[0].add(sum[1]);
        sum[0].write(out);
    }

    /// Adds short rows, each by one loop.
    BMRM_INLINE static void add_short(const i64* ptr, const I* idx, const V* val, i64 begin, i64 end,
                                      const double* r, bool far, double* acc) {
        i64 i = begin;
        for (; i + 2 <= end; i += 2) {
            fetch_ahead(idx, val, ptr[i]);
            add_short_row(ptr + i, idx, val, r[i], far, acc);
            add_short_row(ptr + i + 1, idx, val, r[i + 1], far, acc);
        }
        if (i < end) add_short_row(ptr + i, idx, val, r[i], far, acc);
    }

    BMRM_INLINE static void add_short_row(const i64* ptr, const I* idx, const V* val, double c, bool far,
                                          double* acc) {
#pragma GCC unroll 1
        for (i64 k = ptr[0]; k < ptr[1]; ++k) {
            fetch_places<1>(acc, idx + k + kFetchAhead, 1, far);
            acc[idx[k]] += term(val, k, c);
        }
    }

    /// Adds short rows as one run of entries, each with the factor of its row, which saves the mispredicted
    /// end of every row.
    BMRM_INLINE static void add_as_one_run(const i64* ptr, const I* idx, const V* val, i64 begin, i64 end,
                                           const double* r, double* factors, bool far, double* acc) {
        const i64 base = ptr[begin];
        for (i64 i = begin; i < end; ++i) {
            const i64 hi = ptr[i + 1] - base;
            i64 k = ptr[i] - base;
            do {
                for (int u = 0; u < 16; ++u) factors[k + u] = r[i];
                k += 16;
            } while (k < hi);
        }
        i64 k = base;
        const i64 stop = ptr[end];
        for (; k + 8 <= stop; k += 8) {
            fetch_ahead(idx, val, k);
            fetch_places<1>(acc, idx + k + kFetchAhead, 8, far);
            for (int u = 0; u < 8; ++u) acc[idx[k + u]] += term(val, k + u, factors[k + u - base]);
        }
        for (; k < stop; ++k) acc[idx[k]] += term(val, k, factors[k - base]);
    }

    /// Adds the entries [lo, hi). Prefetches as many entries from `soon` on, and places in acc: those of the
    /// entries after these if the next rows `follow` in memory, else those of the next row, [next, end).
    template <bool follow>
    BMRM_INLINE static void add_row(const I* idx, const V* val, i64 lo, i64 hi, i64 soon, double c, bool far,
                                    double* acc, i64 next = 0, i64 end = 0) {
        i64 k = lo;
        for (; k + 8 <= hi; k += 8) {
            __builtin_prefetch(idx + soon + (k - lo), 0, kLevel<I, V>);
            if constexpr (!std::is_same_v<V, One>) __builtin_prefetch(val + soon + (k - lo), 0, kLevel<I, V>);
            if constexpr (follow)
                fetch_places<1>(acc, idx + k + kFetchAhead, 8, far);
            else if (next + (k - lo) < end)
                fetch_places<1>(acc, idx + next + (k - lo), 8, far);
            for (int u = 0; u < 8; ++u) acc[idx[k + u]] += term(val, k + u, c);
        }
        if constexpr (follow) fetch_places<1>(acc, idx + k + kFetchAhead, hi - k, far);
        for (; k < hi; ++k) acc[idx[k]] += term(val, k, c);
    }

    /// acc[idx[k]*W + c] += val[k] * row[c], c < W.
    template <int W>
    BMRM_INLINE static void add_entry(const I* idx, const V* val, i64 k, const Pack<W>& row, double* acc) {
        double* to = acc + idx[k] * i64{W};
        Pack<W> sum;
        sum.read(to);
        sum.add_product(scaled(val, k, 1.0), row);
        sum.write(to);
    }

    template <int W>
    BMRM_INLINE static bool all_zero(const double* r) {
        bool other = false;
        for (int c = 0; c < W; ++c) other |= r[c] != 0;
        return !other;
    }

    BMRM_INLINE static double scaled(const V* val, i64 k, double c) {
        if constexpr (std::is_same_v<V, One>)
            return c;
        else
            return c * val[k];
    }

    /// The same rounded before it is added to a sum in memory: a sum that waits for the one before it waits
    /// longer for a fused multiply-add than for an addition.
    BMRM_INLINE static double term(const V* val, i64 k, double c) {
        double product = scaled(val, k, c);
#if defined(__x86_64__)
        if constexpr (!std::is_same_v<V, One>) asm("" : "+x"(product));
#endif
        return product;
    }

    /// The number of the n ascending indices below `bound`: bisection, then a vectorised count.
    BMRM_INLINE static i64 count_below(const I* idx, i64 n, i64 bound) {
        const I* start = idx;
        while (n > 32) {
            i64 half = n / 2;
            if (idx[half - 1] < bound) idx += half;
            n -= half;
        }
        i64 c = idx - start;
        int below = 0;
        for (i64 k = 0; k < n; ++k) below += idx[k] < bound;
        return c + below;
    }
};

}  // namespace BMRM_ISA
}  // namespace bmrm
