// Sums over ranks, in which the order of the contributions is fixed, and parts of arrays from all ranks.
#include <algorithm>

#include "distributed/collective.h"
#include "distributed/nccl.h"
#include "formats/csr.h"
#include "runtime/chain.cuh"

using namespace bmrm;

namespace {

// Up to this size each rank sends everything to all others, in one step.  Above it, pieces are sent in two
// steps, which takes fewer bytes if there are more than two ranks.
constexpr int64_t kOneStepBytes = int64_t(4) << 20;

struct Contributions {
    const void* received;  // from all ranks except this one, `stride` apart, in the order of ranks; its own
                           // is the target
    int32_t rank, size;
    int64_t stride;
};

template <class T>
__global__ void add_contributions(const Contributions all, int64_t n, T* target) {
    const T* from = static_cast<const T*>(all.received);
    BB_FOR (i, n) {
        double sum = 0;
        for (int r = 0; r < all.size; r++)
            sum += double(r == all.rank ? target[i] : from[r * all.stride + i]);
        target[i] = T(sum);
    }
}

}  // namespace

namespace bmrm {

Collective::Collective(const bb_ranks& ranks, bb_nccl* nccl) : ranks_(ranks), nccl_(nccl) {}

Collective::~Collective() {
    if (staging_) cudaFreeHost(staging_);
}

Collective& Collective::operator=(Collective&& other) noexcept {
    std::swap(ranks_, other.ranks_);
    std::swap(nccl_, other.nccl_);
    received_ = std::move(other.received_);
    std::swap(staging_, other.staging_);
    std::swap(staged_, other.staged_);
    return *this;
}

void Collective::total(double* numbers, int64_t count) const {
    if (!alone() && ranks_.total(ranks_.context, numbers, count))
        throw Failure(BB_CUDA, "a sum over the ranks has failed");
}

void Collective::add_up(Memory& memory, bb_type type, void* numbers, int64_t count) {
    if (alone()) return;
    const int64_t bytes = bytes_of(type);
    if (!nccl_) {
        add_through_host(memory, bytes, numbers, count);
        return;
    }
    const int size = ranks_.size, rank = ranks_.rank;
    auto* const own = static_cast<unsigned char*>(numbers);
    const bool whole = size == 2 || count * bytes <= kOneStepBytes;
    const int64_t each = whole ? count : (count + size - 1) / size;
    const auto begin = [&](int r) { return whole ? 0 : std::min(count, r * each); };
    const auto length = [&](int r) { return whole ? count : std::min(count, (r + 1) * each) - begin(r); };
    if (received_.size() < size * each * bytes) received_ = Array<unsigned char>(memory, size * each * bytes);
    const int64_t mine = length(rank);
    unsigned char* const target = own + begin(rank) * bytes;
    std::vector<Transfer> transfers;
    for (int r = 0; r < size; r++)
        if (r != rank)
            transfers.push_back({r, own + begin(r) * bytes, length(r) * bytes,
                                 received_.data() + r * each * bytes, mine * bytes});
    transfer(*nccl_, transfers, memory.stream);
    const Contributions all = {received_.data(), rank, size, each};
    by_type(type, [&](auto t) {
        using T = decltype(t);
        const NextLaunch launch(blocks_for(mine), 256, 0, memory.stream, false);
        launch(add_contributions<T>, all, mine, reinterpret_cast<T*>(target));
    });
    if (whole) return;
    Parts pieces = {numbers, {}};
    for (int r = 0; r <= size; r++) pieces.bounds.push_back(begin(r) * bytes);
    gather(memory.stream, {pieces});
}

unsigned char* Collective::staging(int64_t bytes, cudaStream_t stream) {
    if (staged_ < bytes) {
        BB_CHECK(cudaStreamSynchronize(stream));  // the last sums may still be on their way from there
        if (staging_) BB_CHECK(cudaFreeHost(staging_));
        staging_ = nullptr;
        staged_ = 0;
        BB_CHECK(cudaMallocHost(&staging_, size_t(bytes)));
        staged_ = bytes;
    }
    return static_cast<unsigned char*>(staging_);
}

void Collective::add_through_host(Memory& memory, int64_t bytes, void* numbers, int64_t count) {
    const size_t all = size_t(count * bytes);
    void* const there = staging(int64_t(all), memory.stream);
    BB_CHECK(cudaMemcpyAsync(there, numbers, all, cudaMemcpyDefault, memory.stream));
    BB_CHECK(cudaStreamSynchronize(memory.stream));
    if (ranks_.add_up(ranks_.context, there, count))
        throw Failure(BB_CUDA, "a sum over the ranks has failed");
    BB_CHECK(cudaMemcpyAsync(numbers, there, all, cudaMemcpyDefault, memory.stream));
}

void Collective::gather_on_host(void* whole, const std::vector<int64_t>& bounds) const {
    if (!alone() && ranks_.gather(ranks_.context, whole, bounds.data()))
        throw Failure(BB_CUDA, "an exchange between the ranks has failed");
}

void Collective::gather(cudaStream_t stream, const std::vector<Parts>& arrays) {
    if (alone()) return;
    if (!nccl_) {
        for (const Parts& parts : arrays) gather_through_host(stream, parts);
        return;
    }
    const int rank = ranks_.rank;
    std::vector<Transfer> transfers;
    for (int r = 0; r < ranks_.size; r++) {
        if (r == rank) continue;
        for (const Parts& parts : arrays) {
            auto* const whole = static_cast<unsigned char*>(parts.whole);
            const auto& bounds = parts.bounds;
            transfers.push_back({r, whole + bounds[rank], bounds[rank + 1] - bounds[rank], whole + bounds[r],
                                 bounds[r + 1] - bounds[r]});
        }
    }
    transfer(*nccl_, transfers, stream);
}

void Collective::gather_through_host(cudaStream_t stream, const Parts& parts) {
    const int64_t first = parts.bounds[size_t(ranks_.rank)], stop = parts.bounds[size_t(ranks_.rank) + 1];
    const int64_t end = parts.bounds.back();
    auto* const whole = static_cast<unsigned char*>(parts.whole);
    const auto copy = [&](void* to, const void* from, int64_t bytes) {
        if (bytes) BB_CHECK(cudaMemcpyAsync(to, from, size_t(bytes), cudaMemcpyDefault, stream));
    };
    unsigned char* const there = staging(end, stream);
    copy(there + first, whole + first, stop - first);
    BB_CHECK(cudaStreamSynchronize(stream));
    gather_on_host(there, parts.bounds);
    copy(whole, there, first);
    copy(whole + stop, there + stop, end - stop);
}

}  // namespace bmrm
