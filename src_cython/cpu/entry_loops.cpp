#include "cpu/entry_loops.h"

#include <numeric>
#include <vector>

#include "cpu/entries.h"
#include "cpu/matrix.h"

namespace bmrm {
namespace {

/// Prefetch distance of places, in entries.
constexpr i64 kPlacesAhead = 64;

template <class I, class V>
struct Loops {
    static constexpr bool ones = std::is_same_v<V, One>;

    static const I* columns_of(const void* idx) { return static_cast<const I*>(idx); }
    static const V* values_of(const void* val) { return static_cast<const V*>(val); }

    static double value(const V* val, i64 k) {
        if constexpr (ones)
            return 1.0;
        else
            return static_cast<double>(val[k]);
    }

    template <class Count>
    static void count(const void* indices, i64 begin, i64 end, Count* counts) {
        const I* idx = columns_of(indices);
        for (i64 k = begin; k < end; ++k) ++counts[idx[k]];
    }

    template <class J>
    static void place_as(const i64* ptr, const I* idx, const V* val, i64 begin, i64 end, i64 base, i64* at,
                         J* rows, V* to) {
        for (i64 i = begin; i < end; ++i)
            for (i64 k = ptr[i]; k < ptr[i + 1]; ++k) {
                const i64 place = at[idx[k]]++;
                rows[place] = static_cast<J>(i - base);
                if constexpr (!ones) to[place] = val[k];
            }
    }

    static void place(const i64* ptr, const void* idx, const void* val, i64 begin, i64 end, i64 base,
                      bool wide, i64* at, void* rows, void* to) {
        if (wide)
            place_as(ptr, columns_of(idx), values_of(val), begin, end, base, at,
                     static_cast<std::uint32_t*>(rows), static_cast<V*>(to));
        else
            place_as(ptr, columns_of(idx), values_of(val), begin, end, base, at,
                     static_cast<std::uint16_t*>(rows), static_cast<V*>(to));
    }

    static void add_squares(const void* indices, const void* values, i64 begin, i64 end, double* sum) {
        const I* idx = columns_of(indices);
        for (i64 k = begin; k < end; ++k) {
            const double v = value(values_of(values), k);
            sum[idx[k]] += v * v;
        }
    }

    static void row_squares(const i64* ptr, const void* val, i64 begin, i64 end, double* out) {
        for (i64 i = begin; i < end; ++i)
            if constexpr (ones)
                out[i] = static_cast<double>(ptr[i + 1] - ptr[i]);
            else
                out[i] = sum_of_squares(values_of(val) + ptr[i], ptr[i + 1] - ptr[i]);
    }

    static std::uint64_t checksum(const i64* ptr, const void* indices, const void* val, i64 begin, i64 end,
                                  std::uint64_t first, const std::uint64_t* keys) {
        const I* idx = columns_of(indices);
        std::uint64_t sum = 0;
        for (i64 i = begin; i < end; ++i) {
            const std::uint64_t key = key_of_row(first + static_cast<std::uint64_t>(i));
            for (i64 k = ptr[i]; k < ptr[i + 1]; ++k)
                sum += entry(key, keys[idx[k]], value(values_of(val), k));
        }
        return sum;
    }

    static void copy(const void* indices, const void* val, i64 begin, i64 end, i64* columns, void* values) {
        const I* idx = columns_of(indices);
        for (i64 k = begin; k < end; ++k) {
            columns[k] = static_cast<i64>(idx[k]);
            if constexpr (!ones) static_cast<V*>(values)[k] = values_of(val)[k];
        }
    }

    static void permute(const i64* ptr, void* indices, const void* val, i64 begin, i64 end,
                        const std::uint32_t* of, const std::uint8_t* class_at, void* to) {
        I* idx = static_cast<I*>(indices);
        std::vector<std::uint32_t> row;
        std::vector<std::uint16_t> row_classes;
        const i64 last = ptr[end] - kPlacesAhead;
        for (i64 i = begin; i < end; ++i) {
            const i64 first = ptr[i], count = ptr[i + 1] - first;
            i64 next[kColumnClasses + 1] = {};
            if (count > static_cast<i64>(row.size())) row.resize(2 * count), row_classes.resize(2 * count);
            std::uint32_t* const name = row.data();
            std::uint16_t* const its_class = row_classes.data();
            for (i64 k = 0; k < count; ++k) {
                if (first + k < last) __builtin_prefetch(of + idx[first + k + kPlacesAhead]);
                name[k] = of[idx[first + k]];
                its_class[k] = class_at[name[k]];
                ++next[its_class[k] + 1];
            }
            std::partial_sum(next, next + kColumnClasses + 1, next);
            for (i64 k = 0; k < count; ++k) {
                const i64 at = first + next[its_class[k]]++;
                idx[at] = static_cast<I>(name[k]);
                if constexpr (!ones) static_cast<V*>(to)[at] = values_of(val)[first + k];
            }
        }
    }
};

template <class I, class V>
constexpr EntryLoops loops_of() {
    using L = Loops<I, V>;
    return {L::template count<i64>,
            L::template count<std::uint32_t>,
            L::place,
            L::add_squares,
            L::row_squares,
            L::checksum,
            L::copy,
            L::permute};
}

template <class I>
const EntryLoops& loops_of_values(int value_bytes) {
    static constexpr EntryLoops all[3] = {loops_of<I, One>(), loops_of<I, float>(), loops_of<I, double>()};
    return all[value_bytes / 4];
}

}  // namespace

const EntryLoops& entry_loops(int index_bytes, int value_bytes) {
    return index_bytes == 1   ? loops_of_values<std::uint8_t>(value_bytes)
           : index_bytes == 2 ? loops_of_values<std::uint16_t>(value_bytes)
                              : loops_of_values<std::uint32_t>(value_bytes);
}

}  // namespace bmrm
