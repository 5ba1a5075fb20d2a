#include <algorithm>
#include <chrono>

#include "formats/csr.h"
#include "matrix/bridge.h"
#include "runtime/chain.cuh"
#include "runtime/pinned.h"

namespace bmrm {

namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

template <class From, class To>
__global__ void convert(const From* from, int64_t n, To* to) {
    let_next_start();
    wait_for_previous();
    BB_FOR (i, n) to[i] = To(load_input(from + i));
}

template <class From, class To>
void launch_convert(Memory& memory, const From* from, int64_t n, To* to) {
    NextLaunch(dim3(unsigned(blocks_for(n))), 256, 0, memory.stream, memory.chains)(convert<From, To>, from,
                                                                                    n, to);
}

// One block, since only a single block knows when all of it is written.
template <class From>
__global__ void write_letter(const From* from, int64_t n, Letter letter) {
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) letter.values[i] = double(from[i]);
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) close_letter(letter);
}

}  // namespace

Bridge::~Bridge() {
    if (pinned_) cudaFreeHost(pinned_);
    for (cudaEvent_t event : event_)
        if (event) cudaEventDestroy(event);
    for (cudaEvent_t event : come_)
        if (event) cudaEventDestroy(event);
}

void Bridge::reserve(Memory& memory, int64_t in, int64_t out) {
    for (cudaEvent_t& event : event_)
        if (!event) BB_CHECK(cudaEventCreate(&event));
    const int64_t most = in > out ? in : out;
    reserve_pinned(most);
    if (wide_.size() < most) wide_ = Array<double>(memory, most);
    reserve_device(memory, in, out);
}

void Bridge::reserve_pinned(int64_t count) {
    for (cudaEvent_t& event : come_)
        if (!event) BB_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    if (pinned_count_ >= count) return;
    if (pinned_) BB_CHECK(cudaFreeHost(pinned_));
    pinned_ = nullptr;
    pinned_count_ = 0;
    if (cudaMallocHost(&pinned_, size_t(count) * 8) != cudaSuccess) {
        cudaGetLastError();
        throw Failure(BB_MEMORY,
                      "no " + size_text(double(count) * 8) + " of pinned host memory for the vectors");
    }
    pinned_count_ = count;
}

void Bridge::reserve_device(Memory& memory, int64_t in, int64_t out) {
    if (x_.size() < in) x_ = Array<double>(memory, in);
    if (y_.size() < out) y_ = Array<double>(memory, out);
}

void Bridge::note(Memory& memory, Moment moment) { BB_CHECK(cudaEventRecord(event_[moment], memory.stream)); }

void Bridge::send(Memory& memory, bb_type type, bool on_host, const double* x, int64_t in) {
    const auto start = std::chrono::steady_clock::now();
    const bool narrow = type == BB_FLOAT32 && on_host, converts = type == BB_FLOAT32 && !on_host;
    const int64_t each = narrow ? 4 : 8;
    char *from = static_cast<char*>(pinned_),
         *to = reinterpret_cast<char*>(converts ? wide_.data() : x_.data());
    note(memory, BEGUN);
    fill_and_send(
        in, threads_,
        [&](int64_t first, int64_t count) { to_pinned(x + first, count, narrow, from + first * each); },
        [&](int64_t first, int64_t count) {
            BB_CHECK(cudaMemcpyAsync(to + first * each, from + first * each, size_t(count * each),
                                     cudaMemcpyHostToDevice, memory.stream));
        });
    host_in_ = milliseconds_since(start);
    note(memory, ready_ = UPLOADED);
    if (!converts) return;
    to_float(memory, wide_.data(), in);
    note(memory, ready_ = CONVERTED);
}

void Bridge::receive(Memory& memory, bb_type type, bool on_host, double* y, int64_t out) {
    leaves_ = MULTIPLIED;
    if (out <= kWritten) return write(memory, type, y, out);
    const bool narrow = type == BB_FLOAT32 && on_host, converts = type == BB_FLOAT32 && !on_host;
    if (converts) {
        to_double(memory, out, wide_.data());
        note(memory, leaves_ = CONVERTED_BACK);
    }
    const double* from = converts ? wide_.data() : y_.data();
    host_out_ = milliseconds_since(download(memory, from, out, narrow, y));
}

