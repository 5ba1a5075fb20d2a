// From uploaded rows to a matrix that formats can be built from, and back from what a format lists.
#pragma once
#include "formats/csr.h"
#include "runtime/upload.h"

namespace bmrm {

// Appends the row pointers, columns and values of consecutive rows.  The sources may be on the host or the
// device, and may be freed when the call returns.
void append_rows(Memory& memory, Uploader& uploader, Csr& to, int64_t filled_rows, int64_t filled,
                 int64_t rows, const int64_t* indptr, int64_t first, int64_t count, const void* indices,
                 int index_bytes, const void* values, int value_bytes);

// Throws BB_INVALID if a value is not finite.
void expect_finite(Memory& memory, bb_type type, const unsigned char* values, int64_t count);

// Checks row pointers and columns, and sorts the columns within rows if they are not sorted; throws
// BB_INVALID.
void validate(Memory& memory, Csr& a, int value_bytes);

// Stores no values if all are 1, and codes if few are distinct.
void encode(Memory& memory, Csr& a, ValueArray& coding);

Csr transpose(Memory& memory, const Csr& a, int value_bytes);

// Appends compressed rows that are built from a list of their elements (listing.h), which is sorted; `nnz` of
// the elements are no padding.  value_bytes: of a listed value, 0 if there are none.
void append_listed(Memory& memory, Csr& to, int64_t filled_rows, int64_t filled, int64_t rows, int64_t nnz,
                   Array<uint64_t>& keys, const Array<unsigned char>& values, int value_bytes);

// Adds the squares of each row to `sums`.
void add_squares(Memory& memory, const Csr& a, const ValueArray& coding, double* sums);

// Columns by decreasing count, and the counts in that order.
struct Popularity {
    Array<uint32_t> order, count;
};
Popularity popularity_of(Memory& memory, const Csr& a);

bb_stats statistics(Memory& memory, const Csr& a, const ValueArray& coding, const Popularity& columns);

}  // namespace bmrm
