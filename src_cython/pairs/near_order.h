// An order of points in which neighbours are close, by splitting the widest axis at the median.
#pragma once

#include <vector>

#include "pairs/placed_points.h"

namespace bmrm {

/// The point of each place; each `leaf` places, and twice as many, and so on, are a box with few others in
/// it, whatever the distances between the points are.
std::vector<i64> near_order(const PlacedPoints& points, i64 leaf, int threads);

}  // namespace bmrm
