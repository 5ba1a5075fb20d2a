// Runs independent pieces of work on several threads, lowest first.
//
// It uses std::thread instead of OpenMP: a process that forks after reading (a pool of workers) may read
// again in the child, which libgomp does not allow, and exceptions can be passed on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace text {

// Called now and then by the calling thread; a result other than 0 stops the work.
using Poll = int (*)();

// Calls work(i) for i = 0..count-1 on up to `threads` threads, including the calling one. Returns false if
// poll stopped it; rethrows the first exception of a piece.
template <class Work>
bool for_each(size_t count, int threads, Poll poll, const Work& work) {
    using Clock = std::chrono::steady_clock;
    constexpr auto kBetweenPolls = std::chrono::milliseconds(50);
    std::atomic<size_t> next{0};
    std::atomic<bool> stop{false};
    std::exception_ptr error;
    std::mutex error_guard;
    const auto take = [&](bool polls) {
        auto polled = Clock::now();
        try {
            for (size_t i; !stop && (i = next++) < count;) {
                work(i);
                if (polls && Clock::now() - polled > kBetweenPolls) {
                    if (poll() != 0) stop = true;
                    polled = Clock::now();
                }
            }
        } catch (...) {
            stop = true;
            const std::lock_guard<std::mutex> lock(error_guard);
            if (!error) error = std::current_exception();
        }
    };
    std::vector<std::thread> helpers;
    for (size_t t = 1; t < count && t < static_cast<size_t>(threads); ++t) {
        try {
            helpers.emplace_back(take, false);
        } catch (const std::system_error&) {
            break;  // no more threads are available: the existing ones do the work
        }
    }
    take(poll != nullptr);
    for (auto& helper : helpers) helper.join();
    if (error) std::rethrow_exception(error);
    return !stop;
}

}  // namespace text
