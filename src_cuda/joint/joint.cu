// Joint risks: rows sorted by margin, then the kernels of the kind.
#include <algorithm>
#include <memory>
#include <vector>

#include "api/joint.h"
#include "joint/kernels/contingency.cuh"
#include "joint/kernels/lists.cuh"
#include "joint/kernels/ordinal.cuh"
#include "joint/kernels/pairs.cuh"
#include "matrix/handle.h"
#include "training/problem_base.h"

using namespace bmrm;

namespace {

template <class To>
Array<To> uploaded(Memory& memory, const int64_t* from, int64_t count) {
    return on_device(memory, std::vector<To>(from, from + count));
}

Array<double> uploaded(Memory& memory, const double* from, int64_t count) {
    return on_device(memory, std::vector<double>(from, from + count));
}

// What does not depend on the margins: where rows go once they are sorted, and what is known of them.
struct JointRows {
    JointRows(Memory& memory, const bb_joint_rows& from)
        : kind(bb_joint_kind(from.kind)), size(from.size), groups(from.groups), k(from.k), beta(from.beta) {
        if (kind < BB_PAIRS || kind > BB_ORDINAL) throw Failure(BB_INVALID, "joint risk: no such kind");
        if (size < 1 || groups < 1) throw Failure(BB_INVALID, "joint risk: no rows take part");
        rows = uploaded<uint32_t>(memory, from.rows, size);
        level = uploaded<uint32_t>(memory, from.level, size);
        while (int64_t(1) << bits <= *std::max_element(from.level, from.level + size)) bits++;
        positives = std::count(from.level, from.level + size, int64_t(1));
        share_of_one = from.share[0];
        std::vector<double> shares(from.share, from.share + groups);
        counted = pairs() && std::count(from.weight, from.weight + size, from.weight[0]) == size;
        if (kind == BB_GRADED_PAIRS && !counted)
            throw Failure(BB_INVALID, "joint risk: rows of graded pairs weigh the same");
        if (needs_weight()) weight = uploaded(memory, from.weight, size);
        if (kind == BB_NDCG) anchor = uploaded(memory, from.anchor, size);
        if (kind == BB_NDCG || kind == BB_GRADED_PAIRS) {
            std::vector<double> values(from.value, from.value + size);
            if (kind == BB_GRADED_PAIRS)
                for (int64_t g = 0; g < groups; g++)
                    for (int64_t p = from.starts[g]; p < from.starts[g + 1]; p++)
                        values[size_t(p)] *= shares[size_t(g)];
            value = on_device(memory, values);
        }
        share = on_device(memory, shares);
        make_segments(memory, from);
    }

    bool pairs() const { return kind == BB_PAIRS || kind == BB_GRADED_PAIRS; }
    bool tables() const { return kind >= BB_F_BETA && kind <= BB_BREAK_EVEN; }
    bool needs_weight() const { return pairs() || kind == BB_ORDINAL; }

    const bb_joint_kind kind;
    const int64_t size, groups, k;
    const double beta;
    int bits = 1;          // of the levels
    bool counted = false;  // pairs of rows that all have the same weight
    int64_t positives = 0, segments = 1;
    double share_of_one = 0;
    Array<uint32_t> rows, level;                     // by place
    Array<uint32_t> segment_of, segment_at, starts;  // by place, by position, of segments
    Array<double> weight, value, anchor, share;

  private:
    // Segments are the groups; for contingency tables the classes; for reciprocal ranks both.
    void make_segments(Memory& memory, const bb_joint_rows& from) {
        const bool by_level = tables() || kind == BB_MRR;
        segments = groups * (by_level ? 2 : 1);
        std::vector<uint32_t> of(static_cast<size_t>(size)), first(size_t(segments) + 1, 0), at(of);
        for (int64_t g = 0; g < groups; g++)
            for (int64_t p = from.starts[g]; p < from.starts[g + 1]; p++) {
                of[size_t(p)] = uint32_t(by_level ? 2 * g + from.level[p] : g);
                first[of[size_t(p)] + 1]++;
            }
        for (size_t s = 0; s < size_t(segments); s++) first[s + 1] += first[s];
        for (size_t s = 0; s < size_t(segments); s++)
            std::fill(at.begin() + first[s], at.begin() + first[s + 1], uint32_t(s));
        starts = on_device(memory, first);
        if (segments == 1) return;
        segment_of = on_device(memory, of);
        segment_at = on_device(memory, at);
    }
};

// An evaluation with margins of one type, and its working memory.
template <class T>
class Evaluation {
  public:
    Evaluation(bb_matrix& matrix, const JointRows& rows)
        : memory_(matrix.memory),
          rows_(rows),
          blocks_(int(std::clamp<int64_t>((rows.size + kRowThreads - 1) / kRowThreads, 1,
                                          int64_t(matrix.device.multiprocessors) * kRowBlocks))),
          margins_(memory_, rows.size),
          sorted_(memory_, rows.size),
          partial_(memory_, 4 * int64_t(blocks_)),
          ticket_(memory_, 1) {
        const int64_t n = rows.size;
        for (int k = 0; k < 2; k++) {
            keys_[k] = Array<Key<T>>(memory_, n);
            places_[k] = Array<uint32_t>(memory_, n);
            if (rows.segments > 1) segments_[k] = Array<uint32_t>(memory_, n);
        }
        scratch_ = Array<unsigned char>(memory_, std::max(sort_bytes<Key<T>>(n, kKeyBits, stream()),
                                                          sort_bytes<uint32_t>(n, segment_bits(), stream())));
        ticket_.fill_bytes(0);
        make_room();
    }

