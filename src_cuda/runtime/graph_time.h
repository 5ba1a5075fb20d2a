// The time of queued work, without the time that the host needs to queue it.
#pragma once
#include "runtime/event.h"
#include "runtime/graph.h"

namespace bmrm {

// Returns the seconds of one of `repeats` launches, replayed as a graph so that host time does not count.
template <class Launch>
double graph_seconds(cudaStream_t stream, int repeats, Launch&& launch) {
    launch();
    Graph graph;
    graph.capture(stream, [&] {
        for (int i = 0; i < repeats; i++) launch();
    });
    double best = 0;
    EventPair times;
    for (int round = 0; round < 2; round++) {
        times.begin(stream);
        graph.launch(stream);
        times.end(stream);
        times.wait();
        if (round == 0 || times.seconds() < best) best = times.seconds();
    }
    return best / repeats;
}

}  // namespace bmrm
