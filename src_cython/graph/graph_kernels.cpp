// The tables of the loops of this folder for one instruction set (cpu/isa.h).
#define BMRM_AVX512_OPTIONS ",prefer-vector-width=512"
#include "cpu/instruction_set.h"
//
#include "graph/basis_kernels.h"
#include "graph/walk_kernels.h"

namespace bmrm::BMRM_ISA {

const BasisKernels basis_kernels = {BasisLoops::products, BasisLoops::add};

template <class Columns, class Exact>
constexpr WalkKernels loops_of(decltype(WalkKernels::rows) light, decltype(WalkKernels::exact_rows) exact) {
    return {Columns::mix, Columns::advance, Columns::inner_products, light, exact,
            Exact::move,  Exact::total,     Exact::residual};
}

template <int K>
constexpr WalkKernels loops_of_columns() {
    constexpr int W = std::min(K, kExactColumns);
    return loops_of<SomeColumns<K>, ExactColumns<W>>(EdgeRows<float, K>::rows, EdgeRows<double, W>::rows);
}

const AllWalkKernels walk_kernels = {{loops_of<OneColumn, ExactColumns<1>>(nullptr, nullptr),
                                      loops_of_columns<4>(), loops_of_columns<8>(), loops_of_columns<16>(),
                                      loops_of_columns<32>()}};

}  // namespace bmrm::BMRM_ISA
