// The interface of a resident matrix. Vectors are float64, contiguous, and checked by the caller.
#pragma once

#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "common/memory.h"
#include "cpu/dispatch.h"
#include "cpu/split.h"

namespace bmrm {

/// Several vectors, which are columns of one array or separate arrays: entry i of vector c is at[c][i *
/// step].
template <class T>
struct Vectors {
    Vectors(T* const* at, i64 step) : at(at), step(step) {}
    T* const* at;
    i64 step;
};

/// A = diag(sqrt weights) (X - 1 mean'), of which products with A'A are taken. Null: all weights are 1, the
/// mean is 0.
struct Centring {
    const double* weights;  // m
    const double* mean;     // d
};

/// In several partial sums: a single one would wait for its own latency at every value.
template <class V>
double sum_of_squares(const V* values, i64 count) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (i64 k = 0; k < count; ++k) sum += static_cast<double>(values[k]) * static_cast<double>(values[k]);
    return sum;
}

/// Rows one at a time.
class Rows {
  public:
    virtual ~Rows() = default;

    /// Row i . w.
    virtual double row_dot(i64 i, const double* w) const = 0;
    /// w += factor times row i.
    virtual void add_row(i64 i, double factor, double* w) const = 0;
    /// out (ld) = row i times W (d, ld), ld a multiple of 8.
    virtual void row_dots(i64 i, const double* W, i64 ld, double* out) const = 0;
    /// Some columns of W (d, ld) += a factor each times row i.
    virtual void add_row_to(i64 i, const Change* changes, i64 count, i64 ld, double* W) const = 0;
    /// Prefetches, for rows that come up: the row pointer of row `far`, the entries of row `later`, and the
    /// rows of w (d, ld) in which row `soon` has entries.
    virtual void fetch_rows(i64 soon, const double* w, i64 ld, i64 later, i64 far) const = 0;
};

class Matrix {
  public:
    virtual ~Matrix() = default;

    /// out (m) = X w.
    virtual void matvec(const double* w, double* out) const = 0;
    /// out (blocks, d): row p is X[starts[p]:starts[p+1]]^T r[starts[p]:starts[p+1]].
    virtual void rmatvec_blocks(const double* r, const i64* starts, i64 blocks, double* out) = 0;
    /// out = X W for K vectors W.
    virtual void matmat(Vectors<const double> W, i64 K, Vectors<double> out) const = 0;
    /// out = X^T R for K vectors R.
    virtual void rmatmat(Vectors<const double> R, i64 K, Vectors<double> out) = 0;
    /// The same over blocks of rows: the entries p * d to (p + 1) * d - 1 of the vectors `out` are
    /// X[starts[p]:starts[p+1]]^T R[starts[p]:starts[p+1]].
    virtual void rmatmat_blocks(Vectors<const double> R, i64 K, const i64* starts, i64 blocks,
                                Vectors<double> out) = 0;
    /// out (d, K) = A^T A V for V (d, K), both with the K numbers of a column of X side by side.
    virtual void gram_product(const double* V, i64 K, i64 m, i64 d, const Centring& A, double* out);
    /// out (d, d) = X^T diag(s) X, both triangles; rows with s[i] == 0 are left out.
    virtual void weighted_gram(const double* s, double* out) const = 0;
    /// out (d, d) = (X - 1 shift')^T diag(s) (X - 1 shift'), both triangles, and totals (d) = (X - 1
    /// shift')^T s, of a dense X.
    virtual void centred_gram(const double*, const double*, double*, double*) const {
        throw std::invalid_argument("centred_gram: found sparse rows, expected dense ones");
    }
    /// Multiply-adds that weighted_gram takes.
    virtual double weighted_gram_work() const = 0;
    /// out (d) = the sum of squares of each column, the diagonal of X^T X.
    virtual void column_squares(double* out) const = 0;
    /// Checksum of all entries, see entries.h; the rows are numbered from `first`, and the columns have these
    /// keys.
    virtual std::uint64_t sum_of_entries(std::uint64_t first, const std::uint64_t* keys) const = 0;
    /// columns (nnz) = the column of each of the nnz entries, row after row; values (nnz) = the values in
    /// their type, unless all are 1. Does nothing for a dense matrix, which shares its values with the
    /// caller.
    virtual void copy_entries(i64, i64*, void*) const {}
    /// The sum of squares of each row (m), computed at the first use.
    const std::vector<double>& row_squares() const {
        std::call_once(squares_found_, [this] { squares_ = find_row_squares(); });
        return squares_;
    }
    /// Access to single rows, for coordinate ascent, and the place of each column of X in them; null if the
    /// columns keep their places.
    virtual const Rows& by_rows() const = 0;
    virtual const std::uint32_t* places() const { return nullptr; }
    /// Builds X^T now, if products use it.
    virtual void build_transpose() {}
    /// The same rows in another order. The caller provides memory for row pointers and values, as many as
    /// here.
    virtual std::unique_ptr<Matrix> reordered(const i64* order, i64* ptr, void* val) const = 0;
    /// Bytes held or referred to.
    virtual i64 bytes() const = 0;
    virtual bool has_transpose() const { return false; }
    virtual int index_bytes() const { return 0; }
    virtual bool ones() const { return false; }
    /// Whether the values are a copy, so that the caller's are no longer needed.
    virtual bool owns_values() const { return false; }

  private:
    virtual std::vector<double> find_row_squares() const = 0;

    mutable std::once_flag squares_found_;
    mutable std::vector<double> squares_;
};

