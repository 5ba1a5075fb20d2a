// What a format holds, element by element: compressed rows are built again from that (prepare.h).
#pragma once
#include <stdint.h>

namespace bmrm {

constexpr uint64_t kPadding = ~uint64_t(0);  // key of an element that is no nonzero

// Where a format lists its elements.  Those that have the same row and column keep their order.
struct Listing {
    uint64_t* keys;  // row << 32 | column, or kPadding
    void* values;    // of the matrix's type; null if they are not wanted

    // The list after the first `count` elements, whose values have `bytes` bytes each.
    Listing after(int64_t count, int bytes) const {
        return {keys + count, values ? static_cast<unsigned char*>(values) + count * bytes : nullptr};
    }
};

}  // namespace bmrm
