// Sums over ranks: NCCL's calls, found at run time, and the order in which contributions are added.
#include <algorithm>
#include <memory>
#include <mutex>
#include <string>

#include "formats/csr.h"
#include "runtime/library.h"
#include "training/collective.h"

using namespace bmrm;

namespace {

// The part of NCCL's interface that is used here; it has not changed since version 2.7.
struct NcclId {
    char bytes[BB_NCCL_ID_BYTES];
};
using NcclComm = void*;

struct NcclCalls {
    int (*get_id)(NcclId*);
    int (*init_rank)(NcclComm*, int, NcclId, int);
    int (*destroy)(NcclComm);
    int (*group_start)();
    int (*group_end)();
    int (*send)(const void*, size_t, int, int, NcclComm, cudaStream_t);
    int (*receive)(void*, size_t, int, int, NcclComm, cudaStream_t);
    const char* (*text)(int);
};

constexpr int kNcclBytes = 0;  // ncclInt8

// Up to this size each rank sends everything to all others, in one step.  Above it, pieces are sent in two
// steps, which takes fewer bytes if there are more than two ranks.
constexpr int64_t kOneStepBytes = int64_t(4) << 20;

std::mutex loading;
NcclCalls nccl_calls;
bool loaded = false;

void nccl_check(int status, const char* what) {
    if (status) throw Failure(BB_CUDA, std::string(what) + ": " + nccl_calls.text(status));
}

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

struct bb_nccl {
    NcclComm comm = nullptr;
    int32_t device = 0;
};

extern "C" {

bb_status bb_device_uuid(int32_t device, char uuid[BB_UUID_BYTES]) {
    return guarded([&] {
        cudaDeviceProp found;
        BB_CHECK(cudaGetDeviceProperties(&found, device));
        std::copy_n(found.uuid.bytes, BB_UUID_BYTES, uuid);
    });
}

bb_status bb_nccl_load(const char* library) {
    return guarded([&] {
        const std::lock_guard<std::mutex> hold(loading);
        if (loaded) return;
        const Library found(library);
        found.symbol(nccl_calls.get_id, "ncclGetUniqueId");
        found.symbol(nccl_calls.init_rank, "ncclCommInitRank");
        found.symbol(nccl_calls.destroy, "ncclCommDestroy");
        found.symbol(nccl_calls.group_start, "ncclGroupStart");
        found.symbol(nccl_calls.group_end, "ncclGroupEnd");
        found.symbol(nccl_calls.send, "ncclSend");
        found.symbol(nccl_calls.receive, "ncclRecv");
        found.symbol(nccl_calls.text, "ncclGetErrorString");
        loaded = true;
    });
}

bb_status bb_nccl_id(char id[BB_NCCL_ID_BYTES]) {
    return guarded([&] {
        NcclId fresh;
        nccl_check(nccl_calls.get_id(&fresh), "ncclGetUniqueId");
        std::copy_n(fresh.bytes, sizeof fresh.bytes, id);
    });
}

bb_status bb_nccl_join(int32_t device, const char id[BB_NCCL_ID_BYTES], int32_t rank, int32_t size,
                       bb_nccl** out) {
    return guarded([&] {
        const OnDevice scope(device);
        NcclId name;
        std::copy_n(id, sizeof name.bytes, name.bytes);
        auto made = std::make_unique<bb_nccl>();
        made->device = device;
        nccl_check(nccl_calls.init_rank(&made->comm, size, name, rank), "ncclCommInitRank");
        *out = made.release();
    });
}

void bb_nccl_leave(bb_nccl* nccl) {
    guarded([&] {
        const OnDevice scope(nccl->device);
        nccl_calls.destroy(nccl->comm);
        delete nccl;
    });
}

}  // extern "C"

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
        through_host(memory, bytes, numbers, count);
        return;
    }
    const int size = ranks_.size, rank = ranks_.rank;
    auto* const own = static_cast<unsigned char*>(numbers);
    const bool whole = size == 2 || count * bytes <= kOneStepBytes;
    const int64_t each = whole ? count : (count + size - 1) / size;
    const auto begin = [&](int r) { return whole ? 0 : std::min(count, r * each); };
    const auto length = [&](int r) { return whole ? count : std::min(count, (r + 1) * each) - begin(r); };
    if (received_.size() < size * each * bytes) received_ = Array<unsigned char>(memory, size * each * bytes);
    const auto exchange = [&](auto&& sent, auto&& received) {
        nccl_check(nccl_calls.group_start(), "ncclGroupStart");
        for (int r = 0; r < size; r++)
            if (r != rank) {
                const auto [from, out] = sent(r);
                const auto [to, in] = received(r);
                nccl_check(
                    nccl_calls.send(from, size_t(out * bytes), kNcclBytes, r, nccl_->comm, memory.stream),
                    "ncclSend");
                nccl_check(
                    nccl_calls.receive(to, size_t(in * bytes), kNcclBytes, r, nccl_->comm, memory.stream),
                    "ncclRecv");
            }
        nccl_check(nccl_calls.group_end(), "ncclGroupEnd");
    };
    const int64_t mine = length(rank);
    unsigned char* const target = own + begin(rank) * bytes;
    exchange([&](int r) { return std::make_pair(own + begin(r) * bytes, length(r)); },
             [&](int r) { return std::make_pair(received_.data() + r * each * bytes, mine); });
    const Contributions all = {received_.data(), rank, size, each};
    by_type(type, [&](auto t) {
        add_contributions<<<blocks_for(mine), 256, 0, memory.stream>>>(
            all, mine, reinterpret_cast<decltype(t)*>(target));
    });
    BB_CHECK(cudaGetLastError());
    if (!whole)
        exchange([&](int) { return std::make_pair(target, mine); },
                 [&](int r) { return std::make_pair(own + begin(r) * bytes, length(r)); });
}

void Collective::through_host(Memory& memory, int64_t bytes, void* numbers, int64_t count) {
    if (staged_ < count * bytes) {
        if (staging_) BB_CHECK(cudaFreeHost(staging_));
        staging_ = nullptr;
        staged_ = 0;
        BB_CHECK(cudaMallocHost(&staging_, size_t(count * bytes)));
        staged_ = count * bytes;
    }
    const size_t all = size_t(count * bytes);
    BB_CHECK(cudaMemcpyAsync(staging_, numbers, all, cudaMemcpyDefault, memory.stream));
    BB_CHECK(cudaStreamSynchronize(memory.stream));
    if (ranks_.add_up(ranks_.context, staging_, count))
        throw Failure(BB_CUDA, "a sum over the ranks has failed");
    BB_CHECK(cudaMemcpyAsync(numbers, staging_, all, cudaMemcpyDefault, memory.stream));
}

}  // namespace bmrm
