#include "runtime/staging.h"

namespace bmrm {

Staging::~Staging() {
    for (int i = 0; i < kAreas; i++) {
        if (arrived_[i]) cudaEventDestroy(arrived_[i]);
        if (free_[i]) cudaEventDestroy(free_[i]);
    }
    if (begin_) cudaEventDestroy(begin_);
    if (copies_) cudaStreamDestroy(copies_);
}

void Staging::reserve(Memory& memory, int64_t bytes) {
    for (Array<unsigned char>& area : areas_) bmrm::reserve(memory, area, bytes);
    BB_CHECK(cudaStreamSynchronize(memory.stream));  // so that the other stream can use the memory
    if (copies_) return;
    BB_CHECK(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking));
    BB_CHECK(cudaEventCreateWithFlags(&begin_, cudaEventDisableTiming));
    for (int i = 0; i < kAreas; i++) {
        BB_CHECK(cudaEventCreateWithFlags(&arrived_[i], cudaEventDisableTiming));
        BB_CHECK(cudaEventCreateWithFlags(&free_[i], cudaEventDisableTiming));
    }
}

void Staging::begin(cudaStream_t work) {
    BB_CHECK(cudaEventRecord(begin_, work));
    BB_CHECK(cudaStreamWaitEvent(copies_, begin_, 0));
}

void Staging::send(int area, const void* from, int64_t bytes) {
    if (bytes)
        BB_CHECK(cudaMemcpyAsync(areas_[area].data(), from, size_t(bytes), cudaMemcpyHostToDevice, copies_));
    BB_CHECK(cudaEventRecord(arrived_[area], copies_));
}

void Staging::await(int area, cudaStream_t work) { BB_CHECK(cudaStreamWaitEvent(work, arrived_[area], 0)); }

void Staging::release(int area, cudaStream_t work) {
    BB_CHECK(cudaEventRecord(free_[area], work));
    BB_CHECK(cudaStreamWaitEvent(copies_, free_[area], 0));
}

}  // namespace bmrm
