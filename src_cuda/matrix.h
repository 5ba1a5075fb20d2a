// The resident matrix behind a handle: both operators with what was chosen for them, or a dense one.
#pragma once
#include <unistd.h>

#include <mutex>
#include <vector>

#include "bridge.h"
#include "csr.h"
#include "dense.h"
#include "prepare.h"
#include "products.h"

// One operator: statistics, what was considered, what was taken.
struct bb_operator_state {
    bb_stats stats = {};
    std::vector<bb_candidate> candidates;
    int chosen = -1;
    bmrm::Product product;

    const bb_plan& plan() const { return candidates[size_t(chosen)].plan; }
};

struct bb_matrix {
    explicit bb_matrix(const bb_device& device) : device(device), memory(device.id) {}

    const bb_device device;
    const pid_t process = getpid();
    std::recursive_mutex lock;
    bmrm::Memory memory;  // before everything that is freed into it
    bmrm::Csr csr[2];
    bmrm::ValueArray coding;
    int64_t filled_rows = 0, filled = 0;
    int index_bytes = 4;
    bool finished = false;
    bb_operator_state state[2];
    bmrm::Product narrow_rows;  // the narrow format of X, where an operator's plan is BB_NARROW
    bmrm::Narrow narrow;
    bmrm::Dense dense;
    bmrm::Bridge bridge;
    bmrm::Array<unsigned char> block_input, block_output;
    double prepare_seconds = 0;

    int64_t rows() const { return state[0].stats.rows; }
    int64_t cols() const { return state[0].stats.cols; }
    int64_t outputs(bb_operator op) const { return op == BB_NORMAL ? rows() : cols(); }
    int64_t inputs(bb_operator op) const { return op == BB_NORMAL ? cols() : rows(); }

    void finish(const bb_options& options);
    void apply(bb_operator op, const void* x, void* y, int columns);
    void apply_blocks(const void* r, const int64_t* starts, int blocks, void* y);
    void fused(int loss, double parameter, double scale, const void* w, const double* labels,
               const double* weights, void* margins, void* gradient, double* risk);
    bool can_fuse() const { return dense ? dense.can_fuse() : bool(narrow); }
    double time(bb_operator op, int columns, int repeats);

  private:
    void apply_one(bb_operator op, const void* x, void* y);
    void apply_by(bb_operator op, const bb_plan& plan, bmrm::Product& product, const void* x, void* y);
    template <class Launch>
    double time_of(bb_operator op, int columns, int repeats, Launch&& launch);
    void choose(bb_operator op, const bb_options& options);
    double try_plan(bb_operator op, const bb_plan& plan, const bmrm::Array<uint32_t>* order, bool timed,
                    bb_candidate& candidate, bmrm::Product& product);
    bmrm::Popularity columns_[2];
};
