// The ranks over which the nodes of a graph are spread: what of a vector another rank has computed, and sums.
//
// A rank computes the messages of its own nodes and the sums over them.  `finish` sends both to the others in
// one step, and adds up the sums in the order of the ranks, so that they have the same bits on all.  By NCCL
// this goes on a stream of its own: a product with the entries at own nodes may run meanwhile, and only what
// needs the messages of other nodes waits (`await`).  Letters for the host leave from that stream too.
#pragma once
#include <vector>

#include "api/graph.h"
#include "distributed/collective.h"
#include "graph/kernels/passes.cuh"

namespace bmrm {

// A vector over the nodes of all ranks, of which each has computed its own.
struct Shared {
    void* whole = nullptr;
    int64_t node_bytes = 0;
};

class Peers {
  public:
    // `own`: nodes of this rank.  Without `ranks` there is only this one.
    Peers(Memory& memory, const bb_graph_ranks* ranks, int64_t own);
    ~Peers();
    Peers(const Peers&) = delete;
    Peers& operator=(const Peers&) = delete;

    bool alone() const { return collective_.alone(); }
    int64_t first() const { return first_; }  // place of the first own node
    int64_t nodes() const { return nodes_; }  // of all ranks
    // Whether the host can queue a step before the one before has ended: exchanges do not wait for it.
    bool can_run_ahead() const { return alone() || collective_.direct(); }
    // The stream whose kernels write letters.
    cudaStream_t letters() const { return exchanges_ ? exchanges_ : memory_.stream; }

    // Adds up `count` sums of the blocks of a pass, and over the ranks; otherwise as for add_blocks.  Sends
    // and receives a vector, if there is one.
    void finish(const double* partial, int blocks, int count, double* keep, int keeps, const Numbers& more,
                const Letter& letter, const Shared& vector = {});
    // Exchanges a vector.
    void share(const Shared& vector);
    // Makes the stream of the memory wait for the last exchange.
    void await();
    // Prepares for products right after `await`: a launch that may begin before the one before it ends waits
    // for that launch, and might not for the exchange between the two.
    void follow(Memory& memory) const {
        if (!alone()) memory.overlaps = false;
    }

  private:
    Parts parts(const Shared& vector) const;
    void begin();
    void end();

    Memory& memory_;
    Collective collective_;
    std::vector<int64_t> bounds_;  // places of all ranks; empty if alone
    int64_t first_ = 0, nodes_;
    Array<double> gathered_;  // the sums of each rank
    cudaStream_t exchanges_ = nullptr;
    cudaEvent_t ready_ = nullptr, arrived_ = nullptr;
    bool pending_ = false;
};

}  // namespace bmrm
