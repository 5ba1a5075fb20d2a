// A problem: what a solve keeps on the device besides its matrix.  problem.cu creates it; points.cu has its
// points and their margins, line_risk.cu the risk along lines, cuts.cu its cutting planes.
#pragma once
#include <algorithm>
#include <list>
#include <vector>

#include "api/training.h"
#include "distributed/collective.h"
#include "matrix/handle.h"
#include "runtime/event.h"
#include "runtime/graph.h"
#include "training/kernels/ascent.cuh"
#include "training/kernels/cuts.cuh"
#include "training/kernels/newton.cuh"
#include "training/losses/kernels.h"
#include "training/problem_base.h"

namespace bmrm {

constexpr int64_t kMaxBlocks = 1024;  // maximum blocks of rows per pass

// The point where a cut is taken, and its number.
struct CutPlace {
    int64_t size = -1;
    const void *z, *dz, *w, *end;
    double t;
    bool operator==(const CutPlace& other) const {
        return size == other.size && z == other.z && dz == other.dz && w == other.w && end == other.end &&
               t == other.t;
    }
};

// The time of queued products, and how many times it counts.
struct TimedProducts {
    EventPair events;
    int64_t times = 1;
};

// The vectors of Newton's points (newton.cu), if the loss is smooth or its kinks are smoothed.
struct NewtonVectors {
    Array<double> residual, direction, step, mean_squares;
    Array<unsigned char> image;  // of the direction, in the matrix's type
    Array<Descent> descent;
    Mailbox mailbox;   // of the steps
    Graph replays[2];  // of a step except the first, by its parity
    void reserve(Memory& memory, int64_t width, int64_t bytes);
};

// The vectors of dual ascent (ascent.cu).
struct AscentVectors {
    Array<double> r, base, base_margins, ahead, ahead_margins;
    Array<unsigned char> image;  // X X' r, in the matrix's type
    Array<AscentState> state;
    Graph replay;  // of some steps, for one lam
    double lam = 0;
    void reserve(Memory& memory, int64_t rows, int64_t bytes);
};

}  // namespace bmrm

struct bb_problem {
    bb_problem(bb_matrix* matrix, int32_t loss, double parameter, double scale, double constant,
               bool in_rows);

    int64_t bytes() const { return bmrm::bytes_of(type); }
    cudaStream_t stream() const { return memory.stream; }
    int64_t vector_bytes(bb_vector kind) const { return kind == BB_WEIGHTS ? length * 8 : rows * bytes(); }
    bool in_rows() const { return space.half != 0; }

    // Uploads in the smallest type that loses nothing: a pass over the rows is bound by the bytes that it
    // reads.
    bmrm::RowNumbers upload(const double* numbers, bmrm::Array<unsigned char>& to);
    // Uploads in the type of the margins if that loses nothing, for labels that are lent with the margins.
    bmrm::RowNumbers upload_to_lend(const double* numbers, bmrm::Array<unsigned char>& to);
    // Returns no data if the type loses something.
    template <class N>
    bmrm::RowNumbers upload_as(const double* numbers, bmrm::Array<unsigned char>& to);

    // From now on searches and cuts the risk with kinks smoothed over a width; 0 for none.
    void round_kinks(double width_of_kinks);

    // Maximum number of blocks of a search, which synchronises between passes.
    int64_t most_blocks() const;
    void launch(const void* kernel, int count, void** arguments, bool together = false);
    // Blocks with few numbers per thread, at most as many as four sums over blocks have room for.
    unsigned blocks_across(int64_t count, int threads) const {
        return unsigned(std::min<int64_t>(bmrm::blocks_for(count, threads), partial.size() / 4));
    }

    void* take(bb_vector kind);
    void give(bb_vector kind, void* vector);

    // --- points and margins (points.cu)

    // z = [X, constant] weights
    template <class T, class W>
    void product(const T* weights, const W* constant_weight, T* z);
    template <class T, class W>
    void add_constant_to(const W* constant_weight, T* z);
    void add_offsets_to(void* z, double factor);
    // z = X w + factor times the offsets
    void margins(const double* w, void* z, double factor = 1.0);

    // Computes the weights of a point in the space of rows, in the matrix's type, into `rounded`.
    template <class T>
    T* assemble(const double* point);
    // Converts weights to a point in the space of rows: the start, of which other points are multiples.
    template <class T>
    void begin(const double* source, double* point);
    // Computes the products of a point in the space of rows, from its weights and margins.
    template <class T>
    void finish(const T* weights, const T* z, double* point, bmrm::Letter letter);

    // --- the risk (line_risk.cu)

    double risk_at(const void* z, const void* dz, double t, double b, void* moved);
    void take_derivatives(const void* z, const void* dz, double t, double b, int which, const int64_t* starts,
                          int count, bmrm::Letter letter);
    // The search in which each pass waits for the rows of other ranks; all ranks take the same decisions.
    bb_search_answer search_over_ranks(const void* z, void* end, void* moved, const void* w,
                                       const void* w_end, const bb_search_request& request);

