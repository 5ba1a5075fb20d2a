#include <algorithm>
#include <cmath>

#include "formats/csr.h"
#include "matrix/host_rows.h"
#include "runtime/failure.h"

namespace bmrm {

namespace {

template <class From, class To>
__global__ void copy_as(const From* from, int64_t n, To* to) {
    BB_FOR (i, n) to[i] = To(from[i]);
}

}  // namespace

HostRows::HostRows(Memory& memory, bb_type type, int64_t first, int64_t rows, int64_t cols, bool transposes,
                   const bb_host_rows& given)
    : memory_(memory), type_(type), first_(first), rows_(rows), cols_(cols), given_(given) {
    BB_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    BB_CHECK(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming));
    BB_CHECK(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming));
    for (const bb_operator op : {BB_NORMAL, BB_TRANSPOSED})  // nothing can be allocated during a capture
        if (op == BB_NORMAL || transposes) call_of({op, 1, {0, rows}});
}

HostRows::~HostRows() {
    if (stream_) cudaStreamSynchronize(stream_);
    if (ready_) cudaEventDestroy(ready_);
    if (done_) cudaEventDestroy(done_);
    if (stream_) cudaStreamDestroy(stream_);
}

int64_t HostRows::outputs(const Key& key) const {
    const auto& [op, columns, starts] = key;
    return columns * (op == BB_NORMAL ? rows_ : cols_ * int64_t(starts.size() - 1));
}

HostRows::Call& HostRows::call_of(const Key& key) {
    const auto [found, fresh] = calls_.try_emplace(key);
    Call& call = found->second;
    if (!fresh) return call;
    try {
        call.rows = this;
        call.key = &found->first;
        call.x = shared_room(inputs_, std::get<1>(key) * (std::get<0>(key) == BB_NORMAL ? cols_ : rows_));
        call.y = shared_room(results_, outputs(key));
    } catch (...) {
        calls_.erase(found);
        throw;
    }
    return call;
}

double* HostRows::shared_room(std::list<PinnedRoom>& rooms, int64_t count) {
    for (PinnedRoom& room : rooms)
        if (room.capacity() >= count) return room.reserve(count);
    return rooms.emplace_back().reserve(count);
}

void HostRows::check() const {
    if (failed_) throw Failure(BB_MEMORY, "main memory is full: no room for a product of the CPU's rows");
}

// Called by the driver, on a thread of its own: it must not call CUDA.
void HostRows::run(void* of) {
    Call& call = *static_cast<Call*>(of);
    const auto& [op, columns, starts] = *call.key;
    const bb_host_rows& given = call.rows->given_;
    if (!given.product(given.matrices, op, columns, starts.data(), int32_t(starts.size() - 1), call.x,
                       call.y))
        return;
    call.rows->failed_ = true;
    std::fill_n(call.y, call.rows->outputs(*call.key), NAN);
}

void HostRows::begin(const Key& key, const void* x) {
    check();
    Call& call = call_of(key);
    const auto& [op, columns, starts] = key;
    const int64_t count = columns * (op == BB_NORMAL ? cols_ : rows_);
    by_type(type_, [&](auto t) {
        copy_as<<<blocks_for(count), 256, 0, memory_.stream>>>(static_cast<const decltype(t)*>(x), count,
                                                               call.x);
    });
    BB_CHECK(cudaGetLastError());
    BB_CHECK(cudaEventRecord(ready_, memory_.stream));
    BB_CHECK(cudaStreamWaitEvent(stream_, ready_, 0));
    BB_CHECK(cudaLaunchHostFunc(stream_, run, &call));
    BB_CHECK(cudaEventRecord(done_, stream_));
    begun_ = &call;
}

const double* HostRows::await() {
    BB_CHECK(cudaStreamWaitEvent(memory_.stream, done_, 0));
    return begun_->y;
}

void HostRows::await_rows(int columns, void* y) {
    const double* from = await();
    const int64_t count = rows_ * columns;
    by_type(type_, [&](auto t) {
        auto* to = static_cast<decltype(t)*>(y) + first_ * columns;
        copy_as<<<blocks_for(count), 256, 0, memory_.stream>>>(from, count, to);
    });
    BB_CHECK(cudaGetLastError());
}

}  // namespace bmrm
