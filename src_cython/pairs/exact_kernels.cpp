// The pairs of a block in float64, for one instruction set (cpu/isa.h): squared distances of a row to a
// segment of columns, which the compiler vectorises, then their bins.
#define BMRM_AVX512_OPTIONS ",prefer-vector-width=512"
#include "cpu/instruction_set.h"
//
#include "pairs/decision.h"
#include "pairs/exact_counter.h"

namespace bmrm::BMRM_ISA {

struct ExactLoops {
    /// Columns of a segment, whose squared distances stay in the first cache.
    static constexpr i64 kSegment = 256;

    template <class Difference>
    BMRM_INLINE static void add_axis(const double* columns, i64 count, bool first, double* squares,
                                     const Difference& difference) {
        if (first)
            for (i64 j = 0; j < count; ++j) squares[j] = add_square(0.0, difference(columns[j]));
        else
            for (i64 j = 0; j < count; ++j) squares[j] = add_square(squares[j], difference(columns[j]));
    }

    BMRM_INLINE static void distances(const ExactBlock& block, i64 i, i64 from, i64 count, double* squares) {
        for (int k = 0; k < block.axes; ++k) {
            const double a = block.rows[k * block.row_stride + i], period = block.box[k];
            const double* const columns = block.columns + k * block.column_stride + from;
            if (block.shift && period > 0.0) {
                const double shift = block.shift[k];
                add_axis(columns, count, k == 0, squares,
                         [=](double b) { return shifted_difference(a, b, shift); });
            } else if (period > 0.0) {
                add_axis(columns, count, k == 0, squares,
                         [=](double b) { return nearest_difference(a, b, period); });
            } else {
                add_axis(columns, count, k == 0, squares, [=](double b) { return exact::difference(a, b); });
            }
        }
    }

    template <bool NARROW>
    BMRM_INLINE static void count_block(const ExactBlock& block, const BinFinder& finder, i64* counts) {
        alignas(64) double squares[kSegment];
        for (i64 i = 0; i < block.row_count; ++i)
            for (i64 from = block.triangle ? i + 1 : 0; from < block.column_count; from += kSegment) {
                const i64 count = block.column_count - from < kSegment ? block.column_count - from : kSegment;
                distances(block, i, from, count, squares);
                for (i64 j = 0; j < count; ++j)
                    if (finder.holds(squares[j])) ++counts[finder.bin<NARROW>(squares[j])];
            }
    }

    BMRM_TARGET static void count(const ExactBlock& block, const BinFinder& finder, i64* counts) {
        finder.narrow() ? count_block<true>(block, finder, counts)
                        : count_block<false>(block, finder, counts);
    }
};

const ExactKernels exact_kernels = {ExactLoops::count};

}  // namespace bmrm::BMRM_ISA
