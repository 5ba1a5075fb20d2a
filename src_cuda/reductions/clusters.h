// Rows on a device as the passes of k-means read them, whatever their kind.
#pragma once
#include <memory>

#include "api/clusters.h"
#include "reductions/kernels/centers.cuh"
#include "runtime/chain.cuh"
#include "runtime/handle.h"

namespace bmrm {

// Page-locked memory of the host, which copies reach without a detour.
class Staging {
  public:
    Staging() = default;
    ~Staging() {
        if (data_) cudaFreeHost(data_);
    }
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;

    // Returns room for `count` doubles; what was there is lost.
    double* reserve(int64_t count) {
        if (count <= capacity_) return static_cast<double*>(data_);
        if (data_) cudaFreeHost(data_);
        data_ = nullptr;
        capacity_ = 0;
        BB_CHECK(cudaHostAlloc(&data_, size_t(count) * sizeof(double), cudaHostAllocPortable));
        capacity_ = count;
        return static_cast<double*>(data_);
    }

  private:
    void* data_ = nullptr;
    int64_t capacity_ = 0;
};

}  // namespace bmrm

struct bb_clusters : bmrm::Handle {
    bb_clusters(const bb_device& device, int64_t n, int64_t d, const double* weights, int64_t memory_limit)
        : Handle(device.id), device(device), n(n), d(d) {
        memory.set_limit(memory_limit);
        if (weights) {
            weights_ = bmrm::Array<double>(memory, n);
            weights_.from_host(weights, n);
        }
        counters_ = bmrm::Array<bmrm::PassCounters>(memory, 1);
        largest_ = bmrm::Array<unsigned long long>(memory, 1);
        BB_CHECK(cudaStreamSynchronize(memory.stream));
    }
    virtual ~bb_clusters() = default;

    virtual double largest() = 0;
    virtual void pack(const double* shift, double scale) = 0;
    virtual void take(const int64_t* numbers, int64_t count, double* values) = 0;
    // The passes take centres on the host and columns on the device.
    virtual void assign(const double* centers, int64_t k, int32_t* labels, double* sums,
                        double* cluster_weights, bb_cluster_counts* found) = 0;
    virtual void own(const double* centers, int64_t k, const int32_t* labels, double* distances) = 0;
    virtual void moves(const double* centers, int64_t k, const int32_t* labels, const double* cluster_weights,
                       bb_cluster_counts* found) = 0;
    virtual void distances(const double* centers, int64_t k, int64_t first, int64_t count,
                           double* distances) = 0;
    virtual void potentials(const int64_t* candidates, int64_t count, float* closest, bool take,
                            double* sums) = 0;

    int64_t panels() const { return (n + BB_PANEL_ROWS - 1) / BB_PANEL_ROWS; }

    const bb_device device;
    const int64_t n, d;

  protected:
    cudaStream_t stream() const { return memory.stream; }
    // Blocks of a grid whose threads loop: a few for each multiprocessor.
    unsigned grid(int64_t wanted, int each = 8) const {
        const int64_t most = int64_t(device.multiprocessors) * each;
        return unsigned(wanted < 1 ? 1 : wanted < most ? wanted : most);
    }
    bmrm::NextLaunch launch(unsigned blocks, int threads, int64_t shared_bytes = 0) const {
        return bmrm::NextLaunch(blocks, threads, shared_bytes, stream(), false);
    }
    // Copies `count` doubles to the host through the staging area, with what is queued before.
    void fetch(const double* from, int64_t count, double* to) {
        double* staged = staging_.reserve(count);
        BB_CHECK(cudaMemcpyAsync(staged, from, size_t(count) * sizeof(double), cudaMemcpyDefault, stream()));
        BB_CHECK(cudaStreamSynchronize(stream()));
        memcpy(to, staged, size_t(count) * sizeof(double));
    }

    bmrm::Array<double> weights_;
    bmrm::Array<bmrm::PassCounters> counters_;
    bmrm::Array<unsigned long long> largest_;
    bmrm::Staging staging_;
};

namespace bmrm {

std::unique_ptr<bb_clusters> make_dense_clusters(const bb_device& device, int64_t n, int64_t d, bb_type type,
                                                 const void* values, const double* weights,
                                                 int64_t memory_limit, int threads);

}  // namespace bmrm
