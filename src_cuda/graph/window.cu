#include <algorithm>
#include <cstring>

#include "graph/window.h"

namespace bmrm {

namespace {

constexpr int64_t kAlignment = 256;
// Numbers of turns before they repeat, more than ranks are apart; on the device, for copies to flags.
constexpr int64_t kNumbers = 256;

unsigned long long number_of(int64_t turn) { return static_cast<unsigned long long>(turn % kNumbers + 1); }

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
    if (impossible_) return false;
    if (mine_ && bytes <= vector_bytes_) return true;
    std::vector<Offer> offers(size_t(ranks.size()));
    Offer& offer = offers[size_t(ranks.rank())];
    close();
    exchange(ranks, offers);  // all have closed the old one
    rank_ = ranks.rank();
    size_ = ranks.size();
    vector_bytes_ = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    const size_t all = size_t(numbers_at()) + kNumbers * sizeof(unsigned long long);
    std::vector<unsigned long long> numbers;
    for (int64_t turn = 0; turn < kNumbers; turn++) numbers.push_back(number_of(turn));
    void* memory = nullptr;
    offer.made = succeeds(cudaMalloc(&memory, all));
    mine_ = static_cast<unsigned char*>(memory);
    if (offer.made)
        offer.made = succeeds(cudaMemset(mine_, 0, all)) &&
                     succeeds(cudaMemcpy(mine_ + numbers_at(), numbers.data(), kNumbers * sizeof(numbers[0]),
                                         cudaMemcpyDefault)) &&
                     succeeds(cudaDeviceSynchronize()) && succeeds(cudaIpcGetMemHandle(&offer.handle, mine_));
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

void Window::send(cudaStream_t stream, int64_t turn, const std::vector<int64_t>& bounds, int count) const {
    const int64_t first = bounds[size_t(rank_)], stop = bounds[size_t(rank_) + 1];
    const int64_t number_bytes = int64_t(sizeof(unsigned long long));
    const int64_t vector_at = vector(turn) - mine_ + first;
    const int64_t sums_from = sums_at(turn) + rank_ * kMaxSums * int64_t(sizeof(double));
    const int64_t number_from = numbers_at() + (number_of(turn) - 1) * number_bytes;
    for (int32_t step = 1; step < size_; step++) {  // ranks begin with different ones
        unsigned char* const theirs = others_[size_t((rank_ + step) % size_)];
        const auto copy = [&](int64_t to, int64_t from, int64_t bytes) {
            BB_CHECK(cudaMemcpyAsync(theirs + to, mine_ + from, size_t(bytes), cudaMemcpyDefault, stream));
        };
        copy(vector_at, vector_at, stop - first);
        copy(sums_from, sums_from, count * int64_t(sizeof(double)));
        copy(flags_at(turn) + rank_ * number_bytes, number_from, number_bytes);
    }
}

Arrivals Window::arrivals(int64_t turn) const {
    return {reinterpret_cast<const unsigned long long*>(mine_ + flags_at(turn)), number_of(turn), rank_};
}

}  // namespace bmrm
