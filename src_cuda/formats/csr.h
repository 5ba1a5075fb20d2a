// Compressed rows on the device: preparation works on them, and the plain kernels read them.
#pragma once
#include <stdint.h>

#include "api/blackbox.h"
#include "runtime/device_memory.h"

namespace bmrm {

inline int64_t bytes_of(bb_type type) { return type == BB_FLOAT64 ? 8 : 4; }

// Values of any coding: floats, doubles, one-byte codes, or nothing.
struct ValueArray {
    Array<unsigned char> bytes;
    Array<unsigned char> dictionary;  // 256 values of the matrix's type, for codes
    bb_coding coding = BB_PLAIN;
    bb_type type = BB_FLOAT32;

    int vector_bytes() const { return int(bytes_of(type)); }
    int value_bytes() const { return coding == BB_ONES ? 0 : coding == BB_DICTIONARY ? 1 : vector_bytes(); }
};

struct Csr {
    int64_t rows = 0, cols = 0, nnz = 0;
    Array<int64_t> ptr;
    Array<uint32_t> col;  // sorted within a row
    Array<unsigned char> values;
    bool repeated = false;

    // Calls f(array, whether products write it) for each array.
    template <class F>
    void each_array(F&& f) {
        f(ptr, false);
        f(col, false);
        f(values, false);
    }
};

// A type and a coding as an argument, for code that is compiled for each.
template <class TYPE, int CODE>
struct Kind {
    using T = TYPE;
    static constexpr int CODING = CODE;
};

// Calls f with the Kind of the type and coding found at run time.
template <class F>
void with_values(bb_type type, bb_coding coding, F&& f) {
    if (type == BB_FLOAT32) {
        if (coding == BB_PLAIN) return f(Kind<float, BB_PLAIN>());
        if (coding == BB_ONES) return f(Kind<float, BB_ONES>());
        return f(Kind<float, BB_DICTIONARY>());
    }
    if (coding == BB_PLAIN) return f(Kind<double, BB_PLAIN>());
    if (coding == BB_ONES) return f(Kind<double, BB_ONES>());
    return f(Kind<double, BB_DICTIONARY>());
}

// Calls f with a zero of the type found at run time; checks the launches of f.
template <class F>
void by_type(bb_type type, F&& f) {
    if (type == BB_FLOAT32)
        f(float());
    else
        f(double());
    BB_CHECK(cudaGetLastError());
}

// Calls f with the place of values of `value_bytes` bytes, as a pointer to their type; null if there are
// none.
template <class F>
void with_stored(int value_bytes, unsigned char* data, F&& f) {
    if (value_bytes == 8) return f(reinterpret_cast<double*>(data));
    if (value_bytes == 4) return f(reinterpret_cast<float*>(data));
    f(value_bytes == 1 ? data : nullptr);
}

}  // namespace bmrm
