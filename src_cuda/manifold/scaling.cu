// Multidimensional scaling on a device: what is resident, vectors, and the C interface.
#include <algorithm>
#include <cmath>
#include <string>

#include "manifold/device_pairs.h"
#include "manifold/kernels/pair_checks.cuh"
#include "manifold/kernels/pair_vectors.cuh"

using namespace bmrm;

namespace {

constexpr int64_t kStagedBytes = 64 << 20;  // of rows of a square matrix that are uploaded at once
static_assert(kMaxPairAxes == BB_SCALING_AXES && kMaxPairProducts == BB_SCALING_PRODUCTS &&
              kSquaredColumns == BB_SCALING_SQUARED);

int64_t half_of(int64_t n) { return n * (n - 1) / 2; }

void expect(bool holds, const char* text) {
    if (!holds) throw Failure(BB_INVALID, text);
}

}  // namespace

bb_scaling::bb_scaling(int32_t device, const bb_pairs& pairs)
    : Handle(device), n(pairs.n), missing_(pairs.missing != 0) {
    expect(n >= 1 && n < int64_t(1) << 31, "n: expected at least 1 point");
    expect((pairs.delta.values != nullptr) != (pairs.features != nullptr) || n == 1,
           "pairs: expected either dissimilarities or features");
    mail_.reserve(BB_SCALING_PRODUCTS, stream());
    Uploader uploader(std::max(1, pairs.threads));
    if (pairs.features)
        take_features(pairs, uploader);
    else
        delta_ = upload(pairs.delta, uploader, owned_delta_);
    if (pairs.weights.values) weight_ = upload(pairs.weights, uploader, owned_weight_);
    BB_CHECK(cudaStreamSynchronize(stream()));  // the caller's arrays have been read
}

PairTable bb_scaling::upload(const bb_pair_values& from, Uploader& uploader, AnyArray& owner) {
    expect(from.type == BB_FLOAT32 || from.type == BB_FLOAT64, "pairs: expected float32 or float64");
    if (from.in_place) return {from.values, from.type == BB_FLOAT64, from.square, n};
    return from.type == BB_FLOAT64 ? pack<double>(from, uploader, owner) : pack<float>(from, uploader, owner);
}

template <class T>
PairTable bb_scaling::pack(const bb_pair_values& from, Uploader& uploader, AnyArray& owner) {
    owner = AnyArray(memory, half_of(n) * int64_t(sizeof(T)));
    T* const to = static_cast<T*>(owner.data());
    if (!from.square) {
        BB_CHECK(
            cudaMemcpyAsync(to, from.values, size_t(half_of(n)) * sizeof(T), cudaMemcpyDefault, stream()));
    } else {
        const int64_t most = std::clamp<int64_t>(kStagedBytes / (n * int64_t(sizeof(T))), 1, n);
        Array<T> staged(memory, most * n);
        for (int64_t first = 0; first < n; first += most) {
            const int64_t rows = std::min(most, n - first);
            uploader.copy(memory, staged.data(), static_cast<const T*>(from.values) + first * n,
                          rows * n * int64_t(sizeof(T)));
            const NextLaunch launch(blocks_for(rows * n), 256, 0, stream(), false);
            launch(pack_rows<T>, staged.data(), n, first, rows, to);
        }
    }
    return {to, sizeof(T) == 8, 0, n};
}

void bb_scaling::take_features(const bb_pairs& pairs, Uploader& uploader) {
    m_ = pairs.m;
    stride_ = (n + 4 + kMostColumns - 1) / kMostColumns * kMostColumns;
    features_ = Array<double>(memory, std::max<int64_t>(1, m_ * stride_));
    const auto turn = [&](auto type) {
        using T = decltype(type);
        Array<T> given(memory, std::max<int64_t>(1, n * m_));
        uploader.copy(memory, given.data(), pairs.features, n * m_ * int64_t(sizeof(T)));
        const NextLaunch launch(blocks_for(m_ * stride_), 256, 0, stream(), false);
        launch(turn_features<T>, given.data(), n, m_, stride_, features_.data());
    };
    pairs.features_type == BB_FLOAT64 ? turn(double{}) : turn(float{});
    if (!pairs.stored) return;
    stored_ = Array<double>(memory, std::max<int64_t>(1, half_of(n)));
    const FeaturePairs from{features_.data(), m_, stride_};
    const NextLaunch launch(blocks_for(n * n), 256, 0, stream(), false);
    launch(store_distances, from, n, int64_t(0), n, stored_.data());
    delta_ = {stored_.data(), 1, 0, n};
}

// --- vectors

double* bb_scaling::lend(int64_t size) {
    std::vector<double*>& idle = idle_[size];
    if (idle.empty()) {
        vectors_.emplace_back(memory, size);
        return vectors_.back().data();
    }
    double* const vector = idle.back();
    idle.pop_back();
    return vector;
}

