// Runs independent pieces of work on several threads, lowest first, with a poll and exceptions.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <mutex>

#include "common/team.h"

namespace text {

// Called now and then by the calling thread; a result other than 0 stops the work.
using Poll = int (*)();

// Calls work(i) for i = 0..count-1 on up to `threads` threads, including the calling one. Returns false if
// poll stopped it; rethrows the first exception of a piece.
template <class Work>
bool for_each(size_t count, int threads, Poll poll, const Work& work) {
    using Clock = std::chrono::steady_clock;
    constexpr auto kBetweenPolls = std::chrono::milliseconds(50);
    std::atomic<bool> stop{false};
    std::exception_ptr error;
    std::mutex error_guard;
    auto polled = Clock::now();
    const bool polls = poll != nullptr;
    bmrm::for_each_task_of_member(int64_t(count), threads, [&](int64_t i, int member) {
        if (stop) return;
        try {
            work(size_t(i));
            if (!polls || member != 0 || Clock::now() - polled <= kBetweenPolls) return;
            if (poll() != 0) stop = true;
            polled = Clock::now();
        } catch (...) {
            stop = true;
            const std::lock_guard<std::mutex> lock(error_guard);
            if (!error) error = std::current_exception();
        }
    });
    if (error) std::rethrow_exception(error);
    return !stop;
}

}  // namespace text
