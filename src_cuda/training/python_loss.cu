// A loss that the caller evaluates: launches, and the order of the caller's work and ours.
//
// The caller works on streams of its own.  Events make its reads of margins wait for our writes, and our
// reads of its results wait for its work.  It may reuse its memory as soon as a call returns, since each call
// waits for sums of everything that it reads.
#include <algorithm>
#include <memory>

#include "api/python_loss.h"
#include "matrix/handle.h"
#include "training/kernels/python_loss.cuh"
#include "training/problem_base.h"

using namespace bmrm;

namespace {

template <class Body>
bb_status on(bb_problem* problem, Body&& body) noexcept {
    if (!problem) return on_matrix(nullptr, [] {});
    ProblemBase base = base_of(*problem);
    return on_matrix(base.matrix, [&] { body(base); });
}

cudaStream_t stream_of(const ProblemBase& p) { return p.matrix->memory.stream; }
bb_type type_of(const ProblemBase& p) { return p.matrix->type; }

// Makes work queued on `later` from now on wait for work queued on `first`.
void follow(cudaStream_t first, cudaStream_t later) {
    if (first == later) return;
    cudaEvent_t made = nullptr;
    BB_CHECK(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    const auto destroy = [](cudaEvent_t event) { cudaEventDestroy(event); };
    const std::unique_ptr<CUevent_st, decltype(destroy)> event(made, destroy);
    BB_CHECK(cudaEventRecord(made, first));
    BB_CHECK(cudaStreamWaitEvent(later, made, 0));
}

}  // namespace

extern "C" {

bb_status bb_own_labels(bb_problem* problem, bb_rows* labels) {
    return on(problem, [&](ProblemBase& p) { *labels = {p.risk.labels.data, 1, p.risk.labels.bytes}; });
}

bb_status bb_own_lend(bb_problem* problem, void* stream) {
    return on(problem, [&](ProblemBase& p) { follow(stream_of(p), static_cast<cudaStream_t>(stream)); });
}

bb_status bb_own_borrow(bb_problem* problem, void* stream) {
    return on(problem, [&](ProblemBase& p) { follow(static_cast<cudaStream_t>(stream), stream_of(p)); });
}

bb_status bb_own_margins(bb_problem* problem, const void* z, const void* dz, double t, double b, void* moved,
                         void* out) {
    return on(problem, [&](ProblemBase& p) {
        by_type(type_of(p), [&](auto type) {
            using T = decltype(type);
            margins_of_line<<<blocks_for(p.risk.end), 256, 0, stream_of(p)>>>(
                static_cast<const T*>(z), static_cast<const T*>(dz), t, b, p.risk.end, static_cast<T*>(moved),
                static_cast<T*>(out));
        });
        BB_CHECK(cudaGetLastError());
    });
}

bb_status bb_own_slope(bb_problem* problem, const bb_rows* slopes, const void* dz, double sums[2]) {
    return on(problem, [&](ProblemBase& p) {
        const Letter letter = p.mailbox->next();
        by_type(type_of(p), [&](auto type) {
            slope_of_rows<<<unsigned(p.blocks), kRowThreads, 0, stream_of(p)>>>(
                p.risk, *slopes, static_cast<const decltype(type)*>(dz), p.partial, p.ticket, letter);
        });
        BB_CHECK(cudaGetLastError());
        std::copy_n(p.mailbox->wait(stream_of(p)), 2, sums);
    });
}

bb_status bb_own_risk(bb_problem* problem, const bb_rows* values, const bb_rows* slopes, int32_t which,
                      const int64_t* starts, int32_t blocks, double least, double* sums) {
    return on(problem, [&](ProblemBase& p) {
        p.mailbox->reserve(3 * int64_t(blocks), stream_of(p));
        const Letter letter = p.mailbox->next();
        for (int block = 0; block < blocks; block++) {
            RiskRows part = p.risk;
            part.begin = starts[block];
            part.end = starts[block + 1];
            Letter own = letter;
            if (block < blocks - 1) own.arrived = nullptr;
            by_type(type_of(p), [&](auto type) {
                using T = decltype(type);
                risk_of_rows<<<unsigned(p.blocks), kRowThreads, 0, stream_of(p)>>>(
                    part, *values, slopes ? *slopes : bb_rows{}, least, static_cast<T*>(p.derivatives[which]),
                    p.partial, p.ticket, p.sums + 2 * block, own, 3 * block);
            });
            BB_CHECK(cudaGetLastError());
        }
        std::copy_n(p.mailbox->wait(stream_of(p)), 3 * blocks, sums);
    });
}

bb_status bb_own_get(bb_problem* problem, const bb_rows* rows, double* target) {
    return on(problem, [&](ProblemBase& p) {
        Array<double> wide(p.matrix->memory, p.risk.end);
        numbers_of_rows<<<blocks_for(p.risk.end), 256, 0, stream_of(p)>>>(*rows, p.risk.end, wide.data());
        BB_CHECK(cudaGetLastError());
        BB_CHECK(cudaMemcpyAsync(target, wide.data(), size_t(wide.bytes()), cudaMemcpyDefault, stream_of(p)));
        BB_CHECK(cudaStreamSynchronize(stream_of(p)));
    });
}

}  // extern "C"
