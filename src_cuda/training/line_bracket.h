// Several points of a line at a time, until the minimum is found: what bmrm/linesearch.py does from one slope
// at a time, for a machine that has eight of them for the price of one.
//
// The slope of a convex function grows along the line.  First points are tried over three decades; then each
// pass puts some where the secant meets zero and close round it, for a slope that is smooth, and some evenly,
// for one that has kinks.  A point with slope s in a bracket of width h is at most |s| h above the minimum.
#pragma once
#include "losses.h"

namespace bmrm {

constexpr int kPoints = 8;
constexpr int kMostPasses = 24;

struct LineBracket {
    double low, slope_low, high, slope_high;
    bool closed;  // there is a high end
};

// The end whose slope is smaller.
BMRM_HD double nearest(const LineBracket& b) {
    return b.closed && b.slope_high <= -b.slope_low ? b.high : b.low;
}

// How far above the minimum the value there can be.
BMRM_HD double excess(const LineBracket& b) {
    const double flatter = -b.slope_low < b.slope_high ? -b.slope_low : b.slope_high;
    return flatter > 0.0 ? flatter * (b.high - b.low) : 0.0;
}

// The start and points round the first step.
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
    // Where nothing is known of the scale, each decade below is tried.
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

// Takes the slopes at `t` into account.  A slope that is lost in an overflow counts as steep.
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

// Whether another pass would find nothing better.
BMRM_HD bool found(const LineBracket& b, double longest, double accuracy) {
    if (!b.closed) return b.low >= longest;
    const double middle = b.low + 0.5 * (b.high - b.low);
    return excess(b) <= accuracy || !(b.low < middle && middle < b.high);
}

// Takes the slopes at `t` of the passes-th pass into account and counts it; puts the points of the next one
// there, or returns true where there is none.
BMRM_HD bool ends(LineBracket& b, int& passes, double longest, double accuracy, double* t,
                  const double* slope) {
    if (passes == 0) {
        b.slope_low = slope[0];
        if (!(slope[0] < 0.0)) return true;
    }
    narrow(b, t, slope);
    passes++;
    if (passes == kMostPasses || found(b, longest, accuracy)) return true;
    next_points(b, longest, t);
    return false;
}

}  // namespace bmrm
