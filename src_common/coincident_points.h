// Two points at one place, for multidimensional scaling on the CPU and on a GPU.
//
// They have no direction. Any unit vector z is a subgradient of their distance there, so that w delta z may
// stand for w delta (x_i - x_j) / d, and the stress cannot rise (De Leeuw 1977). z is an axis that follows
// from the numbers of the rows, so that several such points part in several directions.
#pragma once
#include <stdint.h>

#include "host_device.h"

namespace bmrm {

/// Squared distances below this count as 0: their roots and reciprocals would lose digits.
constexpr double kLeastSquare = 1e-280;
/// The same of squares in float32.
constexpr double kLeastFloatSquare = 1e-28;

/// The axis along which points i < j at one place part.
BMRM_HD int64_t parting_axis(int64_t i, int64_t j, int64_t p) {
    return static_cast<int64_t>((static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15u +
                                 static_cast<uint64_t>(j) * 0xc2b2ae3d27d4eb4fu) >>
                                33) %
           p;
}

}  // namespace bmrm
