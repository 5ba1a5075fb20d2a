// A team of threads of its own: starting threads takes as long as converting a million numbers.  These stay
// awake for a moment after a job, since the next one usually follows soon, and then sleep.
#include "runtime/pinned.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace bmrm {

namespace {

constexpr int64_t kMinPiece = 1 << 12;  // minimum numbers that a thread takes at a time
constexpr int64_t kMaxPiece = 1 << 15;  // ... and maximum
constexpr int64_t kLine = 64;           // bytes of a cache line; no two threads write to the same one
constexpr size_t kHugePage = 2 << 20;   // bytes
constexpr int64_t kSent = 1 << 17;      // minimum numbers per copy, except the last
constexpr int kMaxThreads = 64;
constexpr auto kAwake = std::chrono::microseconds(300);

class Team {
  public:
    // Never destroyed: its threads may be asleep when the process ends.
    static Team& get() {
        static Team* const team = new Team;
        return *team;
    }

    // Calls body(0) on this thread and body(k), for some k from 1 to count - 1, on the threads that join
    // before it ends: threads without a processor are not waited for.  body(0) must do all the work that
    // others leave.
    void run(int count, const std::function<void(int)>& body) {
        const std::unique_lock<std::mutex> mine(use_, std::try_to_lock);
        count = std::min(count, kMaxThreads);
        if (count <= 1 || !mine) {
            body(0);
            return;
        }
        for (; size_ < count - 1; size_++) std::thread(&Team::work, this, size_ + 1, job_.load()).detach();
        body_ = &body;
        inside_.store(0, std::memory_order_release);
        {
            const std::lock_guard<std::mutex> hold(sleep_);
            job_.store((job_.load() / kCounts + 1) * kCounts + uint64_t(count));
            if (asleep_) wake_.notify_all();
        }
        body(0);
        inside_.fetch_or(kClosed);
        while (inside_.load(std::memory_order_acquire) != kClosed) std::this_thread::yield();
    }

  private:
    // A job: its sequence number, and how many threads it wants, in one word.
    static constexpr uint64_t kCounts = 1 << 16;
    static constexpr int kClosed = 1 << 30;  // added to the number of threads inside

    void work(int number, uint64_t seen) {
        while (true) {
            seen = next(seen);
            if (number >= int(seen % kCounts) || !enter()) continue;
            (*body_)(number);
            inside_.fetch_sub(1, std::memory_order_release);
        }
    }
    bool enter() {
        int inside = inside_.load();
        while (!(inside & kClosed))
            if (inside_.compare_exchange_weak(inside, inside + 1)) return true;
        return false;
    }
    uint64_t next(uint64_t seen) {
        const auto begin = std::chrono::steady_clock::now();
        while (std::chrono::steady_clock::now() - begin < kAwake) {
            if (job_.load(std::memory_order_acquire) != seen) return job_.load();
            std::this_thread::yield();
        }
        std::unique_lock<std::mutex> hold(sleep_);
        asleep_++;
        wake_.wait(hold, [&] { return job_.load() != seen; });
        asleep_--;
        return job_.load();
    }

    std::mutex use_, sleep_;
    std::condition_variable wake_;
    int size_ = 0, asleep_ = 0;
    std::atomic<uint64_t> job_{0};
    std::atomic<int> inside_{kClosed};
    const std::function<void(int)>* body_ = nullptr;
};

// Defers an exception until all threads of the team are done.
class Guard {
  public:
    template <class Body>
    void operator()(Body&& body) {
        if (failed_) return;
        try {
            body();
        } catch (...) {
            failed_ = std::current_exception();
        }
    }
    void rethrow() const {
        if (failed_) std::rethrow_exception(failed_);
    }

  private:
    std::exception_ptr failed_;
};

}  // namespace

void copy_to_pinned(const void* from, size_t bytes, void* to) {
    const auto* source = static_cast<const unsigned char*>(from);
    auto* target = static_cast<unsigned char*>(to);
    size_t done = 0;
#ifdef __SSE2__
    done = std::min(bytes, size_t(-reinterpret_cast<intptr_t>(target) & 15));
    std::memcpy(target, source, done);
    for (; done + 64 <= bytes; done += 64)
        for (size_t k = done; k < done + 64; k += 16)
            _mm_stream_si128(reinterpret_cast<__m128i*>(target + k),
                             _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + k)));
    _mm_sfence();
#endif
    std::memcpy(target + done, source + done, bytes - done);
}

