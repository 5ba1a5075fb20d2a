// Pairs of points on a device, with the passes of multidimensional scaling.
#pragma once
#include "api/scaling.h"
#include "pairs/resident_pairs.h"

struct bb_scaling : bmrm::ResidentPairs {
    using ResidentPairs::ResidentPairs;

    const double* descent(int p, const double* X, bool single, double* direction);
    template <bool WEIGHTED, class Real>  // each in a file of its own
    const double* descend(int p, const double* X, double* direction);
    void laplacian(int p, const double* Y, double* to);
    void squared(int p, const double* Y, double unknown, double* to);
    void pulls(int p, const double* X, double* to);
    void curvature(int p, const double* X, const double* direction, double* to);
    const double* summary(double* degrees);
    void over_degrees(int p, const double* degrees, const double* vector, double* to);
};