    void operator()(const void* z, const void* dz, double t, double b, void* out, double* totals,
                    Letter letter) {
        along_ = static_cast<const T*>(dz);
        out_ = static_cast<T*>(out);
        totals_ = totals;
        letter_ = letter;
        sort(static_cast<const T*>(z), t, b);
        if (rows_.kind == BB_PAIRS && rows_.counted) pairs<PairKind::kCounted>();
        if (rows_.kind == BB_PAIRS && !rows_.counted) pairs<PairKind::kWeighted>();
        if (rows_.kind == BB_GRADED_PAIRS) pairs<PairKind::kGraded>();
        if (rows_.tables()) tables();
        if (rows_.kind == BB_NDCG)
            finish(GainRule<T>{order_, margins_.data(), rows_.value.data(), rows_.anchor.data(),
                               rows_.share.data(), rows_.k});
        if (rows_.kind == BB_MRR) reciprocal_ranks();
        if (rows_.kind == BB_ORDINAL) ordinal();
    }

  private:
    static constexpr int kKeyBits = int(8 * sizeof(T));

    cudaStream_t stream() const { return memory_.stream; }
    int segment_bits() const { return bits_for(uint64_t(rows_.segments)); }
    unsigned grid() const { return blocks_for(rows_.size); }

    template <int N>
    Sums<N>* sums() const {
        return reinterpret_cast<Sums<N>*>(sums_.data());
    }
    template <int N, class Add = AddSums<N>, class Term>
    void add_up(const Term& term) {
        sums_of<N, Add>(stream(), term, rows_.size, reinterpret_cast<Sums<N>*>(tiles_.data()), sums<N>());
    }

    void make_room() {
        const int64_t n = rows_.size;
        if (!rows_.pairs() || rows_.kind == BB_GRADED_PAIRS || !rows_.counted) {
            const int64_t each = sizeof(Sums<2>);
            sums_ = Array<unsigned char>(memory_, (n + 1) * each);
            tiles_ = Array<unsigned char>(memory_, tiles_of(n + 1) * each);
        }
        if (rows_.pairs()) {
            for (int k = 0; k < 2; k++) {
                if (k == 0 || rows_.bits > 2) levels_[k] = Array<uint32_t>(memory_, n);
                if (!rows_.counted) weights_[k] = Array<double>(memory_, n);
                if (rows_.kind == BB_GRADED_PAIRS) values_[k] = Array<double>(memory_, n);
                words_[k] = Array<DigitWord>(memory_, tiles_of(n + 1) * kTileWords);
            }
            digit_tiles_ = Array<DigitCounts>(memory_, tiles_of(n + 1) + 1);
            stretches_ = Array<Stretches>(memory_, n);
            found_ = Array<unsigned char>(
                memory_, n * int64_t(rows_.kind == BB_GRADED_PAIRS ? sizeof(PairSums<PairKind::kGraded>)
                                                                   : sizeof(PairSums<PairKind::kWeighted>)));
        }
        if (rows_.pairs() || rows_.kind == BB_ORDINAL) own_ = Array<uint32_t>(memory_, n);
        if (rows_.tables()) {
            table_blocks_ = int(std::min<int64_t>(blocks_for(rows_.positives + 1, kTableThreads), 1024));
            labellings_ = Array<Labelling>(memory_, table_blocks_ + 1);
        }
        if (rows_.kind == BB_MRR) ahead_ = Array<uint32_t>(memory_, rows_.groups);
        if (rows_.kind == BB_ORDINAL) {
            for (Array<uint32_t>& places : places_of_knots_) places = Array<uint32_t>(memory_, n);
            weights_[0] = Array<double>(memory_, n);
            knot_ = Array<DeviceKnot>(memory_, 1);
            hinges_ = Array<Hinges>(memory_, n);
        }
    }

