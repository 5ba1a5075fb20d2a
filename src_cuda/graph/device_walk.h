// Walks on a graph: their base, their images, and the launches of a step.
//
// A light step is one chain of launches: the messages of its point if that is a mixture, the product,
// `advance`, and `add_blocks`, which writes sums for the host and keeps what the next step needs.  The host
// waits for a letter (runtime/mailbox.h), and only for that: if a plain step is likely to follow, it is
// queued before the host has seen the sums of this one, with an image of its own.  If that step is asked for,
// its image becomes that of the slot; otherwise it is forgotten, and all that is lost is its time.  So the
// device does not wait for the host while steps are plain.
//
// If the nodes are spread over ranks, the messages and the sums of a step go to the others as soon as it has
// them, while the product of the next one begins with the entries at own nodes (peers.h).
//
// A CUDA graph would save nothing here: the host queues a step in less time than the device takes for one.
#pragma once
#include <memory>
#include <vector>

#include "graph/kernels/walk.cuh"
#include "graph/nodes.h"
#include "runtime/chain.cuh"

struct bb_walk {
    bb_walk(bb_nodes* nodes, int32_t columns, const bb_walk_terms& given);

    void place(int32_t slot, const double* start);
    void light(const bb_light_step& step, double* norms);
    void exact(int32_t slot, int32_t into, double* sums);
    void products(const int32_t* images, const int32_t* points, int32_t count, double* products);
    void top(int32_t slot, const int32_t* columns, int32_t wanted, int64_t count, int64_t* numbers,
             double* values);
    void get(int32_t slot, int32_t column, double* values);
    void take(bb_walk& from, int32_t slot, const int32_t* chosen);
    ~bb_walk();

    bb_nodes* const nodes;
    bmrm::Memory& memory;
    const bool has_window;  // messages are in the window of the ranks

  private:
    // Vectors that several slots may share.
    using Vector = std::shared_ptr<bmrm::Array<float>>;
    static constexpr int32_t kNoSlot = -1;
    // A step that was queued before it was asked for.
    struct Ahead {
        int32_t from = kNoSlot;  // slot of its point
        Vector image;
    };

    // Entries of all columns, `room` for each, and how many each would have.
    struct Leaders {
        int64_t room;
        std::vector<uint32_t> counts, numbers;
        std::vector<double> values;
    };

    cudaStream_t stream() const { return memory.stream; }
    int64_t size() const { return n_ * columns_; }
    int blocks() const { return bmrm::pass_blocks(n_, columns_); }
    // Returns the elements of a vector that no other slot shares; makes a new one if necessary.
    float* own(Vector& vector);
    Vector& slot(int32_t number);
    // Returns what is in a slot.
    const float* at(int32_t number);
    // Returns room for `count` kinds of sums of each block.
    double* partial(int64_t count);
    bmrm::NextLaunch pass() const;
    bmrm::NextLaunch launch_for(int64_t count) const;
    void upload_entries(const bb_walk_terms& given);
    // Adds up the sums of the last pass; kinds of sums, per column; otherwise as for Peers::finish.
    void finish(int count, double* keep, int keeps, bmrm::Mailbox* box, const bmrm::Shared& vector = {},
                const double* more = nullptr, int mores = 0, bool early = false);
    // The messages of all nodes that a product reads, and those that a pass writes, of own nodes.
    const float* messages() const;
    float* next_messages() const;
    bmrm::Copies next_copies() const;
    // What is to be sent of them.
    bmrm::Shared shared_messages() const;
    void send(const bb_light_step& step);
    // Queues the product of the messages of all nodes.
    void multiply();
    // Queues that of messages in float64.
    void multiply_exactly();
    void queue(const bb_light_step& step, Vector& to, bmrm::Mailbox& box);
    void forget_ahead();
    Leaders leaders(int32_t number, const int32_t* columns, int32_t wanted, int64_t count);
    void top_of_column(int32_t number, int32_t column, int64_t count, int64_t* numbers, double* values);

    const int64_t n_;
    const int32_t columns_;
    bmrm::WalkTerms terms_ = {};
    bmrm::Array<double> v_, u_, shares_;
    bmrm::Array<uint32_t> rows_;
    bmrm::Array<int64_t> keys_;
    bmrm::Array<double> base_;
    Vector correction_;  // the residual of the base, once it is known
    std::vector<Vector> slots_;
    bmrm::Array<float> messages_;  // unless they are in the window
    bmrm::Array<float> product_, rest_product_;
    bmrm::Array<double> exact_messages_, exact_product_;
    bmrm::Array<double> partial_, lost_, point_;  // lost_: of the point of the next light step, per column
    int32_t sent_ = kNoSlot;                      // slot of the image whose messages and sums are there
    Ahead ahead_;
    std::unique_ptr<bmrm::WalkMail> mail_;
    int turn_ = 0;  // which box of light steps is the newest
};
