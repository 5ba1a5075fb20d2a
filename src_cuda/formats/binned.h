// A matrix in bins (kernels/binned.cuh) on the device.
#pragma once
#include "formats/sliced_device.h"

namespace bmrm {

struct Binned {
    int64_t cols = 0, tile = 0;
    Array<uint32_t> tile_quad, dest;
    Array<BlockShare> shares;  // of the blocks of the first half, in quads
    Array<uint16_t> local;
    Array<unsigned char> values, products;
    Array<uint32_t> region_size;  // products per region, for the second half
    int blocks = 0, threads = 0;
    int64_t shared_bytes = 0;
    Sliced rows;      // the second half: a matrix of ones, one tile per region
    ValueArray ones;  // its coding

    // Calls f(array, whether products write it) for each array.
    template <class F>
    void each_array(F&& f) {
        f(tile_quad, false);
        f(shares, false);
        f(dest, false);
        f(local, false);
        f(values, false);
        f(region_size, false);
        f(products, true);
        rows.each_array(f);
    }
    int64_t bytes() const {
        return dest.bytes() + local.bytes() + values.bytes() + 2 * products.bytes() + rows.bytes();
    }
};

Binned build_binned(Memory& memory, const Csr& a, const ValueArray& coding, const bb_plan& plan,
                    const bb_device& device);

}  // namespace bmrm