void bb_scaling::combine(int64_t size, const double* const* vectors, const double* factors, int count,
                         double* to) {
    Multiples from = {};
    from.count = count;
    std::copy_n(vectors, count, from.vectors);
    std::copy_n(factors, count, from.factors);
    const NextLaunch launch(blocks_for(size), 256, 0, stream(), false);
    launch(add_multiples, from, size, to);
}

const double* bb_scaling::products(int64_t size, const double* const* vectors, const double* const* others,
                                   int count) {
    Products of = {};
    of.count = count;
    std::copy_n(vectors, count, of.vectors);
    std::copy_n(others, count, of.others);
    const int64_t chunks = (size + kProductChunk - 1) / kProductChunk;
    reserve(memory, partial_, chunks * BB_SCALING_PRODUCTS);
    const NextLaunch launch(unsigned(chunks * count), kVectorThreads, 0, stream(), false);
    launch(multiply_chunks, of, size, chunks, partial_.data());
    const NextLaunch one(1u, kVectorThreads, 0, stream(), false);
    one(add_chunks, partial_.data(), chunks, count, mail_.next());
    return mail_.wait(stream());
}

void bb_scaling::over_degrees(int p, const double* vector, double* to) {
    expect(degrees_.size() == n, "degrees: expected the summary first");
    const NextLaunch launch(blocks_for(n * p), 256, 0, stream(), false);
    launch(divide_points, vector, degrees_.data(), n, p, to);
}

void bb_scaling::centre(int p, const double* vector, double* to) {
    reserve(memory, means_, BB_SCALING_AXES);
    const NextLaunch averages(unsigned(p), kVectorThreads, 0, stream(), false);
    averages(average_points, vector, n, p, means_.data());
    const NextLaunch launch(blocks_for(n * p), 256, 0, stream(), false);
    launch(centre_points, vector, means_.data(), n, p, to);
}

const double* bb_scaling::descent(int p, const double* X, double* direction) {
    return weighted() ? descend<true>(p, X, direction) : descend<false>(p, X, direction);
}

// --- the C interface

namespace {

template <class T>
void check(Memory& memory, const PairTable& table, const PairRules& rules, Array<CheckedPairs>& found,
           CheckedPairs& out) {
    const CheckedPairs none{kNoDefect, 0, 0};
    found.from_host(&none, 1);
    const int64_t tiles = (table.n + kCheckedTile - 1) / kCheckedTile;
    const NextLaunch launch(unsigned(tiles * tiles), kCheckThreads, 0, memory.stream, false);
    launch(check_pairs<T>, table, rules, tiles, found.data());
    out = found.at(0);
}

double entry(Memory& memory, const PairTable& table, int64_t i, int64_t j) {
    const bool lower = j < i;
    if (!table.square && lower) std::swap(i, j);
    const int64_t place = table.square ? i * table.n + j : i * (2 * table.n - i - 1) / 2 + j - i - 1;
    const int64_t bytes = table.is_double ? 8 : 4;
    double wide = 0.0;
    float narrow = 0.0f;
    void* const to = table.is_double ? static_cast<void*>(&wide) : static_cast<void*>(&narrow);
    BB_CHECK(cudaMemcpyAsync(to, static_cast<const char*>(table.values) + place * bytes, size_t(bytes),
                             cudaMemcpyDefault, memory.stream));
    BB_CHECK(cudaStreamSynchronize(memory.stream));
    return table.is_double ? wide : double(narrow);
}

}  // namespace