    // Sorts the rows into `order_`.
    void sort(const T* z, double t, double b) {
        const int64_t n = rows_.size;
        make_keys<T><<<grid(), 256, 0, stream()>>>(
            rows_.rows.data(), rows_.kind == BB_NDCG ? rows_.value.data() : nullptr, n, z, along_, t, b,
            margins_.data(), keys_[0].data(), places_[0].data());
        Key<T>* keys[2] = {keys_[0].data(), keys_[1].data()};
        uint32_t* places[2] = {places_[0].data(), places_[1].data()};
        sort_pairs(scratch_, keys, places, n, kKeyBits, stream());
        if (rows_.segments > 1) {
            pick<<<grid(), 256, 0, stream()>>>(rows_.segment_of.data(), places[0], n, segments_[0].data());
            uint32_t* segments[2] = {segments_[0].data(), segments_[1].data()};
            sort_pairs(scratch_, segments, places, n, segment_bits(), stream());
        }
        pick<<<grid(), 256, 0, stream()>>>(margins_.data(), places[0], n, sorted_.data());
        BB_CHECK(cudaGetLastError());
        order_ = {n,
                  places[0],
                  sorted_.data(),
                  rows_.segments > 1 ? rows_.segment_at.data() : nullptr,
                  rows_.starts.data(),
                  rows_.rows.data()};
    }

    template <class Rule>
    void finish(const Rule& rule) {
        finish_rows<T><<<unsigned(blocks_), kRowThreads, 0, stream()>>>(
            order_, rule, along_, out_, totals_, partial_.data(), ticket_.data(), letter_);
        BB_CHECK(cudaGetLastError());
    }

    LevelRows level_rows(int which) const {
        return {levels_[which].data(), weights_[which].data(), values_[which].data()};
    }

    template <PairKind KIND>
    void pairs() {
        const int64_t n = rows_.size, tiles = tiles_of(n + 1);
        DigitCounts* const starts = digit_tiles_.data() + tiles;
        PairSums<KIND>* found = reinterpret_cast<PairSums<KIND>*>(found_.data());
        gather_levels<<<grid(), 256, 0, stream()>>>(order_, rows_.level.data(), rows_.weight.data(),
                                                    rows_.value.data(), own_.data(), level_rows(0));
        find_stretches<<<grid(), 256, 0, stream()>>>(order_, stretches_.data());
        const int highest = (rows_.bits - 1) / 2 * 2;
        for (int shift = highest, now = 0; shift >= 0; shift -= 2, now = 1 - now) {
            LevelRows to = level_rows(1 - now);
            if (shift == 0) to.level = nullptr;
            mark_digits<<<unsigned(tiles), kTileThreads, 0, stream()>>>(
                level_rows(now).level, shift, n, words_[0].data(), digit_tiles_.data());
            sum_before<AddCounts>
                <<<1, kTileThreads, 0, stream()>>>(digit_tiles_.data(), tiles, DigitStarts{starts});
            split_by_digit<<<blocks_for(n + 1), 256, 0, stream()>>>(level_rows(now), shift, n,
                                                                    words_[0].data(), digit_tiles_.data(),
                                                                    tiles, words_[1].data(), to);
            if constexpr (KIND == PairKind::kGraded) add_up<1>(StretchTerm<KIND>{to});
            if constexpr (KIND == PairKind::kWeighted) add_up<2, AddExactly>(StretchTerm<KIND>{to});
            ask_digit<KIND><<<grid(), 256, 0, stream()>>>(
                own_.data(), shift, shift == highest, n, words_[1].data(), starts,
                sums<PairSums<KIND>::kSums>(), stretches_.data(), found);
        }
        finish(PairRule<T, KIND>{order_, rows_.weight.data(), rows_.value.data(), rows_.share.data(), found});
    }

    void tables() {
        const int64_t negatives = rows_.size - rows_.positives;
        const ContingencyTable table{Measure(rows_.kind - BB_F_BETA), rows_.positives, negatives, rows_.k,
                                     rows_.beta};
        Labelling* best = labellings_.data() + table_blocks_;
        add_up<2>(ExtremesTerm<T>{order_, negatives});
        best_labelling<<<unsigned(table_blocks_), kTableThreads, 0, stream()>>>(
            order_, table, rows_.share_of_one, sums<2>(), labellings_.data(), ticket_.data(), best);
        finish(TableRule<T>{negatives, rows_.share_of_one, best});
    }

    void reciprocal_ranks() {
        add_up<1>(RelevantTerm<T>{order_});
        const ReciprocalRows<T> rule{order_, sums<1>(), rows_.share.data(), ahead_.data()};
        put_all_ahead<<<blocks_for(rows_.groups), 256, 0, stream()>>>(rule, rows_.groups);
        find_ahead<<<grid(), 256, 0, stream()>>>(rule);
        finish(rule);
    }

