// Points on a device, sorted so that neighbours are near in memory.
#pragma once
#include <vector>

#include "api/pairs.h"
#include "pairs/kernels/tile_pairs.cuh"
#include "runtime/handle.h"

namespace bmrm {

constexpr int kCurveBits = 30;  // of a point's place along Morton's curve
constexpr int kCurveAxes = 6;   // that the curve looks at

// Where the curve runs: from the low ends of the first axes on, with so much of 2^bits for a unit.
struct CurveRange {
    double low[kCurveAxes] = {}, scale[kCurveAxes] = {};
    int axes = 0, bits = 0;

    CurveRange() = default;
    // By axis: the extremes of points, and the lengths of a periodic box, which are 0 for open axes.
    CurveRange(int all_axes, const double* low, const double* high, const double* length);
};

// Returns the numbers of points in the order of the curve; box: without lengths if all axes are open.
Array<uint32_t> along_curve(Memory& memory, const ExactPoints& points, const Box& box,
                            const CurveRange& range);

}  // namespace bmrm

struct bb_points : bmrm::Handle {
    bb_points(const bb_device& device, const bb_point_data& data);

    bmrm::ExactPoints exact() const { return {exact_.data(), n, axes}; }
    bmrm::Box box() const { return {box_.data(), box_.data() + axes}; }
    // Of the coordinates as given, or moved into the periodic box.
    bmrm::TileBoxes boxes(bool moved) const {
        const double* const from = moved && is_periodic() ? boxes_in_box_.data() : boxes_.data();
        return {from, from + bmrm::tiles_of(n) * axes};
    }
    bool is_periodic() const { return periodic_; }

    const bb_device device;
    const int64_t n;
    const int axes;
    const std::vector<double> length;  // of the box; 0 of open axes
    std::vector<double> low, high;     // extremes of the coordinates as given, by axis

  private:
    void take(const bb_point_data& data);
    void bound(const bmrm::ExactPoints& points, bool moved, bmrm::Array<double>& to);
    void find_extremes();
    void sort(const bmrm::Array<double>& given);

    bmrm::Array<double> exact_, box_, boxes_, boxes_in_box_;
    bool periodic_ = false;
};
