// Queued work recorded as a graph, which one call queues again.
#pragma once
#include "runtime/status.h"

namespace bmrm {

class Graph {
  public:
    Graph() = default;
    ~Graph() { reset(); }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    explicit operator bool() const { return executable_ != nullptr; }

    // Records what `queue` queues on the stream, without running it, and replaces the earlier recording.
    template <class Queue>
    void capture(cudaStream_t stream, Queue&& queue) {
        reset();
        cudaGraph_t graph = nullptr;
        BB_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        try {
            queue();
        } catch (...) {
            cudaStreamEndCapture(stream, &graph);
            if (graph) cudaGraphDestroy(graph);
            throw;
        }
        BB_CHECK(cudaStreamEndCapture(stream, &graph));
        const cudaError_t made = cudaGraphInstantiate(&executable_, graph, 0);
        cudaGraphDestroy(graph);
        BB_CHECK(made);
    }
    void launch(cudaStream_t stream) const { BB_CHECK(cudaGraphLaunch(executable_, stream)); }

  private:
    void reset() {
        if (executable_) cudaGraphExecDestroy(executable_);
        executable_ = nullptr;
    }

    cudaGraphExec_t executable_ = nullptr;
};

}  // namespace bmrm
