// Inner loops over dense rows, for one instruction set: products, and the Gram tiles of the bundle.
#pragma once

#include <algorithm>

#include "cpu/pack.h"

namespace bmrm {
namespace BMRM_ISA {

/// Rows and columns of a tile of a Gram matrix.
constexpr int kGramTile = BMRM_DOUBLES == 8 ? 4 : 2;

template <class V>
struct Dense {
    /// out[i] = x_i . w for the rows [begin, end) of X, which has d columns. Goes row by row if X `streams`
    /// from memory: there one stream with prefetching is faster than four.
    BMRM_TARGET static void rows(const V* X, i64 d, i64 begin, i64 end, const double* w, bool streams,
                                 double* out) {
        i64 i = begin, ahead = streams ? kStreamAhead / sizeof(V) : 0;
        if (!streams)
            for (; i + 4 <= end; i += 4) tile<4, 1>(X + i * d, d, w, 0, 0, d, ahead, out + i, 1);
        for (; i < end; ++i) tile<1, 1>(X + i * d, d, w, 0, 0, d, ahead, out + i, 1);
    }

    /// acc[j] += sum over n of c[n] * row[n][j] for j < width, added in the order of n, eight rows at a time.
    /// Entries are prefetched `ahead` places early.
    BMRM_TARGET static void add_rows(const V* const* row, const double* c, i64 n, i64 width, i64 ahead,
                                     double* acc) {
        i64 i = 0;
        for (; i + 8 <= n; i += 8) add_some<8>(row + i, c + i, width, ahead, acc);
        for (; i < n; ++i) add_some<1>(row + i, c + i, width, ahead, acc);
    }

    /// out[i*P + p] = sum over k in [lo, hi) of A[i*d + k] * B[p*d + k], for i < n and p < P.
    BMRM_TARGET static void gram(const V* A, i64 n, const double* B, i64 P, i64 d, i64 lo, i64 hi,
                                 double* out) {
        constexpr int T = kGramTile;
        i64 i = 0;
        for (; i + T <= n; i += T) gram_rows<T>(A + i * d, B, P, d, lo, hi, out + i * P);
        for (; i < n; ++i) gram_rows<1>(A + i * d, B, P, d, lo, hi, out + i * P);
    }

    /// Packs n <= kPacked rows of X less `shift` (d), given by their numbers, for add_packed: `plain` in
    /// panels of kOuterColumns columns, `scaled` by s in panels of kOuterRows, one after another, padded with
    /// zeros from d to ld columns. Meanwhile the rows whose numbers stand `ahead` places later are
    /// prefetched.
    BMRM_TARGET static void pack_rows(const V* X, i64 d, const double* s, const double* shift, const i64* row,
                                      i64 n, i64 ahead, i64 ld, double* plain, double* scaled) {
        // Panel by panel, since the parts of one row in all panels may share one set of the cache.
        for (i64 j = 0; j < ld; j += kOuterColumns) {
            double *to = plain + j * kPacked, *times = scaled + j * kPacked;
            const i64 full = std::min(kOuterColumns, d - j);
            for (i64 k = 0; k < n; ++k, to += kOuterColumns, times += kOuterRows) {
                const V* x = X + row[k] * d + j;
                const double weight = s[row[k]];
                const V* later = X + row[ahead + k] * d + j;
                for (i64 c = 0; c < kOuterColumns; c += 64 / i64(sizeof(V))) __builtin_prefetch(later + c);
                if (full == kOuterColumns)
                    for (i64 c = 0; c < kOuterColumns; ++c) to[c] = x[c] - shift[j + c];
                else
                    for (i64 c = 0; c < kOuterColumns; ++c) to[c] = c < full ? x[c] - shift[j + c] : 0.0;
                for (i64 i = 0; i < kOuterColumns / kOuterRows; ++i)
                    for (i64 r = 0; r < kOuterRows; ++r)
                        times[i * kOuterRows * kPacked + r] = weight * to[i * kOuterRows + r];
            }
        }
    }

