// Statistics of an operator, on the host.  The device computes the same for resident matrices; this code
// serves tests, and predictions for a file on a machine without a GPU.
//
// Successive nonzeros of a row at columns a < b share a group of 2^s neighbouring columns unless a and b
// differ at bit s or above.  So one count, of the highest bits in which neighbours differ, gives the
// fragments of all group sizes.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "choice/length_bin.h"
#include "runtime/failure.h"

namespace {

using bmrm::Failure;

constexpr int kBits = 32;

int highest_bit(uint32_t value) { return 31 - __builtin_clz(value); }

// Returns the columns of a row in increasing order: as they are, or sorted in `space`.
const int32_t* sorted_row(const int32_t* begin, const int32_t* end, std::vector<int32_t>& space) {
    if (std::is_sorted(begin, end)) return begin;
    space.assign(begin, end);
    std::sort(space.begin(), space.end());
    return space.data();
}

void expect_rows(const int64_t* indptr, const int32_t* indices, int64_t rows, int64_t cols) {
    if (rows < 0 || cols < 0) throw Failure(BB_INVALID, "shape: expected no negative number");
    if (!indptr || indptr[0] != 0) throw Failure(BB_INVALID, "row pointers: expected to start at 0");
    for (int64_t i = 0; i < rows; i++)
        if (indptr[i + 1] < indptr[i])
            throw Failure(BB_INVALID, "row pointers: decrease at row " + std::to_string(i));
    const int64_t nnz = indptr[rows];
    if (nnz > 0 && !indices)
        throw Failure(BB_INVALID, "column indices: found none, expected " + std::to_string(nnz));
    const int32_t* bad =
        std::find_if_not(indices, indices + nnz, [=](int32_t j) { return j >= 0 && j < cols; });
    if (bad != indices + nnz)
        throw Failure(BB_INVALID, "column indices: found " + std::to_string(*bad) + ", expected 0 to " +
                                      std::to_string(cols - 1));
}

void count_tops(const int32_t* indices, int64_t nnz, int64_t cols, bb_stats* stats) {
    std::vector<int64_t> counts(static_cast<size_t>(cols));
    for (int64_t k = 0; k < nnz; k++) counts[static_cast<size_t>(indices[k])]++;
    std::sort(counts.begin(), counts.end(), std::greater<int64_t>());
    int64_t sum = 0, taken = 0;
    for (int k = 0; k < BB_TOPS; k++) {
        const int64_t until = std::min(int64_t(1) << k, cols);
        for (; taken < until; taken++) sum += counts[static_cast<size_t>(taken)];
        stats->top_nnz[k] = sum;
    }
}

void count_rows(const int64_t* indptr, const int32_t* indices, int64_t rows, bb_stats* stats) {
    int64_t differing[kBits] = {}, filled = 0;
    std::vector<int32_t> space;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t length = indptr[i + 1] - indptr[i];
        const int bin = bmrm::length_bin(length);
        stats->length_rows[bin]++;
        stats->length_nnz[bin] += length;
        stats->longest = std::max(stats->longest, length);
        if (length == 0) continue;
        filled++;
        const int32_t* row = sorted_row(indices + indptr[i], indices + indptr[i + 1], space);
        for (int64_t k = 1; k < length; k++) {
            const uint32_t difference = uint32_t(row[k - 1]) ^ uint32_t(row[k]);
            if (difference == 0)
                stats->repeated = 1;
            else
                differing[highest_bit(difference)]++;
        }
    }
    stats->empty_rows = rows - filled;
    int64_t apart = 0;
    int bit = kBits - 1;
    for (int k = BB_SPREADS - 1; k >= 0; k--) {
        for (; bit >= k + BB_SPREAD_FIRST; bit--) apart += differing[bit];
        stats->fragments[k] = filled + apart;
    }
}

}  // namespace

extern "C" bb_status bb_statistics_host(const int64_t* indptr, const int32_t* indices, int64_t rows,
                                        int64_t cols, int32_t value_bytes, int32_t vector_bytes,
                                        bb_stats* stats) {
    return bmrm::guarded([&] {
        if (!stats) throw Failure(BB_INVALID, "statistics: expected an address to write to");
        expect_rows(indptr, indices, rows, cols);
        *stats = bb_stats{};
        stats->rows = rows;
        stats->cols = cols;
        stats->nnz = indptr[rows];
        stats->value_bytes = value_bytes;
        stats->vector_bytes = vector_bytes;
        count_rows(indptr, indices, rows, stats);
        count_tops(indices, stats->nnz, cols, stats);
    });
}
