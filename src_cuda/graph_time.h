// The time of queued work without what the host spends on queueing it.
#pragma once
#include "status.h"

namespace bmrm {

// Seconds of one of `repeats` launches, replayed as a graph so that the host's share does not count.
template <class Launch>
double graph_seconds(cudaStream_t stream, int repeats, Launch&& launch) {
    launch();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    float best = 0;
    const auto release = [&] {
        if (begin) cudaEventDestroy(begin);
        if (end) cudaEventDestroy(end);
        if (executable) cudaGraphExecDestroy(executable);
        if (graph) cudaGraphDestroy(graph);
    };
    try {
        BB_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        try {
            for (int i = 0; i < repeats; i++) launch();
        } catch (...) {
            cudaStreamEndCapture(stream, &graph);
            throw;
        }
        BB_CHECK(cudaStreamEndCapture(stream, &graph));
        BB_CHECK(cudaGraphInstantiate(&executable, graph, 0));
        BB_CHECK(cudaEventCreate(&begin));
        BB_CHECK(cudaEventCreate(&end));
        for (int round = 0; round < 2; round++) {
            float milliseconds = 0;
            BB_CHECK(cudaEventRecord(begin, stream));
            BB_CHECK(cudaGraphLaunch(executable, stream));
            BB_CHECK(cudaEventRecord(end, stream));
            BB_CHECK(cudaEventSynchronize(end));
            BB_CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
            if (round == 0 || milliseconds < best) best = milliseconds;
        }
    } catch (...) {
        release();
        throw;
    }
    release();
    return double(best) / repeats / 1000.0;
}

}  // namespace bmrm