extern "C" {

bb_status bb_scaling_create(int32_t device, const bb_pairs* pairs, bb_scaling** out) {
    return guarded([&] {
        const OnDevice scope(device);
        *out = new bb_scaling(device, *pairs);
    });
}

void bb_scaling_destroy(bb_scaling* scaling) { destroy_handle(scaling); }

int64_t bb_scaling_sum_bytes(int64_t n, int32_t adds) {
    const int columns = adds <= 3 ? 4 : adds <= 8 ? 2 : 1;
    const PairTiles tiles = bb_scaling::tiles_for(n, columns);
    const int64_t strips = tiles.strips(), stacks = tiles.stacks();
    return 8 * ((strips + stacks) * n * round_up_to_power(adds) + strips * stacks * kMaxTotals);
}

bb_status bb_scaling_used(bb_scaling* scaling, int64_t* bytes) {
    return on_handle(scaling, [&](bb_scaling& s) { *bytes = s.memory.used(); });
}

bb_status bb_scaling_lend(bb_scaling* scaling, int64_t size, double** vector) {
    return on_handle(scaling, [&](bb_scaling& s) { *vector = s.lend(size); });
}

void bb_scaling_give(bb_scaling* scaling, int64_t size, double* vector) {
    on_handle(scaling, [&](bb_scaling& s) { s.give(size, vector); });
}

bb_status bb_scaling_put(bb_scaling* scaling, int64_t size, const double* values, double* vector) {
    return on_handle(scaling, [&](bb_scaling& s) {
        BB_CHECK(cudaMemcpyAsync(vector, values, size_t(size) * 8, cudaMemcpyDefault, s.stream()));
        BB_CHECK(cudaStreamSynchronize(s.stream()));
    });
}

bb_status bb_scaling_get(bb_scaling* scaling, int64_t size, const double* vector, double* values) {
    return bb_scaling_put(scaling, size, vector, values);
}

bb_status bb_scaling_combine(bb_scaling* scaling, int64_t size, const double* const* vectors,
                             const double* factors, int32_t count, double* to) {
    return on_handle(scaling, [&](bb_scaling& s) {
        expect(count >= 1 && count <= BB_SCALING_VECTORS, "vectors: expected 1 to 32");
        s.combine(size, vectors, factors, count, to);
    });
}

bb_status bb_scaling_products(bb_scaling* scaling, int64_t size, const double* const* vectors,
                              const double* const* others, int32_t count, double* products) {
    return on_handle(scaling, [&](bb_scaling& s) {
        expect(count >= 1 && count <= BB_SCALING_PRODUCTS, "vectors: expected 1 to 64");
        std::copy_n(s.products(size, vectors, others, count), count, products);
    });
}

bb_status bb_scaling_over_degrees(bb_scaling* scaling, int32_t p, const double* vector, double* to) {
    return on_handle(scaling, [&](bb_scaling& s) { s.over_degrees(p, vector, to); });
}

bb_status bb_scaling_centre(bb_scaling* scaling, int32_t p, const double* vector, double* to) {
    return on_handle(scaling, [&](bb_scaling& s) {
        expect(p >= 1 && p <= BB_SCALING_AXES, "p: expected 1 to 16");
        s.centre(p, vector, to);
    });
}

bb_status bb_scaling_summary(bb_scaling* scaling, double* degrees, double* totals) {
    return on_handle(scaling, [&](bb_scaling& s) { std::copy_n(s.summary(degrees), 3, totals); });
}

bb_status bb_scaling_descent(bb_scaling* scaling, int32_t p, const double* X, double* direction,
                             double* totals) {
    return on_handle(scaling, [&](bb_scaling& s) { std::copy_n(s.descent(p, X, direction), 3, totals); });
}

bb_status bb_scaling_laplacian(bb_scaling* scaling, int32_t p, const double* Y, double* to) {
    return on_handle(scaling, [&](bb_scaling& s) { s.laplacian(p, Y, to); });
}

bb_status bb_scaling_squared(bb_scaling* scaling, int32_t p, const double* Y, double unknown, double* to) {
    return on_handle(scaling, [&](bb_scaling& s) { s.squared(p, Y, unknown, to); });
}

bb_status bb_scaling_pulls(bb_scaling* scaling, int32_t p, const double* X, double* to) {
    return on_handle(scaling, [&](bb_scaling& s) { s.pulls(p, X, to); });
}

bb_status bb_scaling_curvature(bb_scaling* scaling, int32_t p, const double* X, const double* direction,
                               double* to) {
    return on_handle(scaling, [&](bb_scaling& s) { s.curvature(p, X, direction, to); });
}

bb_status bb_scaling_row(bb_scaling* scaling, int64_t i, double* values) {
    return on_handle(scaling, [&](bb_scaling& s) {
        expect(i >= 0 && i < s.n, "row: out of range");
        s.row(i, values);
    });
}

bb_status bb_scaling_inspect(int32_t device, int64_t n, const bb_pair_values* values, int32_t nan_allowed,
                             double diagonal, double asymmetry, bb_pair_defect* found) {
    return guarded([&] {
        const OnDevice scope(device);
        Memory memory(device);
        const PairTable table{values->values, values->type == BB_FLOAT64, values->square, n};
        Array<CheckedPairs> place(memory, 1);
        CheckedPairs checked = {};
        PairRules rules{nan_allowed, diagonal < 0.0 ? diagonal : HUGE_VAL, HUGE_VAL};
        const auto look = [&] {
            table.is_double ? check<double>(memory, table, rules, place, checked)
                            : check<float>(memory, table, rules, place, checked);
        };
        look();
        std::copy_n(reinterpret_cast<const double*>(&checked.largest), 1, &found->largest);
        if (table.square && std::isfinite(found->largest)) {
            rules.tolerance = asymmetry * found->largest;
            if (diagonal >= 0.0) rules.diagonal = diagonal * found->largest;
            look();
        }
        found->missing = checked.missing != 0;
        found->kind = 0;
        if (checked.first == kNoDefect) return;
        found->kind = int32_t(checked.first % kDefectKinds);
        found->row = int64_t(checked.first / kDefectKinds) / n;
        found->column = int64_t(checked.first / kDefectKinds) % n;
        found->value = entry(memory, table, found->row, found->column);
        found->other = entry(memory, table, found->column, found->row);
    });
}

}  // extern "C"