    void ordinal() {
        const int64_t n = rows_.size;
        const OrdinalRows rows{own_.data(), places_of_knots_[0].data(), places_of_knots_[1].data(),
                               weights_[0].data()};
        gather_ordinal<<<grid(), 256, 0, stream()>>>(order_, rows_.level.data(), rows_.weight.data(), rows);
        for (uint32_t k = 0; k + 1 < uint32_t(rows_.k); k++) {
            add_up<2>(ThresholdTerm{rows, k});
            open_knot<<<1, 1, 0, stream()>>>(knot_.data(), uint32_t(n));
            find_knot<<<grid(), 256, 0, stream()>>>(rows, n, k, sums<2>(), knot_.data());
            settle_knot<<<1, 1, 0, stream()>>>(order_, rows, sums<2>(), knot_.data());
            add_hinges<<<grid(), 256, 0, stream()>>>(rows.level, n, k, knot_.data(), hinges_.data());
        }
        finish(OrdinalRule<T>{order_, rows.weight, rows_.share.data(), hinges_.data()});
    }

    Memory& memory_;
    const JointRows& rows_;
    const int blocks_;
    int table_blocks_ = 0;
    Array<T> margins_, sorted_;  // by place, by position
    Array<Key<T>> keys_[2];
    Array<uint32_t> places_[2], segments_[2], levels_[2], own_, ahead_, places_of_knots_[2];
    Array<double> partial_, weights_[2], values_[2];
    Array<uint32_t> ticket_;
    Array<unsigned char> scratch_, sums_, tiles_, found_;
    Array<DigitWord> words_[2];  // of the tiles, and of all rows
    Array<DigitCounts> digit_tiles_;
    Array<Stretches> stretches_;
    Array<Labelling> labellings_;
    Array<DeviceKnot> knot_;
    Array<Hinges> hinges_;
    Ordered<T> order_ = {};
    const T* along_ = nullptr;
    T* out_ = nullptr;
    double* totals_ = nullptr;
    Letter letter_ = {};
};

}  // namespace

struct bb_joint {
    bb_joint(const ProblemBase& problem, const bb_joint_rows& from)
        : problem(problem), rows(problem.matrix->memory, from) {
        if (problem.matrix->type == BB_FLOAT64)
            wide = std::make_unique<Evaluation<double>>(*problem.matrix, rows);
        else
            narrow = std::make_unique<Evaluation<float>>(*problem.matrix, rows);
    }

    void evaluate(const void* z, const void* dz, double t, double b, int which, void* moved, double* sums) {
        const bool is_wide = bool(wide);
        const int64_t all = problem.matrix->rows(), bytes = problem.matrix->vector_bytes();
        const cudaStream_t stream = problem.matrix->memory.stream;
        void* out = which < 0 ? nullptr : problem.derivatives[which];
        if (out && rows.size < all) BB_CHECK(cudaMemsetAsync(out, 0, size_t(all * bytes), stream));
        if (moved)
            by_type(problem.matrix->type, [&](auto type) {
                using T = decltype(type);
                move_margins<<<blocks_for(all), 256, 0, stream>>>(
                    static_cast<const T*>(z), static_cast<const T*>(dz), t, all, static_cast<T*>(moved));
            });
        const Letter letter = problem.mailbox->next();
        if (is_wide)
            (*wide)(z, dz, t, b, out, problem.sums, letter);
        else
            (*narrow)(z, dz, t, b, out, problem.sums, letter);
        std::copy_n(problem.mailbox->wait(stream), 3, sums);
    }

    const ProblemBase problem;
    const JointRows rows;
    std::unique_ptr<Evaluation<float>> narrow;
    std::unique_ptr<Evaluation<double>> wide;
};

extern "C" {

bb_status bb_joint_create(bb_problem* problem, const bb_joint_rows* rows, bb_joint** out) {
    if (!problem) return on_matrix(nullptr, [] {});
    const ProblemBase base = base_of(*problem);
    return on_matrix(base.matrix, [&] { *out = std::make_unique<bb_joint>(base, *rows).release(); });
}

void bb_joint_destroy(bb_joint* joint) {
    if (joint)
        on_matrix(joint->problem.matrix, [&] {
            BB_CHECK(cudaStreamSynchronize(joint->problem.matrix->memory.stream));
            delete joint;
        });
}

bb_status bb_joint_evaluate(bb_joint* joint, const void* z, const void* dz, double t, double b, int32_t which,
                            void* moved, double sums[3]) {
    return on_matrix(joint ? joint->problem.matrix : nullptr,
                     [&] { joint->evaluate(z, dz, t, b, which, moved, sums); });
}

}  // extern "C"
