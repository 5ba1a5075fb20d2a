// Line search with several points per pass: what bmrm/linear/objective/line_search.py does with one slope at
// a time, for a device that computes eight of them for the price of one.
//
// The slope of a convex function increases along the line.  The first points cover three decades.  Each later
// pass puts some points at and around the zero of the secant, for a smooth slope, and some at equal
// distances, for a slope with jumps.  A point with slope s in a bracket of width h is at most |s| h above the
// minimum.
#pragma once
#include "losses.h"

namespace bmrm {

constexpr int kPoints = 8;
constexpr int kMaxPasses = 24;

struct LineBracket {
    double low, slope_low, high, slope_high;
    bool closed;  // there is a high end
};

// The end whose slope is smaller in absolute value.
BMRM_HD double nearest(const LineBracket& b) {
    return b.closed && b.slope_high <= -b.slope_low ? b.high : b.low;
}

// An upper bound on the value there minus the minimum.
BMRM_HD double excess(const LineBracket& b) {
    const double flatter = -b.slope_low < b.slope_high ? -b.slope_low : b.slope_high;
    return flatter > 0.0 ? flatter * (b.high - b.low) : 0.0;
}

// The start, and points around the first step.
BMRM_HD void first_points(double first, double longest, double* t) {
    const double factors[kPoints] = {0.0, 1.0 / 32, 1.0 / 8, 0.5, 1.0, 2.0, 8.0, 32.0};
    for (int k = 0; k < kPoints; k++) {
        t[k] = factors[k] * first;
        if (t[k] > longest) t[k] = longest;
    }
}

BMRM_HD void next_points(const LineBracket& b, double longest, double* t) {
    if (!b.closed) {
        double factor = 2.0;
        for (int k = 0; k < kPoints; k++, factor *= 4.0) {
            t[k] = factor * b.low;
            if (!(t[k] < longest)) t[k] = longest;
        }
        return;
    }
    const double width = b.high - b.low;
    // If nothing is known of the scale, tries each decade below.
    if (b.low == 0.0 && !(b.slope_high < -4.0 * b.slope_low)) {
        const double shares[kPoints] = {1e-4, 1e-3, 1e-2, 0.04, 0.12, 0.3, 0.5, 0.75};
        for (int k = 0; k < kPoints; k++) t[k] = b.low + shares[k] * width;
        return;
    }
    double secant = b.low + width * (-b.slope_low / (b.slope_high - b.slope_low));
    if (!(secant > b.low && secant < b.high)) secant = b.low + 0.5 * width;
    const double away[kPoints] = {0.0, -1.0 / 64, 1.0 / 64, -1.0 / 10, 1.0 / 10, 0.0, 0.0, 0.0};
    for (int k = 0; k < 5; k++) t[k] = secant + away[k] * width;
    for (int k = 5; k < kPoints; k++) t[k] = b.low + (k - 4) * 0.25 * width;
    for (int k = 0; k < kPoints; k++)
        if (!(t[k] > b.low && t[k] < b.high)) t[k] = b.low + (k + 1.0) / (kPoints + 1.0) * width;
}

// Narrows the bracket by the slopes at `t`.  A slope that was lost in an overflow counts as steep.
BMRM_HD void narrow(LineBracket& b, const double* t, const double* slope) {
    for (int k = 0; k < kPoints; k++) {
        const double s = slope[k] == slope[k] ? slope[k] : 1e300;
        if (s >= 0.0 && (!b.closed || t[k] < b.high)) {
            b.high = t[k];
            b.slope_high = s;
            b.closed = true;
        }
    }
    for (int k = 0; k < kPoints; k++)
        if (slope[k] < 0.0 && t[k] >= b.low && (!b.closed || t[k] < b.high)) {
            b.low = t[k];
            b.slope_low = slope[k];
        }
}

// Returns whether another pass would find nothing better.
BMRM_HD bool found(const LineBracket& b, double longest, double accuracy) {
    if (!b.closed) return b.low >= longest;
    const double middle = b.low + 0.5 * (b.high - b.low);
    return excess(b) <= accuracy || !(b.low < middle && middle < b.high);
}

// Narrows the bracket by the slopes at `t` of pass number `passes`, and counts the pass.  Puts the points of
// the next pass into `t`, or returns true if there is none.
BMRM_HD bool ends(LineBracket& b, int& passes, double longest, double accuracy, double* t,
                  const double* slope) {
    if (passes == 0) {
        b.slope_low = slope[0];
        if (!(slope[0] < 0.0)) return true;
    }
    narrow(b, t, slope);
    passes++;
    if (passes == kMaxPasses || found(b, longest, accuracy)) return true;
    next_points(b, longest, t);
    return false;
}

}  // namespace bmrm
