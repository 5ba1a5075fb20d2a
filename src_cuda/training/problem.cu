// Creates a problem: uploads its labels, weights and offsets, allocates its buffers, and selects the kernels
// of its loss.
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "training/problem.h"

using namespace bmrm;

namespace {

RiskKernels kernels_of(bb_type type, int32_t loss, bool rounded) {
    RiskKernels found = {};
    by_type(type, [&](auto t) {
        using T = decltype(t);
        set_line_kernels<T>(loss, rounded, found);
        set_search_kernel<T>(loss, rounded, found);
        set_pass_kernels<T>(loss, rounded, found);
        set_step_kernels<T>(loss, rounded, found);
    });
    return found;
}

// Converts numbers to another type; returns false at the first one that it cannot represent.
template <class N>
bool shorten(const double* numbers, std::vector<N>& out) {
    constexpr double low = double(std::numeric_limits<N>::lowest()),
                     high = double(std::numeric_limits<N>::max());
    for (size_t i = 0; i < out.size(); i++) {
        const double x = numbers[i];
        if (!(x >= low && x <= high)) return false;
        out[i] = N(x);
        if (double(out[i]) != x) return false;
    }
    return true;
}

}  // namespace

bb_problem::bb_problem(bb_matrix* matrix, int32_t loss, double parameter, double scale, double constant,
                       bool in_rows)
    : matrix(matrix),
      memory(matrix->memory),
      type(matrix->type),
      rows(matrix->rows()),
      cols(matrix->cols()),
      width(cols + (constant != 0)),
      space(in_rows ? Space{(rows + 4) / 4 * 4, (rows + 4) / 4 * 4} : Space{width, 0}),
      length(space.span + space.half),
      stride((length + 3) / 4 * 4),
      constant(constant),
      loss(loss) {
    risk.begin = 0;
    risk.end = rows;
    risk.scale = scale;
    risk.parameter.value = parameter;
    int64_t most = int64_t(matrix->device.multiprocessors) * kRowBlocks;
    if (loss != BB_PYTHON_LOSS) {
        kernels = kernels_of(type, loss, false);
        most = most_blocks();
    }
    // A thread has several rows, so that few blocks have to wait for one another if there are few rows.
    blocks = int(std::clamp<int64_t>((rows + 4 * kRowThreads - 1) / (4 * kRowThreads), 1, most));
    const int64_t columns_at_once = int64_t(matrix->device.multiprocessors) * 8;
    partial = Array<double>(memory, std::max(blocks * (2 * kPoints + kTotals), int(4 * columns_at_once)));
    mix_blocks = int(std::clamp<int64_t>((space.span + kMixAcross - 1) / kMixAcross, 1, columns_at_once));
    sums = Array<double>(memory, 2 * kMaxBlocks);
    sums.fill_bytes(0);  // they are sent with a cut even if nothing has set them
    ahead_sums = Array<double>(memory, 3);
    ticket = Array<uint32_t>(memory, 1);
    ticket.fill_bytes(0);
    for (Array<unsigned char>& r : derivatives) r = Array<unsigned char>(memory, rows * bytes());
    rounded = Array<unsigned char>(memory, width * bytes());
    if (kernels.curvature && !in_rows) newton.reserve(memory, width, bytes());
    mailbox.reserve(1024, stream());
    ahead_mailbox.reserve(1024, stream());
}

template <class N>
RowNumbers bb_problem::upload_as(const double* numbers, Array<unsigned char>& to) {
    std::vector<N> shorter;
    const void* from = numbers;
    if constexpr (sizeof(N) < sizeof(double)) {
        shorter.resize(size_t(rows));
        if (!shorten(numbers, shorter)) return {};
        from = shorter.data();
    }
    const int64_t bytes = rows * int64_t(sizeof(N));
    to = Array<unsigned char>(memory, bytes);
    to.from_host(static_cast<const unsigned char*>(from), bytes);
    BB_CHECK(cudaStreamSynchronize(stream()));
    return {to.data(), int32_t(sizeof(N))};
}

RowNumbers bb_problem::upload(const double* numbers, Array<unsigned char>& to) {
    RowNumbers there = upload_as<int8_t>(numbers, to);
    if (!there.data) there = upload_as<float>(numbers, to);
    return there.data ? there : upload_as<double>(numbers, to);
}

RowNumbers bb_problem::upload_to_lend(const double* numbers, Array<unsigned char>& to) {
    RowNumbers there = {};
    if (type == BB_FLOAT32) there = upload_as<float>(numbers, to);
    return there.data ? there : upload_as<double>(numbers, to);
}