    /// sums (ld) += the n packed rows `scaled`.
    BMRM_TARGET static void add_scaled(const double* scaled, i64 n, i64 ld, double* sums) {
        for (i64 j = 0; j < ld; j += kOuterColumns) {
            double sum[kOuterColumns];
            for (i64 c = 0; c < kOuterColumns; ++c) sum[c] = sums[j + c];
            const double* panel = scaled + j * kPacked;
            for (i64 k = 0; k < n; ++k)
                for (i64 i = 0; i < kOuterColumns / kOuterRows; ++i)
                    for (i64 r = 0; r < kOuterRows; ++r)
                        sum[i * kOuterRows + r] += panel[(i * kPacked + k) * kOuterRows + r];
            for (i64 c = 0; c < kOuterColumns; ++c) sums[j + c] = sum[c];
        }
    }

    /// Adds the sum of scaled_k plain_k^T over the n packed rows k to the rows [first, last) of out (ld, ld),
    /// at least in its lower triangle.
    BMRM_TARGET static void add_packed(const double* plain, const double* scaled, i64 n, i64 ld, i64 first,
                                       i64 last, double* out) {
        for (i64 j = 0; j < last; j += kOuterColumns)
            for (i64 i = std::max(first, j / kOuterRows * kOuterRows); i < last; i += kOuterRows)
                add_tile(plain + j * kPacked, scaled + i * kPacked, n, out + i * ld + j, ld);
    }

    /// out[i*W + c] = sum over j < d of X[i*d + j] * B[j*W + c], i < n, c < W, in the order of j.
    template <int W>
    BMRM_TARGET static void rows_many(const V* X, i64 d, i64 n, const double* B, double* out) {
        constexpr int T = kTile<W>;
        i64 i = 0;
        for (; i + T <= n; i += T) rows_tile<W, T>(X + i * d, d, B, out + i * W);
        for (; i < n; ++i) rows_tile<W, 1>(X + i * d, d, B, out + i * W);
    }

    /// out (ld) = the row x times B (d, ld), ld a multiple of 8.
    BMRM_TARGET static void lone_many(const V* x, i64 d, const double* B, i64 ld, double* out) {
        for (i64 c = 0; c < ld; c += 8) {
            Pack<8> sum, b;
            sum.clear();
            for (i64 j = 0; j < d; ++j) {
                b.read(B + j * ld + c);
                sum.add_product(x[j], b);
            }
            sum.write(out + c);
        }
    }

    /// acc[j*W + c] += sum over i < n of X[i*d + j] * R[i*W + c], j < d, c < W, in the order of i.
    template <int W>
    BMRM_TARGET static void add_rows_many(const V* X, i64 d, i64 n, const double* R, double* acc) {
        constexpr int T = kTile<W>;
        i64 j = 0;
        for (; j + T <= d; j += T) columns_tile<W, T>(X + j, d, n, R, acc + j * W);
        for (; j < d; ++j) columns_tile<W, 1>(X + j, d, n, R, acc + j * W);
    }

  private:
    /// One tile of kOuterRows x kOuterColumns of this sum.
    BMRM_INLINE static void add_tile(const double* plain, const double* scaled, i64 n, double* out, i64 ld) {
        Pack<8> sum[kOuterRows][2], x[2];
        for (int r = 0; r < kOuterRows; ++r)
            for (int c = 0; c < 2; ++c) sum[r][c].read(out + r * ld + 8 * c);
        for (i64 k = 0; k < n; ++k) {
            for (int c = 0; c < 2; ++c) x[c].read(plain + k * kOuterColumns + 8 * c);
            for (int r = 0; r < kOuterRows; ++r)
                for (int c = 0; c < 2; ++c) sum[r][c].add_product(scaled[k * kOuterRows + r], x[c]);
        }
        for (int r = 0; r < kOuterRows; ++r)
            for (int c = 0; c < 2; ++c) sum[r][c].write(out + r * ld + 8 * c);
    }

    /// Number of packs of W sums that fit in the registers, besides the operands.
    template <int W>
    static constexpr int kTile = BMRM_DOUBLES == 8       ? 4
                                 : W <= 3 * BMRM_DOUBLES ? 4
                                 : W <= 6 * BMRM_DOUBLES ? 2
                                                         : 1;