    // --- cutting planes (cuts.cu)

    template <class T>
    T* cut(int64_t number) {
        return reinterpret_cast<T*>(cuts.data()) + number * stride;
    }
    // Queues the gradients of the derivatives as cuts number `size` onwards, and a letter with their
    // products.
    void queue_cut(int64_t size, const int64_t* starts, int count, const void* w, const void* end,
                   bmrm::Step step, const double* block_sums, bmrm::Mailbox& box);
    // Computes gradients from the first set of derivatives, into cuts number `size` onwards.
    template <class T>
    void gradients(int64_t size, const int64_t* starts, int count, const double* block_sums);

    // --- Newton's point (newton.cu)

    // image = X' S X direction, minus the contribution of an intercept that is minimised out, if `curvature`,
    // the sum of S, is not 0.  `run` queues each product.
    template <class T, class Run>
    void image_of_direction(double curvature, Run&& run);
    // Queues a step of conjugate gradients, which sends a letter.
    template <class T, class Run>
    void queue_descent(int32_t number, double curvature, Run&& run);
    // Returns the number of steps of conjugate gradients; 0 if the risk has no curvature.
    template <class T>
    int32_t newton_point(const double* w, const T* z, const bb_newton_request& request, double* to,
                         void* to_margins, double sums[3]);

    // --- ascent in the dual (ascent.cu)

    // Starts at the first set of derivatives, or at 0.
    void begin_ascent(bool from_derivatives);
    // Leaves the first set of derivatives where the steps led; returns the sum of their conjugates.
    double climb(double lam, int steps);
    // Queues a step; `run` queues the products between its kernels.
    template <class Run>
    void queue_step_up(double lam, Run&& run);
    void ascent_products();
    void launch_ascent(const void* kernel, void** arguments);
    bmrm::AscentRows ascent_rows();

    // --- times and answers

    // Queues products between two events; their time counts `times`, for those that follow untimed.
    template <class Launch>
    void timed(Launch&& launch, int64_t count = 1, int64_t times = 1) {
        collect();
        if (idle_events_.empty()) idle_events_.emplace_back();
        queued_.splice(queued_.end(), idle_events_, idle_events_.begin());
        queued_.back().times = times;
        queued_.back().events.begin(stream());
        launch();
        queued_.back().events.end(stream());
        products += count * times;
    }

    // Seconds of the last two products that were timed and have ended.
    double last_products() const { return last_[0] + last_[1]; }

    // Waits for the last letter and returns its numbers.  Products that were queued before it have ended by
    // then.
    const double* answer() { return answer(mailbox); }
    const double* answer(bmrm::Mailbox& box) {
        const double* values = box.wait(stream());
        collect();
        return values;
    }
    // The first numbers of the last letter, summed over the ranks.
    void numbers(double* out, int64_t count) {
        std::copy_n(answer(), count, out);
        ranks.total(out, count);
    }

    bb_matrix* matrix;
    bmrm::Memory& memory;
    const bb_type type;
    const int64_t rows, cols, width;  // width: columns, and the constant if there is one
    const bmrm::Space space;
    const int64_t length, stride;  // numbers of a cut or of weights, and from one cut to the next
    const double constant;
    const int32_t loss;  // position in BMRM_LOSSES
    bmrm::RiskRows risk = {};
    bmrm::RiskKernels kernels = {};
    int blocks = 1, mix_blocks = 1;
    bmrm::Array<unsigned char> labels, weights, offsets, derivatives[2], rounded, cuts, block_gradients;
    bmrm::Array<double> partial, sums, dots;
    bmrm::Array<double> ahead_sums;  // risk, sum of derivatives and step of the cut made ahead
    bmrm::Array<double> start;       // where the solve started, and the margins there, in the space of rows
    bmrm::Array<unsigned char> start_margins;
    bmrm::Array<uint32_t> ticket;
    bmrm::NewtonVectors newton;
    bmrm::AscentVectors ascent;
    const void* rounded_of = nullptr;  // the weights that `rounded` holds
    int64_t capacity = 0;
    double product_seconds = 0;
    int64_t products = 0;  // queued so far
    bmrm::Mailbox mailbox, ahead_mailbox;
    bmrm::CutPlace ahead = {};  // the cut that a search has made ahead; none if its size is negative
    bmrm::Collective ranks;

  private:
    void collect();

    std::list<bmrm::TimedProducts> queued_, idle_events_;  // not yet shown to be complete by an answer
    double last_[2] = {};
    std::vector<bmrm::Array<unsigned char>> owned_;
    std::vector<void*> idle_[2];
};

namespace bmrm {

template <class Body>
bb_status on(bb_problem* problem, Body&& body) noexcept {
    return on_matrix(problem ? problem->matrix : nullptr, [&] { body(*problem); });
}

}  // namespace bmrm
