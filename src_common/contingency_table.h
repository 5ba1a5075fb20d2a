// The measures of a contingency table, for the searches on the CPU and on the GPU.
#pragma once

#include <cstdint>

#include "losses.h"

namespace bmrm {

enum class Measure { kFBeta, kPrecision, kRecall, kBreakEven };

/// The loss Delta of a table with a true positives and b false positives, and the range of b that the measure
/// allows.
struct ContingencyTable {
    Measure measure;
    int64_t positives, negatives, k;
    double beta;

    BMRM_HD double loss(int64_t a, int64_t b) const {
        if (measure == Measure::kFBeta) {
            const double square = beta * beta, hits = (1.0 + square) * double(a);
            return 1.0 - hits / (double(a + b) + square * double(positives));
        }
        return 1.0 - double(a) / double(measure == Measure::kPrecision ? a + b : positives);
    }
    BMRM_HD int64_t least(int64_t a) const {
        if (measure == Measure::kPrecision) return k > a ? k - a : 0;
        return measure == Measure::kBreakEven ? positives - a : 0;
    }
    BMRM_HD int64_t most(int64_t a) const {
        if (measure == Measure::kRecall) return k - a < negatives ? k - a : negatives;
        return measure == Measure::kBreakEven && positives - a < negatives ? positives - a : negatives;
    }
};

}  // namespace bmrm
