// The rows of a group by level, sorted by margin within each level.
#pragma once

#include "joint/sort.h"

namespace bmrm {

/// The rows of one level: ascending margins, and places in the group.
struct Class {
    int64_t size;
    double* margin;
    int64_t* place;
};

/// Returns the classes of the levels 0 to `levels` - 1, which are few; the group's rows are ordered by level.
inline Class* classes_of(const Group& group, const Line& line, int64_t levels, int threads, Arena& arena) {
    const double* u = margins_of(group, line, threads, arena);
    Class* classes = arena.take<Class>(levels);
    for (int64_t k = 0, first = 0; k < levels; ++k) {
        const int64_t *begin = group.level + first, *end = group.level + group.size;
        const int64_t size = std::upper_bound(begin, end, k) - begin;
        const Sorted sorted = sort_margins(u + first, size, threads, arena);
        in_chunks(size, kChunk, threads, [=](int64_t from, int64_t to, int64_t) {
            for (int64_t q = from; q < to; ++q) sorted.place[q] += first;
        });
        classes[k] = {size, sorted.margin, sorted.place};
        first += size;
    }
    return classes;
}

}  // namespace bmrm
