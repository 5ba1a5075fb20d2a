// The threads that all loops of the process share.
//
// A loop has a caller, which takes tasks itself, and helpers. The next task goes to whoever is free. The
// caller never waits for a helper that has not begun, only for one in the middle of a task: on a machine that
// is busy with other work, a helper may wait long for a core, and the caller then does the work alone.
//
// A helper without work sleeps. Before, it looks out for the next loop for a moment, if the last ones came
// that soon. Nobody looks out while other processes want the cores, which shows in helpers that do not begin
// or end in time, and in yielding that takes long.
//
// Callers on several threads at once share the helpers: each takes those that are free. The state of a helper
// is where it and its caller meet; each sleeps until the other changes it.
#pragma once

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "common/team.h"

namespace bmrm {

/// Maximum number of helpers of a loop.
constexpr int kMaxHelpers = 1023;
/// Time for which a helper looks out for the next loop: what lies between two loops of a method in Python.
constexpr std::chrono::microseconds kLookout{1000};
/// It may do so for as long as it has worked, and save up this much time.
constexpr std::chrono::milliseconds kMaxEarned{5};
/// Time for which a caller looks out for the end of a helper's task: that of waking a thread.
constexpr std::chrono::microseconds kEndLookout{30};
/// Time after which a thread that was woken, or that has yielded its core, runs again if a core is free.
constexpr std::chrono::microseconds kLate{200};
/// Time for which the cores count as busy after one was late.
constexpr std::chrono::milliseconds kBusyTime{20};

using Clock = std::chrono::steady_clock;

inline void pause_core() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

inline void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

inline void wake(std::atomic<std::uint32_t>& word) {
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

/// Whether it pays to stay awake.
class Lookout {
  public:
    bool busy(Clock::time_point now) const {
        return now.time_since_epoch().count() < busy_until_.load(std::memory_order_relaxed);
    }
    void found_busy(Clock::time_point now) {
        busy_until_.store((now + kBusyTime).time_since_epoch().count(), std::memory_order_relaxed);
    }
    /// Notes the time between two loops.
    void note_gap(Clock::duration gap) {
        short_gaps_ = static_cast<std::uint8_t>(short_gaps_ << 1 | (gap < kLookout));
        loops_follow_.store(__builtin_popcount(short_gaps_) >= 4, std::memory_order_relaxed);
    }
    /// Whether at least half of the last loops followed soon.
    bool loops_follow() const { return loops_follow_.load(std::memory_order_relaxed); }

  private:
    std::atomic<Clock::rep> busy_until_{0};
    std::atomic<bool> loops_follow_{false};
    std::uint8_t short_gaps_ = 0;  // a bit for each of the last eight gaps
};

class Loop;

/// A thread that takes part in loops.
class Helper {
  public:
    explicit Helper(Lookout& lookout) : lookout_(lookout) {}

    void call(Loop& loop, int member) {
        loop_ = &loop;
        member_ = member;
        slept_ = state_.exchange(kCalled, std::memory_order_acq_rel) == kAsleep;
    }
    bool slept() const { return slept_; }
    void wake_up() { wake(state_); }
    /// Calls it off, unless it has begun. `woken` says whether it was woken, or did not sleep.
    bool call_off(bool woken) {
        std::uint32_t called = kCalled;
        return state_.compare_exchange_strong(called, woken ? kIdle : kAsleep, std::memory_order_acquire);
    }
    bool works() const {
        const std::uint32_t state = state_.load(std::memory_order_acquire);
        return state == kWorking || state == kAwaited;
    }
    /// Sleeps until it has left the loop.
    void await() {
        std::uint32_t working = kWorking;
        state_.compare_exchange_strong(working, kAwaited, std::memory_order_acquire);
        while (state_.load(std::memory_order_acquire) == kAwaited) sleep_while(state_, kAwaited);
    }

    /// Takes part in one loop after the other; never returns.
    void work();

  private:
    enum State : std::uint32_t { kIdle, kAsleep, kCalled, kWorking, kAwaited };

    void wait() {
        look_out();
        std::uint32_t state = kIdle;
        if (!state_.compare_exchange_strong(state, kAsleep, std::memory_order_acquire) && state == kCalled)
            return;
        while (state_.load(std::memory_order_acquire) == kAsleep) sleep_while(state_, kAsleep);
    }
    void look_out() {
        const auto begin = Clock::now();
        const auto end = begin + std::min<Clock::duration>(kLookout, earned_);
        auto now = begin;
        while (lookout_.loops_follow() && now < end && !lookout_.busy(now)) {
            for (int k = 0; k < 16; ++k) {
                if (state_.load(std::memory_order_relaxed) == kIdle)
                    pause_core();
                else
                    return spend(Clock::now() - begin);
            }
            sched_yield();
            const auto before = now;
            now = Clock::now();
            if (now - before > kLate) lookout_.found_busy(now);
        }
        spend(now - begin);
    }
    void spend(Clock::duration time) { earned_ -= std::min(earned_, time); }

    alignas(64) std::atomic<std::uint32_t> state_{kIdle};
    Loop* loop_ = nullptr;
    int member_ = 0;
    bool slept_ = false;
    Clock::duration earned_{};  // time for looking out
    Lookout& lookout_;
};

/// A loop that is under way, on the stack of its caller.
class Loop {
  public:
    Loop(std::int64_t count, RunTask run, const void* context)
        : run_(run), context_(context), count_(count) {}

    /// Calls helpers, takes tasks, and returns when all are done.
    void run(Helper* const* helpers, int team, Lookout& lookout) {
        helpers_ = helpers;
        const auto begin = Clock::now();
        for (int k = 0; k < team; ++k) helpers[k]->call(*this, k + 1);
        called_.store(team, std::memory_order_release);
        wake_two();
        take_tasks(0);
        dismiss(team, begin, lookout);
    }
    void take_tasks(int member) {
        for (std::int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;)
            run_(context_, i, member);
    }
    /// Wakes two more helpers, each of which does the same: the caller soon has time for tasks.
    void wake_two() {
        const int called = called_.load(std::memory_order_acquire);
        for (int woken = 0; woken < 2 && next_.load(std::memory_order_relaxed) < count_;) {
            if (next_to_wake_.load(std::memory_order_relaxed) >= called) return;
            const int k = next_to_wake_.fetch_add(1, std::memory_order_relaxed);
            if (k >= called) return;
            if (!helpers_[k]->slept()) continue;
            helpers_[k]->wake_up();
            ++woken;
        }
    }

  private:
    void dismiss(int team, Clock::time_point begin, Lookout& lookout) {
        const int woken = next_to_wake_.exchange(kMaxHelpers, std::memory_order_relaxed);
        const auto end = Clock::now();
        bool late = false;
        for (int k = 0; k < team; ++k) {
            Helper& helper = *helpers_[k];
            const bool awake = k < woken || !helper.slept();
            if (helper.call_off(awake)) {
                late |= awake;
                continue;
            }
            while (helper.works() && !lookout.busy(end) && Clock::now() - end < kEndLookout)
                for (int p = 0; p < 16; ++p) pause_core();
            if (helper.works()) helper.await();
        }
        if ((late && end - begin > kLate) || Clock::now() - end > kLate) lookout.found_busy(end);
    }

    const RunTask run_;
    const void* const context_;
    const std::int64_t count_;
    Helper* const* helpers_ = nullptr;
    alignas(64) std::atomic<int> called_{0};
    std::atomic<int> next_to_wake_{0};
    alignas(64) std::atomic<std::int64_t> next_{0};
};

inline void Helper::work() {
    for (;;) {
        wait();
        std::uint32_t called = kCalled;
        if (!state_.compare_exchange_strong(called, kWorking, std::memory_order_acquire)) continue;
        const auto begin = Clock::now();
        loop_->wake_two();
        loop_->take_tasks(member_);
        earned_ = std::min<Clock::duration>(kMaxEarned, earned_ + (Clock::now() - begin));
        if (state_.exchange(kIdle, std::memory_order_acq_rel) == kAwaited) wake(state_);
    }
}

/// The helpers of the process. It is never destroyed: they may be asleep when the process ends.
class Pool {
  public:
    static Pool& get() {
        static const bool made = [] {
            pool_ = new Pool;
            return pthread_atfork(nullptr, nullptr, [] { pool_ = new Pool; }) == 0;
        }();
        static_cast<void>(made);
        return *pool_;
    }

    void run(std::int64_t count, int threads, RunTask run, const void* context) {
        Helper* helpers[kMaxHelpers];
        const int wanted = static_cast<int>(std::min<std::int64_t>(count, threads)) - 1;
        const int team = in_loop_ ? 0 : hire(std::min(wanted, kMaxHelpers), helpers);
        const bool inside = in_loop_;
        in_loop_ = true;
        Loop(count, run, context).run(helpers, team, lookout_);
        in_loop_ = inside;
        if (team) release(helpers, team);
    }

  private:
    /// Takes free helpers, or new ones: in all, as many as a single loop wants, or as there are cores.
    int hire(int wanted, Helper** helpers) {
        const std::lock_guard<std::mutex> hold(guard_);
        lookout_.note_gap(Clock::now() - ended_);
        int team = 0;
        while (team < wanted) {
            if (free_.empty() && (made_ >= std::max(wanted, cores() - 1) || !start())) break;
            helpers[team++] = free_.back();
            free_.pop_back();
        }
        return team;
    }
    void release(Helper* const* helpers, int team) {
        const std::lock_guard<std::mutex> hold(guard_);
        while (team > 0) free_.push_back(helpers[--team]);
        ended_ = Clock::now();
    }
    /// Starts a helper, which is free; false if the system allows no more threads. Signals are for others.
    bool start() {
        try {
            free_.reserve(made_ + 1);
        } catch (const std::bad_alloc&) {
            return false;
        }
        Helper* const helper = new (std::nothrow) Helper(lookout_);
        if (!helper) return false;
        sigset_t blocked, before;
        sigfillset(&blocked);
        for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&blocked, fault);
        pthread_sigmask(SIG_SETMASK, &blocked, &before);
        pthread_t thread;
        const bool started = pthread_create(&thread, nullptr, enter, helper) == 0;
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        if (!started) {
            delete helper;
            return false;
        }
        pthread_detach(thread);
        ++made_;
        free_.push_back(helper);
        return true;
    }
    static void* enter(void* helper) {
        in_loop_ = true;
        static_cast<Helper*>(helper)->work();
        return nullptr;
    }
    static int cores() {
        cpu_set_t set;
        return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    }

    static inline Pool* pool_ = nullptr;  // a new one in a child of fork(), which has none of the helpers
    static inline thread_local bool in_loop_ = false;

    std::mutex guard_;
    std::vector<Helper*> free_;  // the last one is called first
    int made_ = 0;
    Clock::time_point ended_{};
    Lookout lookout_;
};

}  // namespace bmrm
