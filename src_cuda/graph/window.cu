#include <algorithm>
#include <cstring>

#include "graph/window.h"

namespace bmrm {

namespace {

constexpr int64_t kAlignment = 256;

unsigned long long number_of(int64_t turn) { return static_cast<unsigned long long>(turn) + 1; }

// What a rank tells the others of its memory.
struct Offer {
    cudaIpcMemHandle_t handle;
    int32_t made;
};

// Returns whether a call succeeded; clears its error.
bool succeeds(cudaError_t error) {
    if (error) cudaGetLastError();
    return !error;
}

// Gives the offers of all ranks to all; `offers` has that of this rank.
void exchange(Collective& ranks, std::vector<Offer>& offers) {
    std::vector<int64_t> bounds;
    for (int32_t r = 0; r <= ranks.size(); r++) bounds.push_back(r * int64_t(sizeof(Offer)));
    ranks.gather_on_host(offers.data(), bounds);
}

bool all_made(const std::vector<Offer>& offers) {
    return std::all_of(offers.begin(), offers.end(), [](const Offer& offer) { return offer.made != 0; });
}

}  // namespace

int64_t Window::sums_at(int64_t turn) const {
    return 2 * vector_bytes_ + turn % 2 * size_ * kMaxSums * int64_t(sizeof(double));
}

int64_t Window::flags_at(int64_t turn) const {
    return sums_at(0) + 2 * size_ * kMaxSums * int64_t(sizeof(double)) +
           turn % 2 * size_ * int64_t(sizeof(unsigned long long));
}

bool Window::open(Collective& ranks, int64_t bytes) {
    impossible_ |= ranks.size() > kMaxOthers + 1;
    if (impossible_) return false;
    if (mine_ && bytes <= vector_bytes_) return true;
    std::vector<Offer> offers(size_t(ranks.size()));
    Offer& offer = offers[size_t(ranks.rank())];
    close();
    exchange(ranks, offers);  // all have closed the old one
    rank_ = ranks.rank();
    size_ = ranks.size();
    vector_bytes_ = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const size_t all = size_t(flags_at(0)) + 2 * size_t(size_) * sizeof(unsigned long long);
    void* memory = nullptr;
    offer.made = succeeds(cudaMalloc(&memory, all));
    mine_ = static_cast<unsigned char*>(memory);
    if (offer.made)
        offer.made = succeeds(cudaMemset(mine_, 0, all)) && succeeds(cudaDeviceSynchronize()) &&
                     succeeds(cudaIpcGetMemHandle(&offer.handle, mine_));
    exchange(ranks, offers);
    bool made = all_made(offers);
    if (made) {
        others_.assign(size_t(size_), nullptr);
        for (int32_t r = 0; r < size_; r++) {
            if (r == rank_) continue;
            void* theirs = nullptr;
            made = made && succeeds(cudaIpcOpenMemHandle(&theirs, offers[size_t(r)].handle,
                                                         cudaIpcMemLazyEnablePeerAccess));
            others_[size_t(r)] = static_cast<unsigned char*>(theirs);
        }
    }
    offer.made = made;
    exchange(ranks, offers);
    impossible_ = !all_made(offers);
    if (impossible_) close();
    return !impossible_;
}

void Window::close() noexcept {
    if (mine_) succeeds(cudaDeviceSynchronize());
    for (unsigned char* theirs : others_)
        if (theirs) succeeds(cudaIpcCloseMemHandle(theirs));
    others_.clear();
    if (mine_) succeeds(cudaFree(mine_));
    mine_ = nullptr;
    vector_bytes_ = 0;
}

Copies Window::copies(int64_t turn, int64_t first) const {
    Copies out = {};
    for (unsigned char* theirs : others_)
        if (theirs) out.of[out.count++] = reinterpret_cast<float*>(theirs + (vector(turn) - mine_)) + first;
    return out;
}

Outgoing Window::outgoing(int64_t turn) const {
    Outgoing out = {};
    out.number = number_of(turn);
    for (unsigned char* theirs : others_) {
        if (!theirs) continue;
        out.sums[out.count] = reinterpret_cast<double*>(theirs + sums_at(turn)) + rank_ * kMaxSums;
        out.flag[out.count] = reinterpret_cast<unsigned long long*>(theirs + flags_at(turn)) + rank_;
        out.count++;
    }
    return out;
}

Arrivals Window::arrivals(int64_t turn) const {
    return {reinterpret_cast<const unsigned long long*>(mine_ + flags_at(turn)), number_of(turn), rank_};
}

}  // namespace bmrm
