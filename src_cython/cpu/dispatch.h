// The kernels of products for all instruction sets, among which the process chooses at the first use.
#pragma once

#include <cstdlib>

#include "cpu/simd.h"

#define BMRM_KERNELS "cpu/kernels.h"
#include "cpu/each_instruction_set.h"

namespace bmrm {

enum class Isa { baseline, avx2, avx512 };

/// The widest instruction set of this processor, or a lower one named by BMRM_CPU_ISA.
inline Isa isa() {
    static const Isa chosen = [] {
        Isa best = Isa::baseline;
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
            best = Isa::avx2;
        if (best == Isa::avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
            best = Isa::avx512;
#endif
        const char* limit = std::getenv("BMRM_CPU_ISA");
        if (limit && !std::strcmp(limit, "baseline")) return Isa::baseline;
        if (limit && !std::strcmp(limit, "avx2") && best > Isa::avx2) return Isa::avx2;
        return best;
    }();
    return chosen;
}

inline const char* isa_name() {
    return isa() == Isa::avx512 ? "avx512" : isa() == Isa::avx2 ? "avx2" : "baseline";
}

/// use(kernels) with a struct of kernels, the second argument, as compiled for this processor's instruction
/// set.
#if defined(__x86_64__)
#define BMRM_WITH_KERNELS(use, ...)                      \
    (isa() == Isa::avx512 ? (use)(avx512::__VA_ARGS__{}) \
     : isa() == Isa::avx2 ? (use)(avx2::__VA_ARGS__{})   \
                          : (use)(baseline::__VA_ARGS__{}))
#else
#define BMRM_WITH_KERNELS(use, ...) ((use)(baseline::__VA_ARGS__{}))
#endif

/// Pointers to the functions of one kernel struct, compiled for one instruction set.
template <class I, class V>
struct SparseKernels {
    using Model = baseline::Sparse<I, V>;
    decltype(&Model::rows) rows;
    decltype(&Model::rows_by_length) rows_by_length;
    decltype(&Model::span) span;
    decltype(&Model::lone) lone;
    decltype(&Model::add_lone) add_lone;
    decltype(&Model::lone_many) lone_many;
    decltype(&Model::add_lone_to) add_lone_to;
    decltype(&Model::fetch) fetch;
    decltype(&Model::rows_split) rows_split;
    decltype(&Model::scatter) scatter;
    decltype(&Model::add_pairs) add_pairs;
    decltype(&Model::cut_row) cut_row;
    decltype(&Model::template rows_many<8>) rows_many[kWidths];
    decltype(&Model::template scatter_many<8>) scatter_many[kWidths];

    template <class K>
    static SparseKernels of() {
        return {K::rows,
                K::rows_by_length,
                K::span,
                K::lone,
                K::add_lone,
                K::lone_many,
                K::add_lone_to,
                K::fetch,
                K::rows_split,
                K::scatter,
                K::add_pairs,
                K::cut_row,
                {K::template rows_many<2>, K::template rows_many<4>, K::template rows_many<8>,
                 K::template rows_many<16>, K::template rows_many<24>, K::template rows_many<32>},
                {K::template scatter_many<2>, K::template scatter_many<4>, K::template scatter_many<8>,
                 K::template scatter_many<16>, K::template scatter_many<24>, K::template scatter_many<32>}};
    }

    static const SparseKernels& get() {
        static const SparseKernels chosen =
            BMRM_WITH_KERNELS([](auto kernels) { return of<decltype(kernels)>(); }, Sparse<I, V>);
        return chosen;
    }
};

template <class V>
struct DenseKernels {
    using Model = baseline::Dense<V>;
    decltype(&Model::rows) rows;
    decltype(&Model::add_rows) add_rows;
    decltype(&Model::lone_many) lone_many;
    decltype(&Model::gram) gram;
    decltype(&Model::pack_rows) pack_rows;
    decltype(&Model::add_scaled) add_scaled;
    decltype(&Model::add_packed) add_packed;
    decltype(&Model::template rows_many<8>) rows_many[kWidths];
    decltype(&Model::template add_rows_many<8>) add_rows_many[kWidths];

    template <class K>
    static DenseKernels of() {
        return {
            K::rows,
            K::add_rows,
            K::lone_many,
            K::gram,
            K::pack_rows,
            K::add_scaled,
            K::add_packed,
            {K::template rows_many<2>, K::template rows_many<4>, K::template rows_many<8>,
             K::template rows_many<16>, K::template rows_many<24>, K::template rows_many<32>},
            {K::template add_rows_many<2>, K::template add_rows_many<4>, K::template add_rows_many<8>,
             K::template add_rows_many<16>, K::template add_rows_many<24>, K::template add_rows_many<32>}};
    }

    static const DenseKernels& get() {
        static const DenseKernels chosen =
            BMRM_WITH_KERNELS([](auto kernels) { return of<decltype(kernels)>(); }, Dense<V>);
        return chosen;
    }
};

}  // namespace bmrm
