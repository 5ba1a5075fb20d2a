// The product of several vectors by the plan `split`, for float64.
#include "formats/kernels/columns.cuh"

#include <vector>

#include "runtime/chain.cuh"

using namespace bmrm;

namespace {

template <int CODING, int WIDTH>
void multiply(const std::vector<int64_t>& share_row, const int64_t* ptr, const uint32_t* col,
              const double* val, int64_t rows, const double* x, int columns, double* y) {
    const int64_t nnz = ptr[rows], warps = divided(nnz, kPieceNonzeros);
    std::vector<double> pieces(size_t(2 * warps * columns), NAN);
    const NextLaunch launch(unsigned(divided(warps, 8)), 256, 0, nullptr, false);
    launch(split_columns<double, CODING, WIDTH>, ptr, col, val, nullptr, rows, nnz, share_row.data(), x,
           columns, y, pieces.data());
    launch(add_pieces<double>, ptr, rows, nnz, share_row.data(), pieces.data(), columns, y);
}

template <int CODING>
void multiply(const std::vector<int64_t>& share_row, const int64_t* ptr, const uint32_t* col,
              const double* val, int64_t rows, const double* x, int columns, double* y) {
    const auto with = [&](auto kernel) { kernel(share_row, ptr, col, val, rows, x, columns, y); };
    if (columns == 2)
        with(multiply<CODING, 2>);
    else if (columns <= 4)
        with(multiply<CODING, 4>);
    else if (columns <= 8)
        with(multiply<CODING, 8>);
    else if (columns <= 16)
        with(multiply<CODING, 16>);
    else
        with(multiply<CODING, 32>);
}

}  // namespace

// y has to be 0, as rows without nonzeros stay as they are.
extern "C" void emulator_columns(const int64_t* ptr, const uint32_t* col, const double* val, int64_t rows,
                                 const double* x, int32_t columns, double* y) {
    const int64_t nnz = ptr[rows], shares = divided(nnz, tuning::kSplitNonzeros);
    std::vector<int64_t> share_row;
    for (int64_t s = 0; s <= shares; s++)
        share_row.push_back(row_of(ptr, 0, rows, std::min(s * tuning::kSplitNonzeros, nnz)));
    if (val)
        multiply<BB_PLAIN>(share_row, ptr, col, val, rows, x, columns, y);
    else
        multiply<BB_ONES>(share_row, ptr, col, val, rows, x, columns, y);
}
