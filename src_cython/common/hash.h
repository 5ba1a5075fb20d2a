// The finaliser of MurmurHash3, for checksums.
#pragma once

#include <cstdint>

namespace bmrm {

/// A bijection in which each bit of the result depends on all bits.
inline std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
    return x ^ (x >> 33);
}

}  // namespace bmrm
