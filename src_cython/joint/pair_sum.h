// Sums over the rows that are active with a row of a pair.
#pragma once

namespace bmrm {

/// A sum of s_j over some rows j.
struct WeightSum {
    double weight = 0.0;

    WeightSum() = default;
    WeightSum(double s, double) : weight(s) {}
    void add(const WeightSum& other) { weight += other.weight; }
    /// The sum of s_j c_ij for a row i of value v above these rows; for a row below them it has the sign
    /// `above`.
    double seen_from(double) const { return weight; }
    static constexpr double above = 1.0;
    static constexpr bool graded = false;
};

/// Sums of s_j and of s_j v_j over some rows j.
struct GradedSum {
    double weight = 0.0, value = 0.0;

    GradedSum() = default;
    GradedSum(double s, double v) : weight(s), value(s * v) {}
    void add(const GradedSum& other) {
        weight += other.weight;
        value += other.value;
    }
    double seen_from(double v) const { return v * weight - value; }
    static constexpr double above = -1.0;
    static constexpr bool graded = true;
};

}  // namespace bmrm