/// The product of the mean and V (d, K).
inline std::vector<double> mean_product(const Centring& A, const double* V, i64 K, i64 d) {
    std::vector<double> out(K);
    if (A.mean)
        for (i64 j = 0; j < d; ++j)
            for (i64 c = 0; c < K; ++c) out[c] += A.mean[j] * V[j * K + c];
    return out;
}

/// Subtracts `shift` from each of n rows of K numbers, multiplies them by their weights, and adds them up.
inline void weigh_rows(const double* weights, i64 n, i64 K, const double* shift, double* U, double* sums) {
    for (i64 i = 0; i < n; ++i)
        for (i64 c = 0; c < K; ++c) {
            const double u = (U[i * K + c] - shift[c]) * (weights ? weights[i] : 1.0);
            U[i * K + c] = u;
            sums[c] += u;
        }
}

/// Subtracts from out (d, K) the mean times the sums of the rows.
inline void subtract_mean(const Centring& A, const double* sums, i64 K, i64 d, double* out) {
    if (A.mean)
        for (i64 j = 0; j < d; ++j)
            for (i64 c = 0; c < K; ++c) out[j * K + c] -= A.mean[j] * sums[c];
}

/// In two products, with A V in between.
inline void Matrix::gram_product(const double* V, i64 K, i64 m, i64 d, const Centring& A, double* out) {
    Buffer<double> U(m * K);
    std::vector<const double*> from(K), middle(K);
    std::vector<double*> to(K), back(K);
    for (i64 c = 0; c < K; ++c) from[c] = V + c, to[c] = U.get() + c, middle[c] = to[c], back[c] = out + c;
    matmat({from.data(), K}, K, {to.data(), K});
    const std::vector<double> shift = mean_product(A, V, K, d);
    std::vector<double> sums(K);
    if (A.mean || A.weights) weigh_rows(A.weights, m, K, shift.data(), U.get(), sums.data());
    rmatmat({middle.data(), K}, K, {back.data(), K});
    subtract_mean(A, sums.data(), K, d, out);
}

/// out[p] = the sum of the partial sums of block p, in the order of the groups, each with d entries.
inline void add_groups(const std::vector<Group>& groups, const double* partial, i64 d, i64 blocks,
                       int threads, double* out) {
    constexpr i64 width = 2048;
    for_each_task((d + width - 1) / width, threads, [&](i64 t) {
        i64 begin = t * width, end = std::min(d, begin + width);
        for (i64 p = 0; p < blocks; ++p) std::fill(out + p * d + begin, out + p * d + end, 0.0);
        for (std::size_t g = 0; g < groups.size(); ++g) {
            double* o = out + groups[g].block * d;
            const double* s = partial + static_cast<i64>(g) * d;
            for (i64 j = begin; j < end; ++j) o[j] += s[j];
        }
    });
}

/// Calls body(first, columns, kernel, ld) for each run of up to 32 of K columns; the kernels with index
/// `kernel` expect rows padded to ld numbers.
template <class Body>
void for_columns(i64 K, const Body& body) {
    for (i64 first = 0; first < K; first += kWidth[kWidths - 1]) {
        i64 columns = std::min(kWidth[kWidths - 1], K - first);
        int kernel = static_cast<int>(std::lower_bound(kWidth, kWidth + kWidths, columns) - kWidth);
        body(first, columns, kernel, kWidth[kernel]);
    }
}

/// The vectors first to first + columns - 1 if they lie side by side, ld numbers per row; null otherwise.
template <class T>
T* side_by_side(Vectors<T> vectors, i64 first, i64 columns, i64 ld) {
    if (vectors.step != ld || columns != ld) return nullptr;
    for (i64 c = 1; c < columns; ++c)
        if (vectors.at[first + c] != vectors.at[first] + c) return nullptr;
    return vectors.at[first];
}

/// Copies some rows of the vectors first to first + columns - 1 side by side: ld numbers per row, those after
/// the vectors' are zero.
inline void pad_rows(Vectors<const double> from, i64 first, i64 columns, Range rows, i64 ld, double* to) {
    i64 n = rows.end - rows.begin;
    for (i64 c = 0; c < columns; ++c) {
        const double* vector = from.at[first + c] + rows.begin * from.step;
        for (i64 i = 0; i < n; ++i) to[i * ld + c] = vector[i * from.step];
    }
    for (i64 i = 0; i < n; ++i) std::fill(to + i * ld + columns, to + (i + 1) * ld, 0.0);
}

/// Does this for all n rows, in parallel tasks.
inline void pad_all(Vectors<const double> from, i64 first, i64 columns, i64 n, i64 ld, int threads,
                    double* to) {
    for_each_task((n + kPaddedRows - 1) / kPaddedRows, threads, [&](i64 t) {
        Range rows{t * kPaddedRows, std::min(n, (t + 1) * kPaddedRows)};
        pad_rows(from, first, columns, rows, ld, to + rows.begin * ld);
    });
}

/// Copies rows of ld numbers, of which the first is row `rows.begin`, back to the vectors.
inline void unpad_rows(const double* from, i64 ld, Range rows, i64 first, i64 columns, Vectors<double> to) {
    for (i64 c = 0; c < columns; ++c) {
        double* vector = to.at[first + c] + rows.begin * to.step;
        for (i64 i = 0; i < rows.end - rows.begin; ++i) vector[i * to.step] = from[i * ld + c];
    }
}

}  // namespace bmrm