    template <int W, int T>
    BMRM_INLINE static void rows_tile(const V* X, i64 d, const double* B, double* out) {
        Pack<W> sum[T], b;
        for (int t = 0; t < T; ++t) sum[t].clear();
        for (i64 j = 0; j < d; ++j) {
            b.read(B + j * W);
            for (int t = 0; t < T; ++t) sum[t].add_product(X[t * d + j], b);
        }
        for (int t = 0; t < T; ++t) sum[t].write(out + t * W);
    }

    template <int W, int T>
    BMRM_INLINE static void columns_tile(const V* X, i64 d, i64 n, const double* R, double* acc) {
        Pack<W> sum[T], r;
        for (int t = 0; t < T; ++t) sum[t].read(acc + t * W);
        for (i64 i = 0; i < n; ++i) {
            r.read(R + i * W);
            for (int t = 0; t < T; ++t) sum[t].add_product(X[i * d + t], r);
        }
        for (int t = 0; t < T; ++t) sum[t].write(acc + t * W);
    }

    template <int R>
    BMRM_INLINE static void gram_rows(const V* A, const double* B, i64 P, i64 d, i64 lo, i64 hi,
                                      double* out) {
        constexpr int T = kGramTile;
        i64 p = 0;
        for (; p + T <= P; p += T) tile<R, T>(A, d, B + p * d, d, lo, hi, 0, out + p, P);
        for (; p < P; ++p) tile<R, 1>(A, d, B + p * d, d, lo, hi, 0, out + p, P);
    }

    /// R x C sums of products, all in registers. With one column each has two partial sums, since one would
    /// wait for its own latency.
    template <int R, int C>
    BMRM_INLINE static void tile(const V* A, i64 lda, const double* B, i64 ldb, i64 lo, i64 hi, i64 ahead,
                                 double* out, i64 ldo) {
        constexpr int U = C == 1 ? 2 : 1;
        Pack<8> sum[R][C][U], a, b[C];
        for (int r = 0; r < R; ++r)
            for (int c = 0; c < C; ++c)
                for (int u = 0; u < U; ++u) sum[r][c][u].clear();
        i64 k = lo;
        for (; k + 8 * U <= hi; k += 8 * U)
            for (int u = 0; u < U; ++u) {
                for (int c = 0; c < C; ++c) b[c].read(B + c * ldb + k + 8 * u);
                for (int r = 0; r < R; ++r) {
                    if (ahead && 8 * u * sizeof(V) % 64 == 0)
                        __builtin_prefetch(A + r * lda + k + 8 * u + ahead);
                    a.read(A + r * lda + k + 8 * u);
                    for (int c = 0; c < C; ++c) sum[r][c][u].add_product(a, b[c]);
                }
            }
        for (; k < hi; k += 8) {
            i64 n = hi - k < 8 ? hi - k : 8;
            for (int c = 0; c < C; ++c) b[c].read_tail(B + c * ldb + k, n, n);
            for (int r = 0; r < R; ++r) {
                a.read_tail(A + r * lda + k, n, n);
                for (int c = 0; c < C; ++c) sum[r][c][0].add_product(a, b[c]);
            }
        }
        for (int r = 0; r < R; ++r)
            for (int c = 0; c < C; ++c) {
                if constexpr (U == 2) sum[r][c][0].add(sum[r][c][1]);
                out[r * ldo + c] = sum[r][c][0].sum();
            }
    }

    template <int N>
    BMRM_INLINE static void add_some(const V* const* row, const double* c, i64 width, i64 ahead,
                                     double* acc) {
        Pack<8> sum, x;
        i64 j = 0;
        for (; j + 8 <= width; j += 8) {
            sum.read(acc + j);
            for (int n = 0; n < N; ++n) {
                if (j * sizeof(V) % 64 == 0) __builtin_prefetch(row[n] + j + ahead);
                x.read(row[n] + j);
                sum.add_product(c[n], x);
            }
            sum.write(acc + j);
        }
        for (; j < width; ++j)
            for (int n = 0; n < N; ++n) acc[j] += c[n] * row[n][j];
    }
};

}  // namespace BMRM_ISA
}  // namespace bmrm
