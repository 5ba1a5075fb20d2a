// A block of consecutive rows of the resident matrix: both operators with the kernels chosen for them, or
// dense rows. Most matrices are one block.
#pragma once
#include <vector>

#include "formats/csr.h"
#include "formats/dense.h"
#include "formats/narrow.h"
#include "formats/prepare.h"

namespace bmrm {

// One operator: its statistics, the candidates, and the one chosen.
struct Operator {
    bb_stats stats = {};
    std::vector<bb_candidate> candidates;
    int chosen = -1;
    std::unique_ptr<Product> product;  // null if the storage is another

    const bb_plan& plan() const { return candidates[size_t(chosen)].plan; }
};

// Working memory of products of several columns, which the blocks of a matrix share.
struct Scratch {
    Array<unsigned char> input, output, partial;
};

class RowBlock {
  public:
    // Room for the compressed rows that are appended next.
    RowBlock(Memory& memory, const bb_device& device, Scratch& scratch, int64_t rows, int64_t cols,
             int64_t nnz, bb_type type, bool ones);
    // Dense rows.
    RowBlock(Memory& memory, const bb_device& device, Scratch& scratch, int64_t rows, int64_t cols,
             bb_type type, Uploader& uploader, const void* values, bool finite);

    RowBlock(const RowBlock&) = delete;  // its products refer to its rows and its coding
    RowBlock& operator=(const RowBlock&) = delete;

    void append(Uploader& uploader, int64_t rows, const int64_t* indptr, const void* indices, int index_bytes,
                const void* values);
    // Prepares the appended rows.  `like`: a block of the same matrix whose plans this one uses if they suit,
    // or null. With a transpose, the squares of each column are added to those at `squares`, and those of
    // each row to `row_squares`, unless it is null.
    void finish(const bb_options& options, const RowBlock* like, double* squares, double* row_squares);
    // Appends the rows, rebuilt from what X w reads, to others; with values, unless `to` has none.
    void append_to(Csr& to, int64_t filled_rows, int64_t filled) const;
    // Returns the bytes that this takes besides.
    int64_t append_bytes(int value_bytes) const;
    void add_dense_squares(double* squares) { dense_.add_squares(squares); }

    void scale_rows_to(const double* s, int64_t first, int64_t count, double* to) {
        dense_.scale_rows_to(s, first, count, to);
    }
    const void* dense_values() const { return dense_.values(); }
    void apply(bb_operator op, const void* x, void* y, int columns);
    void apply_blocks(const void* r, const int64_t* starts, int blocks, void* y);
    void release() { dense_.release(); }

    int64_t rows() const { return csr_[0].rows; }
    int64_t cols() const { return csr_[0].cols; }
    int64_t nnz() const { return operators_[0].stats.nnz; }
    const Operator& of(bb_operator op) const { return operators_[op]; }
    bb_coding coding() const { return coding_.coding; }

    // What the products read is in up to three storages: one per operator, and the narrow format, which both
    // can use.
    static constexpr int kStorages = 3;
    int storage_of(bb_operator op) const {
        return dense_ ? 0 : operators_[op].plan().kernel == BB_NARROW ? 2 : int(op);
    }
    // Calls f(array, whether products write it) for all arrays that the products from a storage use.
    template <class F>
    void each_array(int storage, F&& f) {
        if (storage == 2) {
            if (narrow_) narrow_->each_array(f);
        } else if (!dense_) {
            csr_[storage].each_array(f);
            if (operators_[storage].product) operators_[storage].product->each_array(f);
        } else if (storage == 0) {
            dense_.each_array(f);
        }
    }

  private:
    // The format from which X w is computed.
    Product& normal() const {
        return storage_of(BB_NORMAL) == 2 ? narrow_->rows() : *operators_[BB_NORMAL].product;
    }
    int64_t outputs(bb_operator op) const { return op == BB_NORMAL ? rows() : cols(); }
    enum class Timing { kNone, kWarm, kCold };  // cold: with something else in the caches

    int64_t inputs(bb_operator op) const { return op == BB_NORMAL ? cols() : rows(); }
    void apply_one(bb_operator op, const void* x, void* y);
    void apply_by(bb_operator op, const bb_plan& plan, Product* product, const void* x, void* y);
    double time_of(bb_operator op, const bb_plan& plan, Product* product, bool cold);
    bool follow(bb_operator op, const bb_options& options, const RowBlock& like);
    void choose(bb_operator op, const bb_options& options);
    double predicted_seconds(bb_operator op, const bb_options& options, const bb_plan& plan) const;
    double try_plan(bb_operator op, const bb_plan& plan, Timing timing, bb_candidate& candidate,
                    std::unique_ptr<Product>& product);

    Memory& memory_;
    const bb_device& device_;
    Scratch& scratch_;
    Csr csr_[2];
    ValueArray coding_;
    int64_t filled_rows_ = 0, filled_ = 0;
    Operator operators_[2];
    std::unique_ptr<Narrow> narrow_;  // if an operator's plan is BB_NARROW
    Dense dense_;
    Popularity columns_[2];
};

}  // namespace bmrm
