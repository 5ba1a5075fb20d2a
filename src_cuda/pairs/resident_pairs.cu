// What is resident of the pairs of points, vectors of numbers of the points, and checks of numbers of pairs.
#include <algorithm>
#include <cmath>
#include <string>

#include "pairs/kernels/pair_checks.cuh"
#include "pairs/kernels/pair_vectors.cuh"
#include "pairs/resident_pairs.h"

namespace bmrm {

namespace {

constexpr int64_t kStagedBytes = 64 << 20;  // of rows of a square matrix that are uploaded at once
static_assert(kMaxPairAxes == BB_PAIR_AXES && kMaxPairProducts == BB_PAIR_PRODUCTS);

void expect(bool holds, const char* text) {
    if (!holds) throw Failure(BB_INVALID, text);
}

}  // namespace

ResidentPairs::ResidentPairs(int32_t device, const bb_pairs& pairs)
    : Handle(device), n(pairs.n), first_(pairs.first), last_(pairs.last), missing_(pairs.missing != 0) {
    expect(n >= 1 && n < int64_t(1) << 31, "n: expected at least 1 point");
    expect(0 <= first_ && first_ <= last_ && last_ <= n, "rows: expected some of the points");
    const int64_t each = strip_rows(n);
    const auto begins = [&](int64_t row) { return row == n || row % each == 0; };
    expect(begins(first_) && begins(last_), "rows: expected whole strips");
    expect((pairs.delta.values != nullptr) != (pairs.features != nullptr) || n == 1,
           "pairs: expected either dissimilarities or features");
    mail_.reserve(BB_PAIR_PRODUCTS, stream());
    Uploader uploader(std::max(1, pairs.threads));
    if (pairs.features)
        take_features(pairs, uploader);
    else
        delta_ = upload(pairs.delta, uploader, owned_delta_);
    if (pairs.weights.values) weight_ = upload(pairs.weights, uploader, owned_weight_);
    BB_CHECK(cudaStreamSynchronize(stream()));  // the caller's arrays have been read
}

PairTable ResidentPairs::upload(const bb_pair_values& from, Uploader& uploader, AnyArray& owner) {
    expect(from.type == BB_FLOAT32 || from.type == BB_FLOAT64, "pairs: expected float32 or float64");
    if (from.in_place) return {from.values, from.type == BB_FLOAT64, from.square, n};
    return from.type == BB_FLOAT64 ? pack<double>(from, uploader, owner) : pack<float>(from, uploader, owner);
}

template <class T>
PairTable ResidentPairs::pack(const bb_pair_values& from, Uploader& uploader, AnyArray& owner) {
    owner = AnyArray(memory, std::max<int64_t>(1, own_pairs()) * int64_t(sizeof(T)));
    T* const to = static_cast<T*>(owner.data()) - pairs_before(first_);  // the triangle of all rows
    if (!from.square) {
        BB_CHECK(cudaMemcpyAsync(owner.data(), static_cast<const T*>(from.values) + pairs_before(first_),
                                 size_t(own_pairs()) * sizeof(T), cudaMemcpyDefault, stream()));
    } else {
        const int64_t most = std::clamp<int64_t>(kStagedBytes / (n * int64_t(sizeof(T))), 1, n);
        Array<T> staged(memory, most * n);
        for (int64_t first = first_; first < last_; first += most) {
            const int64_t rows = std::min(most, last_ - first);
            uploader.copy(memory, staged.data(), static_cast<const T*>(from.values) + first * n,
                          rows * n * int64_t(sizeof(T)));
            const NextLaunch launch(blocks_for(rows * n), 256, 0, stream(), false);
            launch(pack_rows<T>, staged.data(), n, first, rows, to);
        }
    }
    return {to, sizeof(T) == 8, 0, n};
}

void ResidentPairs::take_features(const bb_pairs& pairs, Uploader& uploader) {
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
    stored_ = Array<double>(memory, std::max<int64_t>(1, own_pairs()));
    double* const to = stored_.data() - pairs_before(first_);
    const FeaturePairs from{features_.data(), m_, stride_};
    const NextLaunch launch(blocks_for((last_ - first_) * n), 256, 0, stream(), false);
    launch(store_distances, from, n, first_, last_ - first_, to);
    delta_ = {to, 1, 0, n};
}

// --- vectors

double* ResidentPairs::lend(int64_t size) {
    std::vector<double*>& idle = idle_[size];
    if (idle.empty()) {
        vectors_.emplace_back(memory, size);
        return vectors_.back().data();
    }
    double* const vector = idle.back();
    idle.pop_back();
    return vector;
}

void ResidentPairs::combine(int64_t size, const double* const* vectors, const double* factors, int count,
                            double* to) {
    Multiples from = {};
    from.count = count;
    std::copy_n(vectors, count, from.vectors);
    std::copy_n(factors, count, from.factors);
    const NextLaunch launch(blocks_for(size), 256, 0, stream(), false);
    launch(add_multiples, from, size, to);
}

const double* ResidentPairs::products(int64_t size, const double* const* vectors, const double* const* others,
                                      int count) {
    Products of = {};
    of.count = count;
    std::copy_n(vectors, count, of.vectors);
    std::copy_n(others, count, of.others);
    const int64_t chunks = (size + kProductChunk - 1) / kProductChunk;
    reserve(memory, partial_, chunks * BB_PAIR_PRODUCTS);
    const NextLaunch launch(unsigned(chunks * count), kVectorThreads, 0, stream(), false);
    launch(multiply_chunks, of, size, chunks, partial_.data());
    const NextLaunch one(1u, kVectorThreads, 0, stream(), false);
    one(add_chunks, partial_.data(), chunks, count, mail_.next());
    return mail_.wait(stream());
}

void ResidentPairs::centre(int p, const double* vector, double* to) {
    reserve(memory, means_, BB_PAIR_AXES);
    const NextLaunch averages(unsigned(p), kVectorThreads, 0, stream(), false);
    averages(average_points, vector, n, p, means_.data());
    const NextLaunch launch(blocks_for(n * p), 256, 0, stream(), false);
    launch(centre_points, vector, means_.data(), n, p, to);
}

void ResidentPairs::own_rows(int kept, double* to) {
    const NextLaunch launch(blocks_for(n * kept), 256, 0, stream(), false);
    launch(add_tiles, tiles_, adds_, row_sums_.data(), static_cast<const double*>(nullptr), kept, to);
}

void ResidentPairs::add_strips(int kept, double* to) {
    const NextLaunch launch(blocks_for(n * kept), 256, 0, stream(), false);
    launch(add_tiles, tiles_, adds_, static_cast<const double*>(nullptr), all_columns(), kept, to);
}

void ResidentPairs::own_totals(int64_t size, double* totals) {
    expect(size == tiles_.blocks() * kMaxTotals, "totals: expected those of the tiles");
    BB_CHECK(cudaMemcpyAsync(totals, totals_.data(), size_t(size) * 8, cudaMemcpyDefault, stream()));
    BB_CHECK(cudaStreamSynchronize(stream()));
}

const double* ResidentPairs::sum_totals(int64_t size, const double* totals) {
    Array<double> all(memory, size);
    all.from_host(totals, size);
    const NextLaunch one(1u, kTotalThreads, 0, stream(), false);
    one(add_totals<kMaxTotals>, all.data(), size / kMaxTotals, mail_.next());
    return mail_.wait(stream());
}

void ResidentPairs::row(int64_t i, double* values) {
    double* const found = lend(n);
    with_source([&](const auto& source) {
        const NextLaunch launch(blocks_for(n), 256, 0, stream(), false);
        launch(read_row<std::decay_t<decltype(source)>>, source, n, i, found);
    });
    BB_CHECK(cudaMemcpyAsync(values, found, size_t(n) * 8, cudaMemcpyDefault, stream()));
    BB_CHECK(cudaStreamSynchronize(stream()));
    give(n, found);
}

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

}  // namespace bmrm

using namespace bmrm;

extern "C" {

bb_status bb_pairs_inspect(int32_t device, int64_t n, const bb_pair_values* values, int32_t nan_allowed,
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
