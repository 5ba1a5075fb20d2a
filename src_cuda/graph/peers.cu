#include "graph/peers.h"
#include "runtime/chain.cuh"

namespace bmrm {

Peers::Peers(Memory& memory, const bb_graph_ranks* ranks, int64_t own) : memory_(memory), nodes_(own) {
    if (!ranks || ranks->calls->size < 2) return;
    collective_ = Collective(*ranks->calls, ranks->nccl);
    const int size = collective_.size(), rank = collective_.rank();
    bounds_.assign(ranks->bounds, ranks->bounds + size + 1);
    first_ = bounds_[size_t(rank)];
    nodes_ = bounds_.back();
    if (bounds_[size_t(rank) + 1] - first_ != own)
        throw Failure(BB_INVALID, "bounds: expected as many places as the matrix has rows");
    if (!collective_.direct()) return;
    windows_ = ranks->windows != 0;
    int lowest = 0, highest = 0;
    BB_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    BB_CHECK(cudaStreamCreateWithPriority(&exchanges_, cudaStreamNonBlocking, highest));
    for (cudaEvent_t* event : {&ready_, &arrived_})
        BB_CHECK(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
}

Peers::~Peers() {
    try {
        await();  // what the others send is there before its place is freed
    } catch (const Failure&) {
        // The device has failed: nothing is on its way.
    }
    if (!alone()) cudaStreamSynchronize(memory_.stream);
    if (exchanges_) cudaStreamSynchronize(exchanges_);
    for (cudaEvent_t event : {ready_, arrived_})
        if (event) cudaEventDestroy(event);
    if (exchanges_) cudaStreamDestroy(exchanges_);
}

Parts Peers::parts(const Shared& vector) const {
    Parts out = {vector.whole, bounds_};
    for (int64_t& bound : out.bounds) bound *= vector.node_bytes;
    return out;
}

bool Peers::await() {
    if (arriving_) {
        const Arriving a = *arriving_;
        arriving_.reset();
        const NextLaunch joining(1u, kJoinThreads, 0, memory_.stream, memory_.chains);
        joining(add_ranks, a.gathered, collective_.size(), Window::kMaxSums, a.count, a.keep, a.keeps,
                Numbers{}, Letter{}, a.arrivals);
    }
    const bool pending = pending_;
    if (pending) BB_CHECK(cudaStreamWaitEvent(memory_.stream, arrived_, 0));
    pending_ = false;
    return pending;
}

// Makes exchanges wait for what is queued on the stream so far.
void Peers::begin() {
    if (!exchanges_) return;
    BB_CHECK(cudaEventRecord(ready_, memory_.stream));
    BB_CHECK(cudaStreamWaitEvent(exchanges_, ready_, 0));
}

void Peers::end() {
    if (!exchanges_) return;
    BB_CHECK(cudaEventRecord(arrived_, exchanges_));
    pending_ = true;
}

void Peers::finish(const double* partial, int blocks, int count, double* keep, int keeps, const Numbers& more,
                   const Letter& letter, const Shared& vector, bool early) {
    const NextLaunch adding(1u, kFinishThreads, 0, memory_.stream, false);
    if (alone()) return adding(add_blocks, partial, blocks, count, keep, keeps, more, letter, Outgoing{});
    await();  // the sums of the last exchange are still on their way from the same place
    const int size = collective_.size(), rank = collective_.rank();
    const bool in_window = vector.whole && vector.whole == next_window();
    if (!in_window) reserve(memory_, gathered_, int64_t(size) * count);
    double* const gathered = in_window ? window_.sums(turn_ + 1) : gathered_.data();
    const int apart = in_window ? Window::kMaxSums : count;
    const Outgoing outgoing = in_window ? window_.outgoing(turn_ + 1) : Outgoing{};
    adding(add_blocks, partial, blocks, count, gathered + int64_t(rank) * apart, count, Numbers{},
           early ? letter : Letter{}, outgoing);
    if (in_window) {
        turn_++;
        arriving_ = {gathered, count, keep, keeps, window_.arrivals(turn_)};
        return;
    }
    begin();
    Parts sums = {gathered, {}};
    for (int r = 0; r <= size; r++) sums.bounds.push_back(int64_t(r) * count * int64_t(sizeof(double)));
    std::vector<Parts> arrays = {sums};
    if (vector.whole) arrays.push_back(parts(vector));
    collective_.gather(letters(), arrays);
    const NextLaunch joining(1u, kJoinThreads, 0, letters(), false);
    joining(add_ranks, gathered, size, apart, count, keep, keeps, more, early ? Letter{} : letter,
            Arrivals{});
    end();
}

void Peers::forget(const void* walk) noexcept {
    if (lent_to != walk) return;
    lent_to = nullptr;
    if (arriving_) arriving_->keeps = 0;
}

bool Peers::open_window(int64_t node_bytes) {
    if (!windows_) return false;
    await();  // what the others have sent is there before its place may be freed
    const void* const before = window_.vector(0);
    const bool there = window_.open(collective_, nodes_ * node_bytes);
    if (window_.vector(0) != before) lent_to = nullptr;
    return there;
}

const double* Peers::gather(const double* own, Array<double>& room) {
    if (alone()) return own;
    const int64_t bytes = int64_t(sizeof(double)), count = bounds_[size_t(collective_.rank()) + 1] - first_;
    await();  // the last exchange may still read from there
    reserve(memory_, room, nodes_);
    double* const mine = room.data() + first_;
    if (own != mine)
        BB_CHECK(cudaMemcpyAsync(mine, own, size_t(count * bytes), cudaMemcpyDefault, memory_.stream));
    begin();
    collective_.gather(letters(), {parts({room.data(), bytes})});
    end();
    await();
    return room.data();
}

}  // namespace bmrm
