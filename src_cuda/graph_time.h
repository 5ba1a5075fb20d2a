// The time of queued work without what the host spends on queueing it.
#pragma once
#include "event.h"

namespace bmrm {

// Seconds of one of `repeats` launches, replayed as a graph so that the host's share does not count.
template <class Launch>
double graph_seconds(cudaStream_t stream, int repeats, Launch&& launch) {
    launch();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    double best = 0;
    const auto release = [&] {
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
        EventPair times;
        for (int round = 0; round < 2; round++) {
            times.begin(stream);
            BB_CHECK(cudaGraphLaunch(executable, stream));
            times.end(stream);
            times.wait();
            if (round == 0 || times.seconds() < best) best = times.seconds();
        }
    } catch (...) {
        release();
        throw;
    }
    release();
    return best / repeats;
}

}  // namespace bmrm