std::chrono::steady_clock::time_point Bridge::download(Memory& memory, const void* source, int64_t count,
                                                       bool narrow, double* target) {
    const int64_t each = narrow ? 4 : 8;
    const char* from = static_cast<const char*>(source);
    char* to = static_cast<char*>(pinned_);
    const int64_t piece = std::max(kMinDownload, (count + kDownloads - 1) / kDownloads);
    for (int64_t first = 0, k = 0; first < count; first += piece, k++) {
        const int64_t some = std::min(piece, count - first);
        BB_CHECK(cudaMemcpyAsync(to + first * each, from + first * each, size_t(some * each),
                                 cudaMemcpyDeviceToHost, memory.stream));
        if (first + piece < count) BB_CHECK(cudaEventRecord(come_[k], memory.stream));
    }
    if (event_[DOWNLOADED]) note(memory, DOWNLOADED);
    touch_pages(target, size_t(count) * 8, threads_);
    auto last = std::chrono::steady_clock::now();
    wait_and_drain(
        count, piece, threads_,
        [&](int64_t first, int64_t) {
            BB_CHECK(first + piece < count ? cudaEventSynchronize(come_[first / piece])
                                           : cudaStreamSynchronize(memory.stream));
            last = std::chrono::steady_clock::now();
        },
        [&](int64_t first, int64_t some) { from_pinned(to + first * each, some, narrow, target + first); });
    return last;
}

void Bridge::fetch(Memory& memory, bb_type type, const void* from, int64_t count, double* to) {
    reserve_pinned(count);
    download(memory, from, count, type == BB_FLOAT32, to);
}

// A kernel writes the numbers to the host and signals it, which is faster than a copy or the driver.
void Bridge::write(Memory& memory, bb_type type, double* y, int64_t out) {
    written_.reserve(out, memory.stream);
    by_type(type, [&](auto t) {
        write_letter<<<1, 1024, 0, memory.stream>>>(reinterpret_cast<const decltype(t)*>(y_.data()), out,
                                                    written_.next());
    });
    BB_CHECK(cudaGetLastError());
    note(memory, DOWNLOADED);
    const double* from = written_.wait(memory.stream);
    const auto here = std::chrono::steady_clock::now();
    from_pinned(from, out, false, y);
    host_out_ = milliseconds_since(here);
}

void Bridge::to_float(Memory& memory, const double* from, int64_t in) {
    launch_convert(memory, from, in, reinterpret_cast<float*>(x_.data()));
}

void Bridge::to_double(Memory& memory, int64_t out, double* to) {
    launch_convert(memory, reinterpret_cast<const float*>(y_.data()), out, to);
}

// Measures the transfer in both directions without a product; the product that follows overwrites y.
void Bridge::measure(Memory& memory, const double* x, int64_t in, double* y, int64_t out) {
    double seconds[2] = {};
    y_.fill_bytes(0);
    for (int round = 0; round < 2; round++)  // the first round pays for pages and module loading
        for (int side = 0; side < 2; side++) {
            const auto start = std::chrono::steady_clock::now();
            send(memory, BB_FLOAT32, side == 0, x, in);
            receive(memory, BB_FLOAT32, side == 0, y, out);
            seconds[side] = milliseconds_since(start);
        }
    side_ = seconds[0] <= seconds[1] ? HOST : DEVICE;
}

double Bridge::between(Moment from, Moment to) const {
    float milliseconds = 0;
    if (from != to) BB_CHECK(cudaEventElapsedTime(&milliseconds, event_[from], event_[to]));
    return milliseconds;
}

bb_times Bridge::times() const {
    if (!event_[BEGUN]) return {};
    // The numbers arrive before the device has recorded the event.
    BB_CHECK(cudaEventSynchronize(event_[DOWNLOADED]));
    // The first pieces are on the bus while the last ones are converted.
    return {host_in_ + between(UPLOADED, ready_), std::max(0.0, between(BEGUN, UPLOADED) - host_in_),
            between(ready_, MULTIPLIED), between(leaves_, DOWNLOADED),
            between(MULTIPLIED, leaves_) + host_out_};
}

}  // namespace bmrm
