// The ranks over which the nodes of a graph are spread: what of a vector another rank has computed, and sums.
//
// A rank computes the messages of its own nodes and the sums over them.  `finish` sends both to the others in
// one step, and adds up the sums in the order of the ranks, so that they have the same bits on all.  From
// device to device this goes on a stream of its own: a product with the entries at own nodes may run
// meanwhile, and only what needs the messages of other nodes waits (`await`).
//
// Messages of light steps go through a window (window.h), if devices can write to each other's memory: passes
// write them there, and all of a step is on one stream.  The kernel that waits for the others and adds up
// comes after the product that needs nothing of them: next to it, it would find no room, since a product
// fills all multiprocessors until it ends.  All else goes by NCCL.  If ranks share a device, everything goes
// through main memory.
#pragma once
#include <optional>
#include <vector>

#include "api/graph.h"
#include "distributed/collective.h"
#include "graph/kernels/passes.cuh"
#include "graph/window.h"

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
    // The stream whose kernels write letters with sums over the ranks.
    cudaStream_t letters() const { return exchanges_ ? exchanges_ : memory_.stream; }

    // Adds up `count` sums of the blocks of a pass, and over the ranks; otherwise as for add_blocks.  Sends
    // and receives a vector, if there is one.
    // early: the letter has the sums of this rank alone, and leaves at once from the stream of the memory:
    // the product that runs during an exchange may keep its kernel waiting.
    void finish(const double* partial, int blocks, int count, double* keep, int keeps, const Numbers& more,
                const Letter& letter, const Shared& vector = {}, bool early = false);
    // Before a walk ends: forgets where it keeps the sums of the last exchange.
    void forget(const void* walk) noexcept;
    // Makes room in the window for a vector of messages; called by all ranks.  Returns whether there is one.
    bool open_window(int64_t node_bytes);
    // The vector in the window that was sent last, and the one to be sent next.
    void* window() const { return window_.vector(turn_); }
    void* next_window() const { return window_.vector(turn_ + 1); }
    // Where a pass puts the messages of own nodes for other ranks.
    Copies next_copies(int columns) const { return window_.copies(turn_ + 1, first_ * columns); }
    // Whose messages are in the window.
    const void* lent_to = nullptr;
    // Returns a vector of all nodes, given that of own nodes: itself if there are no others, else `room`,
    // where it may be already.  What is queued next on the stream of the memory may read it.
    const double* gather(const double* own, Array<double>& room);
    // Makes the stream of the memory wait for the last exchange.  Returns whether it is on another stream.
    bool await();
    // Prepares for products right after `await`: a launch that may begin before the one before it ends waits
    // for that launch, and might not for the exchange between the two.
    void follow(Memory& memory) const {
        if (!alone()) memory.overlaps = false;
    }

  private:
    // Sums of the ranks that are on their way to the window.
    struct Arriving {
        const double* gathered;
        int count;
        double* keep;
        int keeps;
        Arrivals arrivals;
    };

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
    bool pending_ = false, windows_ = false;
    std::optional<Arriving> arriving_;
    Window window_;
    int64_t turn_ = 0;
};

}  // namespace bmrm
