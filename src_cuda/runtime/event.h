// An event in a stream whose time the device records.
#pragma once
#include "runtime/status.h"

namespace bmrm {

class Event {
  public:
    Event() { BB_CHECK(cudaEventCreate(&event_)); }
    ~Event() { cudaEventDestroy(event_); }
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;
    cudaEvent_t get() const { return event_; }

  private:
    cudaEvent_t event_ = nullptr;
};

// Two events around some work, which measure how long it takes.
struct EventPair {
    void begin(cudaStream_t stream) { BB_CHECK(cudaEventRecord(first_.get(), stream)); }
    void end(cudaStream_t stream) { BB_CHECK(cudaEventRecord(last_.get(), stream)); }
    bool over() const { return cudaEventQuery(last_.get()) == cudaSuccess; }
    void wait() const { BB_CHECK(cudaEventSynchronize(last_.get())); }
    // Returns the seconds between the events; only after the work has ended.
    double seconds() const {
        float milliseconds = 0;
        BB_CHECK(cudaEventElapsedTime(&milliseconds, first_.get(), last_.get()));
        return 1e-3 * double(milliseconds);
    }

  private:
    Event first_, last_;
};

}  // namespace bmrm