void bb_problem::launch(const void* kernel, int count, void** arguments, bool together) {
    BB_CHECK(together ? cudaLaunchCooperativeKernel(kernel, dim3(unsigned(count)), dim3(kRowThreads),
                                                    arguments, 0, stream())
                      : cudaLaunchKernel(kernel, dim3(unsigned(count)), dim3(kRowThreads), arguments, 0,
                                         stream()));
}

int64_t bb_problem::most_blocks() const {
    int resident = 0;
    BB_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernels.search, kRowThreads, 0));
    return int64_t(matrix->device.multiprocessors) * std::clamp(resident, 1, kRowBlocks);
}

void bb_problem::round_kinks(double width_of_kinks) {
    const bool rounded = width_of_kinks > 0;
    kernels = kernels_of(type, loss, rounded);
    risk.parameter.width = width_of_kinks;
    ahead = {};
    if (!rounded) return;
    blocks = int(std::min<int64_t>(blocks, most_blocks()));
    if (!newton.step.size()) newton.reserve(memory, width, bytes());
}

void* bb_problem::take(bb_vector kind) {
    std::vector<void*>& idle = idle_[kind];
    if (idle.empty()) {
        owned_.emplace_back(memory, vector_bytes(kind));
        return owned_.back().data();
    }
    void* out = idle.back();
    idle.pop_back();
    return out;
}

void bb_problem::give(bb_vector kind, void* vector) {
    if (rounded_of == vector) rounded_of = nullptr;
    idle_[kind].push_back(vector);
}

void NewtonVectors::reserve(Memory& memory, int64_t width, int64_t bytes) {
    for (Array<double>* vector : {&residual, &direction, &step, &mean_squares})
        *vector = Array<double>(memory, width);
    image = Array<unsigned char>(memory, width * bytes);
    descent = Array<Descent>(memory, 1);
    mailbox.reserve(1, memory.stream);
}

void bb_problem::collect() {
    while (!queued_.empty() && queued_.front().events.over()) {
        last_[0] = last_[1];
        last_[1] = queued_.front().events.seconds();
        product_seconds += double(queued_.front().times) * last_[1];
        idle_events_.splice(idle_events_.end(), queued_, queued_.begin());
    }
}

ProblemBase base_of(bb_problem& p) {
    return {p.matrix,
            p.risk,
            p.blocks,
            p.partial.data(),
            p.sums.data(),
            p.ticket.data(),
            {p.derivatives[0].data(), p.derivatives[1].data()},
            &p.mailbox};
}

extern "C" {

bb_status bb_problem_create(bb_matrix* matrix, int32_t loss, double parameter, double scale,
                            const double* labels, const double* weights, double constant, int32_t in_rows,
                            bb_problem** out) {
    return on_matrix(matrix, [&] {
        auto made = std::make_unique<bb_problem>(matrix, loss, parameter, scale, constant, in_rows != 0);
        made->risk.labels = loss == BB_PYTHON_LOSS ? made->upload_to_lend(labels, made->labels)
                                                   : made->upload(labels, made->labels);
        if (weights) made->risk.weights = made->upload(weights, made->weights);
        *out = made.release();
    });
}

bb_status bb_problem_set_offsets(bb_problem* problem, const double* offsets) {
    return on(problem, [&](bb_problem& p) {
        p.risk.offsets = p.upload(offsets, p.offsets);
        p.ahead = {};
    });
}

void bb_problem_destroy(bb_problem* problem) {
    if (problem)
        on(problem, [&](bb_problem& p) {
            BB_CHECK(cudaStreamSynchronize(p.stream()));
            delete problem;
        });
}

bb_status bb_problem_share(bb_problem* problem, const bb_ranks* ranks, bb_nccl* nccl) {
    return on(problem, [&](bb_problem& p) {
        BB_CHECK(cudaStreamSynchronize(p.stream()));  // before the ranks of before are forgotten
        p.ranks = Collective(*ranks, nccl);
    });
}

bb_status bb_round_kinks(bb_problem* problem, double width) {
    return on(problem, [&](bb_problem& p) {
        if (!(width >= 0) || p.in_rows())
            throw Failure(BB_INVALID, "kinks: expected a width of at least 0, and weights of columns");
        p.round_kinks(width);
    });
}

double bb_problem_product_seconds(bb_problem* problem) { return problem->product_seconds; }

int64_t bb_problem_products(bb_problem* problem) { return problem->products; }

bb_status bb_vector_take(bb_problem* problem, bb_vector kind, void** out) {
    return on(problem, [&](bb_problem& p) { *out = p.take(kind); });
}

void bb_vector_give(bb_problem* problem, bb_vector kind, void* vector) {
    on(problem, [&](bb_problem& p) { p.give(kind, vector); });
}

}  // extern "C"
