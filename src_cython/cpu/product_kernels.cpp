// The table of the kernels of products for one instruction set (isa.h).
#include "cpu/instruction_set.h"
//
#include "cpu/dense_kernels.h"
#include "cpu/dispatch.h"
#include "cpu/sparse_kernels.h"

namespace bmrm {
namespace BMRM_ISA {

template <class I, class V>
constexpr SparseKernels sparse_of() {
    using K = Sparse<I, V>;
    SparseKernels found{
        K::rows,
        K::rows_by_length,
        K::span,
        K::lone,
        K::add_lone,
        K::lone_many,
        K::add_lone_to,
        K::fetch,
        nullptr,
        K::scatter,
        K::add_pairs,
        {K::template rows_many<2>, K::template rows_many<4>, K::template rows_many<8>,
         K::template rows_many<16>, K::template rows_many<24>, K::template rows_many<32>},
        {K::template scatter_many<2>, K::template scatter_many<4>, K::template scatter_many<8>,
         K::template scatter_many<16>, K::template scatter_many<24>, K::template scatter_many<32>}};
    if constexpr (sizeof(I) > 1) found.rows_split = K::rows_split;
    return found;
}

template <class V>
constexpr DenseKernels<V> dense_of() {
    using K = Dense<V>;
    return {K::rows,
            K::add_rows,
            K::lone_many,
            K::pack_rows,
            K::add_scaled,
            K::add_packed,
            {K::template rows_many<2>, K::template rows_many<4>, K::template rows_many<8>,
             K::template rows_many<16>, K::template rows_many<24>, K::template rows_many<32>},
            {K::template add_rows_many<2>, K::template add_rows_many<4>, K::template add_rows_many<8>,
             K::template add_rows_many<16>, K::template add_rows_many<24>, K::template add_rows_many<32>}};
}

const ProductKernels product_kernels = {
    {{sparse_of<std::uint8_t, One>(), sparse_of<std::uint8_t, float>(), sparse_of<std::uint8_t, double>()},
     {sparse_of<std::uint16_t, One>(), sparse_of<std::uint16_t, float>(), sparse_of<std::uint16_t, double>()},
     {sparse_of<std::uint32_t, One>(), sparse_of<std::uint32_t, float>(),
      sparse_of<std::uint32_t, double>()}},
    dense_of<float>(),
    dense_of<double>(),
    Sparse<std::uint32_t, One>::cut_row};

}  // namespace BMRM_ISA
}  // namespace bmrm
