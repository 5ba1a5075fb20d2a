// A board on which the processes of one host put a few numbers each, for all to read: a sum over ranks in
// about a microsecond, where a message takes five to ten.
//
// The memory is shared by all.  A rank has two places on it, used in turns: it writes its numbers and then
// the number of the turn.  Whoever has read all places of a turn may write for the next one, and by the time
// that it comes to the same place again, two turns later, each of the others has written for the turn between
// and so has read that place.
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
    static constexpr int64_t kHead = 8;  // doubles before the numbers: the turn, on a line of its own
    // Nanoseconds for which a rank that waits keeps its core; for which it then asks at each look whether
    // somebody else wants the core; and between its looks after that.
    static constexpr int64_t kAwake = 50000, kPolite = 5000000, kNap = 20000;

    static int64_t doubles(int size, int64_t room) { return 2 * size * (kHead + room); }

    // memory: `doubles(size, room)` of them, the same for every rank, zero before the first turn.
    SharedSums(double* memory, int rank, int size, int64_t room, bool crowded)
        : memory_(memory), rank_(rank), size_(size), room_(room), crowded_(crowded) {}

    int size() const { return size_; }
    int64_t room() const { return room_; }

    // Puts up this rank's numbers, at most `room` of them.
    void post(const double* numbers, int64_t count) {
        turn_++;
        memcpy(place(rank_) + kHead, numbers, size_t(count) * 8);
        flag(rank_).store(turn_, std::memory_order_release);
    }

    // Waits for the numbers of all ranks; false where that takes longer than `most` nanoseconds.
    bool wait(int64_t most) {
        int64_t began = 0;
        for (int other = 0; other < size_; other++)
            for (int spins = 1; flag(other).load(std::memory_order_acquire) != turn_; spins++) {
                pause();
                if (spins % 64) continue;
                const int64_t now = clock();
                if (!began) began = now;
                if (now - began > most) return false;
                if (crowded_ || now - began > kAwake + kPolite)
                    nap();
                else if (now - began > kAwake)
                    sched_yield();
            }
        return true;
    }

    const double* numbers_of(int rank) { return place(rank) + kHead; }

    // Adds up numbers over the ranks, in their order.
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
    double* place(int rank) { return memory_ + (int64_t(turn_ % 2) * size_ + rank) * (kHead + room_); }
    std::atomic<uint64_t>& flag(int rank) { return *reinterpret_cast<std::atomic<uint64_t>*>(place(rank)); }
    static int64_t clock() {
        timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return int64_t(now.tv_sec) * 1000000000 + now.tv_nsec;
    }
    static void nap() {
        const timespec length = {0, kNap};
        nanosleep(&length, nullptr);
    }
    static void pause() {
#if defined(__x86_64__)
        _mm_pause();
#endif
    }

    double* memory_;
    int rank_, size_;
    int64_t room_;
    bool crowded_;
    uint64_t turn_ = 0;
};

}  // namespace bmrm
