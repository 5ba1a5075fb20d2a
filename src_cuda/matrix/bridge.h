// Moves vectors of doubles, on the host or on the device, to the device in the matrix's type, and back.
//
// Pinned staging buffers are allocated once and only grow.  Several threads fill and empty them, and what is
// filled is on the bus while the rest is not (runtime/pinned.h).  float32 matrices need a conversion, either
// by the host while it fills the staging buffer (half the bytes cross the bus) or by the device after the
// copy; the first call of a relevant size runs both ways and keeps the faster.
#pragma once
#include <cuda_runtime.h>

#include <chrono>

#include "runtime/device_memory.h"
#include "runtime/mailbox.h"

namespace bmrm {

class Bridge {
  public:
    explicit Bridge(int threads) : threads_(threads) {}
    ~Bridge();
    Bridge(const Bridge&) = delete;
    Bridge& operator=(const Bridge&) = delete;

    // `run(x, y)` launches the product on device vectors of the matrix's type.
    template <class Run>
    void apply(Memory& memory, bb_type type, const double* x, int64_t in, double* y, int64_t out, Run&& run) {
        reserve(memory, in, out);
        if (type == BB_FLOAT32 && side_ == UNKNOWN && in + out >= 65536) measure(memory, x, in, y, out);
        const bool on_host = type == BB_FLOAT64 || side_ != DEVICE;
        send(memory, type, on_host, x, in);
        run(static_cast<const void*>(x_.data()), static_cast<void*>(y_.data()));
        note(memory, MULTIPLIED);
        receive(memory, type, on_host, y, out);
    }
    // Copies numbers of that type from the device to the host.
    void fetch(Memory& memory, bb_type type, const void* from, int64_t count, double* to);
    // Returns the times of the last `apply`; separate, since reading the times of events takes a while.
    bb_times times() const;

    // For vectors of doubles on the device and a float32 matrix: a conversion each way, and no copy.
    template <class Run>
    void apply_wide(Memory& memory, const double* x, int64_t in, double* y, int64_t out, Run&& run) {
        reserve_device(memory, in, out);
        to_float(memory, x, in);
        run(static_cast<const void*>(x_.data()), static_cast<void*>(y_.data()));
        to_double(memory, out, y);
    }

  private:
    enum Side { UNKNOWN, HOST, DEVICE };
    static constexpr int64_t kDownloads = 32;         // maximum number of pieces that are downloaded
    static constexpr int64_t kMinDownload = 1 << 15;  // minimum numbers per piece
    static constexpr int64_t kWritten = 1 << 13;      // a kernel writes up to this many numbers to the host
    // Moments on the device's clock; CONVERTED and CONVERTED_BACK only if the device converts.
    enum Moment { BEGUN, UPLOADED, CONVERTED, MULTIPLIED, CONVERTED_BACK, DOWNLOADED, MOMENTS };
    void reserve(Memory& memory, int64_t in, int64_t out);
    void reserve_pinned(int64_t count);
    // Copies over the bus and out of pinned memory; returns the time after which only host work was left.
    std::chrono::steady_clock::time_point download(Memory& memory, const void* from, int64_t count,
                                                   bool narrow, double* to);
    void reserve_device(Memory& memory, int64_t in, int64_t out);
    void to_float(Memory& memory, const double* from, int64_t in);
    void to_double(Memory& memory, int64_t out, double* to);
    void send(Memory& memory, bb_type type, bool on_host, const double* x, int64_t in);
    void receive(Memory& memory, bb_type type, bool on_host, double* y, int64_t out);
    void write(Memory& memory, bb_type type, double* y, int64_t out);
    void note(Memory& memory, Moment moment);
    double between(Moment from, Moment to) const;
    void measure(Memory& memory, const double* x, int64_t in, double* y, int64_t out);

    Side side_ = UNKNOWN;
    const int threads_;
    void* pinned_ = nullptr;
    int64_t pinned_count_ = 0;
    Array<double> wide_, x_, y_;
    Mailbox written_;
    cudaEvent_t event_[MOMENTS] = {};
    Moment ready_ = UPLOADED,
           leaves_ = MULTIPLIED;         // the last moment before the product, and before the download
    cudaEvent_t come_[kDownloads] = {};  // a piece has arrived
    double host_in_ = 0, host_out_ = 0;  // milliseconds
};

}  // namespace bmrm
