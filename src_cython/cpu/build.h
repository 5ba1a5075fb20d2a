// Builds a resident matrix from the caller's arrays. Everything is checked here, once, so that the kernels
// need no checks.
#pragma once

#include <memory>
#include <stdexcept>

#include "cpu/isa.h"
#include "cpu/matrix.h"
#include "cpu/options.h"

namespace bmrm {

/// The input does not describe a matrix; becomes DataError in Python.
struct BadData : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// Builds the matrix of a CSR triple: indices of 4 or 8 bytes; values of 4 or 8 bytes, or none (ones).
std::unique_ptr<Matrix> make_sparse(const i64* ptr, const void* idx, int idx_bytes, const void* val,
                                    int value_bytes, i64 m, i64 d, i64 nnz, int threads,
                                    TransposePolicy policy, ColumnOrder order);

std::unique_ptr<Matrix> make_dense(const void* X, int value_bytes, i64 m, i64 d, int threads);

/// The maximum number of bytes of a sparse matrix, with the caller's arrays.
i64 predict_sparse_bytes(i64 m, i64 d, i64 nnz, i64 value_bytes, TransposePolicy policy);

/// A term of a row with L entries goes through at most `most + per_entry * L` additions.
struct RowAdditions {
    double most, per_entry;
};

/// The additions of X x for so many vectors x, X sparse. Adding a zero is exact and does not count.
RowAdditions row_additions(i64 columns);

/// Computes the keys of columns with these numbers (entries.h).
void keys_of_columns(const i64* numbers, i64 count, std::uint64_t* keys);

}  // namespace bmrm