void to_pinned(const double* from, int64_t n, bool narrow, void* to) {
    if (!narrow) return copy_to_pinned(from, size_t(n) * 8, to);
    float* out = static_cast<float*>(to);
    int64_t i = 0;
#ifdef __SSE2__
    for (; i < n && (reinterpret_cast<uintptr_t>(out + i) & 15); i++) out[i] = float(from[i]);
    for (; i + 4 <= n; i += 4)
        _mm_stream_ps(out + i, _mm_movelh_ps(_mm_cvtpd_ps(_mm_loadu_pd(from + i)),
                                             _mm_cvtpd_ps(_mm_loadu_pd(from + i + 2))));
    _mm_sfence();
#endif
    for (; i < n; i++) out[i] = float(from[i]);
}

void from_pinned(const void* from, int64_t n, bool narrow, double* to) {
    if (!narrow) {
        std::memcpy(to, from, size_t(n) * 8);
        return;
    }
    const float* in = static_cast<const float*>(from);
    for (int64_t i = 0; i < n; i++) to[i] = double(in[i]);
}

void fill_and_send(int64_t n, int threads, const Range& fill, const Range& send) {
    const int64_t share = std::clamp(n / (4 * std::max(threads, 1)), kMinPiece, kMaxPiece);
    const int64_t piece =
        (share + kLine - 1) / kLine * kLine;  // whole cache lines, whatever the size of a number
    const int64_t pieces = (n + piece - 1) / piece;
    const std::unique_ptr<std::atomic<bool>[]> filled(new std::atomic<bool>[size_t(pieces)]());
    std::atomic<int64_t> next{0};
    Guard guard;
    Team::get().run(int(std::min<int64_t>(threads, pieces)), [&](int number) {
        int64_t sent = 0, end = 0;
        const auto send_filled = [&] {
            while (end < pieces && filled[size_t(end)].load(std::memory_order_acquire)) end++;
            if (end == sent || (end < pieces && (end - sent) * piece < kSent)) return;
            guard([&] { send(sent * piece, std::min(n, end * piece) - sent * piece); });
            sent = end;
        };
        for (int64_t k; (k = next.fetch_add(1)) < pieces;) {
            fill(k * piece, std::min(piece, n - k * piece));
            filled[size_t(k)].store(true, std::memory_order_release);
            if (number == 0) send_filled();
        }
        // A thread that holds a piece may be waiting for this processor.
        for (; number == 0 && sent < pieces; send_filled()) std::this_thread::yield();
    });
    guard.rethrow();
}

void touch_pages(void* to, size_t bytes, int threads) {
    auto* const first = static_cast<unsigned char*>(to);
    const size_t inside = size_t(-reinterpret_cast<uintptr_t>(to)) % kHugePage;  // the first whole page
    if (bytes <= inside) return;
    const int64_t pages = int64_t((bytes - inside - 1) / kHugePage) + 1;
    std::atomic<int64_t> next{0};
    Team::get().run(int(std::min<int64_t>(threads, pages)), [&](int) {
        for (int64_t k; (k = next.fetch_add(1)) < pages;)
            __atomic_fetch_or(first + inside + size_t(k) * kHugePage, 0, __ATOMIC_RELAXED);
    });
}

void wait_and_drain(int64_t n, int64_t piece, int threads, const Range& wait, const Range& drain) {
    const int64_t pieces = (n + piece - 1) / piece;
    std::atomic<int64_t> next{0}, come{0};
    Guard guard;
    Team::get().run(int(std::min<int64_t>(threads, pieces)), [&](int number) {
        for (int64_t k; (k = next.fetch_add(1)) < pieces;) {
            // The calling thread waits for the driver, up to its own next piece; the other threads wait for
            // it.
            if (number == 0) {
                for (int64_t p = come.load(); p <= k; p++) {
                    guard([&] { wait(p * piece, std::min(piece, n - p * piece)); });
                    come.store(p + 1, std::memory_order_release);
                }
            }
            while (come.load(std::memory_order_acquire) <= k) std::this_thread::yield();
            drain(k * piece, std::min(piece, n - k * piece));
        }
        // Other threads may hold pieces after the last one of this thread.
        for (int64_t p = come.load(); number == 0 && p < pieces; p++) {
            guard([&] { wait(p * piece, std::min(piece, n - p * piece)); });
            come.store(p + 1, std::memory_order_release);
        }
    });
    guard.rethrow();
}

}  // namespace bmrm
