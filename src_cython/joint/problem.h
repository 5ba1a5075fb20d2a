// What the risks of margins taken together share.
//
// A joint risk is a mean over groups of rows (queries; or one group, all rows), R = sum_g share_g F_g(u),
// each F_g convex in the margins of its group and cheap once these are sorted. Groups are independent, so
// they are evaluated in parallel, each in an order that does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/team.h"
#include "joint/arena.h"

namespace bmrm {

/// Minimum number of rows of a group that is evaluated alone, with all threads.
constexpr int64_t kMinLargeGroup = 1 << 16;

/// The margins u_i = z_i + t dz_i + b at which a risk is evaluated.
struct Line {
    const double *z, *dz;
    double t, b;

    double operator()(int64_t row) const { return z[row] + t * dz[row] + b; }
};

/// The rows that take part, group by group; the other arrays of rows are in the same order.
struct Problem {
    const int64_t* rows;
    const int64_t* starts;  // groups + 1 positions in `rows`
    int64_t groups;
    const int64_t* level;  // class or grade of each row, from 0, ascending within its group
    const double* weight;
    const double* value;   // a further number per row, see the risks
    const double* anchor;  // another one
    const double* share;   // weight of each group in the risk
};

/// One group of a problem; the arrays begin with its first row.
struct Group {
    const int64_t* rows;
    int64_t size;
    const int64_t* level;
    const double *weight, *value, *anchor;
    double share;

    Group(const Problem& p, int64_t g)
        : rows(p.rows + p.starts[g]),
          size(p.starts[g + 1] - p.starts[g]),
          level(p.level + p.starts[g]),
          weight(p.weight + p.starts[g]),
          value(p.value + p.starts[g]),
          anchor(p.anchor + p.starts[g]),
          share(p.share[g]) {}
};

/// A risk, and the value at margins 0 of the plane that touches it: the other terms of the plane, margins
/// times derivatives, may be far larger.
struct Touched {
    double value, constant;

    Touched& operator+=(const Touched& other) {
        value += other.value;
        constant += other.constant;
        return *this;
    }
    friend Touched operator*(double share, const Touched& found) {
        return {share * found.value, share * found.constant};
    }
};

/// Computes values and constants of all groups by risk(group, line, r, threads, arena); each call writes r at
/// the rows of its group.
template <class Risk>
void for_groups(const Problem& problem, const Line& line, double* r, std::vector<Arena>& arenas,
                const Risk& risk, double* values, double* constants) {
    const auto take = [=](int64_t g, const Touched& found) {
        values[g] = found.value;
        constants[g] = found.constant;
    };
    const int threads = int(arenas.size());
    for (int64_t g = 0; g < problem.groups; ++g) {
        const Group group(problem, g);
        if (group.size < kMinLargeGroup) continue;
        arenas[0].clear();
        take(g, risk(group, line, r, threads, arenas[0]));
    }
    const int team = problem.starts[problem.groups] < 4096 ? 1 : threads;
    constexpr int64_t each = 8;
    for_each_task_of_member((problem.groups + each - 1) / each, team, [&](int64_t t, int member) {
        for (int64_t g = t * each; g < std::min(problem.groups, (t + 1) * each); ++g) {
            const Group group(problem, g);
            if (group.size >= kMinLargeGroup) continue;
            arenas[member].clear();
            take(g, risk(group, line, r, 1, arenas[member]));
        }
    });
}

}  // namespace bmrm
