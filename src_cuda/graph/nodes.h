// What walks on a graph share: the matrix P' in two types, what is known of each node, and the other ranks.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "api/graph.h"
#include "graph/numbering.h"
#include "graph/peers.h"
#include "matrix/handle.h"
#include "runtime/mailbox.h"

namespace bmrm {

// Where walks get their sums: of light steps, in turn, and of all else.
struct WalkMail {
    Mailbox steps[2], answers;
};

}  // namespace bmrm

struct bb_nodes {
    bb_nodes(const bb_transitions& matrices, const uint32_t* from_lengths, const double* from_scale,
             const uint32_t* from_places, const uint32_t* all_places, const bb_graph_ranks* ranks);

    // The matrix whose lock, memory and stream walks use.
    bb_matrix* main() const { return light ? light : exact; }

    // Pinned memory is slow to allocate: walks take what others have given back, when nothing is on its way.
    std::unique_ptr<bmrm::WalkMail> take_mail();
    void give_mail(std::unique_ptr<bmrm::WalkMail> mail) { idle_mail_.push_back(std::move(mail)); }

    bb_matrix *const light, *const rest, *const exact;
    const bool rest_overlaps;  // whether a product with `rest` may begin early, but for an exchange before it
    const int64_t n;
    bmrm::Peers peers;
    bmrm::Array<uint32_t> lengths;
    bmrm::Array<double> scale;
    bmrm::Array<float> light_scale;
    const bmrm::Numbering numbering;  // of all nodes

    // The place of each own number among own ones; null if they are equal.
    const uint32_t* places() const { return peers.alone() ? numbering.places() : own_places_.data(); }

  private:
    bmrm::Array<uint32_t> own_places_;  // of one of several ranks
    std::vector<std::unique_ptr<bmrm::WalkMail>> idle_mail_;
};
