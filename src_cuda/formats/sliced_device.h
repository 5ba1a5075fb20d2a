// A matrix in the sliced format on the device, with everything that its product needs.
#pragma once
#include "formats/csr.h"
#include "formats/sliced.h"

namespace bmrm {

// Returns the number of partial sums of a row above which a block adds them; otherwise 2^log2_lanes threads
// do.
inline uint32_t many_slots(int log2_lanes) { return 16u << log2_lanes; }

struct Sliced {
    Cut cut = {};
    int64_t rows = 0, cols = 0;
    uint64_t elements = 0, shared_elements = 0;
    uint32_t widest = 0;  // maximum nonzeros per thread
    Array<Item> items;
    Array<uint32_t> dest;
    Array<unsigned char> local;   // indices of the shared tiles
    Array<uint32_t> far;          // indices of the gathered tile
    Array<unsigned char> values;  // codes or values of all elements; empty for ones
    Array<uint32_t> tile_item;
    Array<BlockShare> shares;
    int blocks = 0, threads = 0;
    int64_t shared_bytes = 0;         // per block
    Array<uint32_t> order;            // columns by popularity, if cut.by_count
    Array<unsigned char> permuted_x;  // the input in that order
    // Rows that are not one chunk, the first slot of each among the partial sums, and which of them have
    // many.
    Array<uint32_t> parted, slot, longest;
    int log2_lanes = 0;
    Array<unsigned char> partial;

    // Calls f(array, whether products write it) for each array.
    template <class F>
    void each_array(F&& f) {
        f(items, false);
        f(dest, false);
        f(local, false);
        f(far, false);
        f(values, false);
        f(tile_item, false);
        f(shares, false);
        f(order, false);
        f(parted, false);
        f(slot, false);
        f(longest, false);
        f(permuted_x, true);
        f(partial, true);
    }
    int64_t bytes() const {
        return int64_t(items.bytes() + dest.bytes() + local.bytes() + far.bytes() + values.bytes() +
                       order.bytes() + permuted_x.bytes() + slot.bytes() + 2 * partial.bytes());
    }
};

// `order`: columns by popularity; needed if the plan is BB_HOT.
Sliced build_sliced(Memory& memory, const Csr& a, const ValueArray& coding, const bb_plan& plan,
                    const bb_device& device, const Array<uint32_t>* order);

}  // namespace bmrm
