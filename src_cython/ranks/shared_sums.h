// Memory to which each process of a host writes a few numbers for all others to read. A sum over the ranks
// takes about a microsecond, while a message takes five to ten.
//
// Each rank has two places, used in turns: it writes its numbers and then the number of the turn. Once a rank
// has read all places of a turn, it may write for the next one. When it returns to the same place, two turns
// later, each of the others has written for the turn between, and so has read that place.
#pragma once
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <atomic>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bmrm {

class SharedSums {
  public:
    // Number of doubles before the numbers of a place: the turn, on a cache line of its own.
    static constexpr int64_t kHead = 8;
    // Time for which a waiting rank keeps its core, in nanoseconds.
    static constexpr int64_t kSpinTime = 50000;
    // Time for which it then offers the core to others between its looks, in nanoseconds.
    static constexpr int64_t kYieldTime = 5000000;
    // Time between its looks after that, in nanoseconds.
    static constexpr int64_t kSleepTime = 20000;

    static int64_t doubles(int size, int64_t capacity) { return 2 * size * (kHead + capacity); }

    // memory: `doubles(size, capacity)` doubles, the same for every rank, zero before the first turn.
    SharedSums(double* memory, int rank, int size, int64_t capacity, bool crowded)
        : memory_(memory), rank_(rank), size_(size), capacity_(capacity), crowded_(crowded) {}

    int size() const { return size_; }
    int64_t capacity() const { return capacity_; }

    // Writes this rank's numbers, at most `capacity` of them.
    void post(const double* numbers, int64_t count) {
        turn_++;
        memcpy(place(rank_) + kHead, numbers, size_t(count) * 8);
        flag(rank_).store(turn_, std::memory_order_release);
    }

    // Waits for the numbers of all ranks; false if this takes longer than `timeout` nanoseconds.
    bool wait(int64_t timeout) {
        int64_t began = 0;
        for (int other = 0; other < size_; other++)
            for (int spins = 1; flag(other).load(std::memory_order_acquire) != turn_; spins++) {
                pause();
                if (spins % 64) continue;
                const int64_t now = clock();
                if (!began) began = now;
                if (now - began > timeout) return false;
                if (crowded_ || now - began > kSpinTime + kYieldTime)
                    nap();
                else if (now - began > kSpinTime)
                    sched_yield();
            }
        return true;
    }

    const double* numbers_of(int rank) { return place(rank) + kHead; }

    // Replaces numbers by their sums over the ranks, in the order of the ranks.
    void total(double* numbers, int64_t count) {
        post(numbers, count);
        while (!wait(INT64_MAX)) {
        }
        for (int64_t i = 0; i < count; i++) {
            double sum = 0;
            for (int other = 0; other < size_; other++) sum += numbers_of(other)[i];
            numbers[i] = sum;
        }
    }

  private:
    double* place(int rank) { return memory_ + (int64_t(turn_ % 2) * size_ + rank) * (kHead + capacity_); }
    std::atomic<uint64_t>& flag(int rank) { return *reinterpret_cast<std::atomic<uint64_t>*>(place(rank)); }
    static int64_t clock() {
        timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return int64_t(now.tv_sec) * 1000000000 + now.tv_nsec;
    }
    static void nap() {
        const timespec length = {0, kSleepTime};
        nanosleep(&length, nullptr);
    }
    static void pause() {
#if defined(__x86_64__)
        _mm_pause();
#endif
    }

    double* memory_;
    int rank_, size_;
    int64_t capacity_;
    bool crowded_;
    uint64_t turn_ = 0;
};

}  // namespace bmrm
