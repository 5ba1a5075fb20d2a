// The instruction sets that kernels are compiled for, and which of them this processor has.
//
// Kernels are written once, in a `*_kernels.cpp`, and compiled once per set (instruction_set.h); each time
// they define a table of pointers to functions.
#pragma once

#include <cstdlib>
#include <cstring>

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

}  // namespace bmrm

/// Declares the tables `name` of all instruction sets, to be used in namespace bmrm, and the function name()
/// that returns the one for this processor.
#if defined(__x86_64__)
#define BMRM_TABLES(Type, name)                                                                        \
    namespace baseline {                                                                               \
    extern const Type name;                                                                            \
    }                                                                                                  \
    namespace avx2 {                                                                                   \
    extern const Type name;                                                                            \
    }                                                                                                  \
    namespace avx512 {                                                                                 \
    extern const Type name;                                                                            \
    }                                                                                                  \
    inline const Type& name() {                                                                        \
        return isa() == Isa::avx512 ? avx512::name : isa() == Isa::avx2 ? avx2::name : baseline::name; \
    }
#else
#define BMRM_TABLES(Type, name) \
    namespace baseline {        \
    extern const Type name;     \
    }                           \
    inline const Type& name() { return baseline::name; }
#endif
