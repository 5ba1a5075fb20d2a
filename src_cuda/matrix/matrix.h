// The resident matrix of a handle: blocks of consecutive rows, most often one.
//
// There are several blocks if X has more nonzeros than the kernels' indices can hold, if it can be prepared
// only in parts, or if it does not fit on the device.  Each block then has formats of its own, and those that
// do not fit stream from pinned host memory (streamed.h).  X w writes the outputs of each block; X' r adds up
// those of the blocks in order, in double, wherever they are stored.  The CPU may compute the products of the
// last blocks that stream, at the same time (host_rows.h).
#pragma once
#include <unistd.h>

#include <memory>
#include <mutex>
#include <vector>

#include "matrix/bridge.h"
#include "matrix/host_rows.h"
#include "matrix/row_block.h"
#include "matrix/streamed.h"

struct bb_matrix {
    bb_matrix(const bb_device& device, int64_t rows, int64_t cols, bb_type type, const bb_options& options,
              int64_t limit, int64_t room, int threads);

    const bb_device device;
    const pid_t process = getpid();
    std::recursive_mutex lock;
    bmrm::Memory memory;  // declared before everything that is freed into it
    const bb_type type;
    const bb_options options;
    bmrm::Bridge bridge;
    bool finished = false;
    double prepare_seconds = 0;
    bmrm::Array<double> squares;  // sum of squares per column; 0 without a transpose
    // Sum of squares per row, for a sparse X with a transpose and few rows for its columns; otherwise empty.
    bmrm::Array<double> row_squares;

    int64_t rows() const { return rows_; }
    int64_t cols() const { return cols_; }
    int64_t outputs(bb_operator op) const { return op == BB_NORMAL ? rows_ : cols_; }
    int64_t inputs(bb_operator op) const { return op == BB_NORMAL ? cols_ : rows_; }
    int64_t vector_bytes() const { return bmrm::bytes_of(type); }

    // Opens a block of rows, which `append` fills; prepares the one before.
    void open(int64_t rows, int64_t nnz, bool ones);
    void open_dense(int64_t rows, const void* values);
    void append(int64_t rows, const int64_t* indptr, const void* indices, int index_bytes,
                const void* values);
    void finish();
    // Lets the CPU compute the products of the last `count` blocks that stream.
    void keep_on_host(int count, const bb_host_rows& rows);

    void apply(bb_operator op, const void* x, void* y, int columns);
    // Throws if the CPU had no room for its part of a product that has ended.
    void check_products() const {
        if (host_rows_) host_rows_->check();
    }
    void apply_blocks(const void* r, const int64_t* starts, int blocks, void* y);
    // X' diag(s) X of a dense X, on the host.
    void weighted_gram(const double* s, double* gram);
    double time(bb_operator op, int columns, int repeats);
    // The rows of a dense X that is one block on the device; otherwise null.
    const void* dense_values() const {
        const PlacedBlock& first = *placed_.front();
        return placed_.size() > 1 || first.streams ? nullptr : first.block.dense_values();
    }

    // The compressed rows of a sparse X, rebuilt by the first call; they stay as long as X does.
    const bmrm::Csr& compressed_rows();

    const bmrm::Operator& of(bb_operator op) const { return placed_.front()->block.of(op); }
    bb_coding coding() const;
    int64_t host_bytes() const;
    int64_t left_bytes() const;  // left for vectors and cuts
    std::vector<bb_block> blocks() const;

  private:
    struct PlacedBlock {
        template <class... Arguments>
        explicit PlacedBlock(int64_t first, Arguments&&... arguments) : first(first), block(arguments...) {}
        int64_t first;  // first row
        bmrm::RowBlock block;
        bmrm::Packed packed[bmrm::RowBlock::kStorages];
        bool streams = false, on_host = false;
        int area = 0;

        int64_t end() const { return first + block.rows(); }
        int64_t bytes();  // of its storages, on the device
    };

    void close();
    double* last_row_squares();
    void expect_rows(int64_t rows) const;
    void make_room(int64_t bytes);
    bool pack_last();
    void pack(PlacedBlock& placed);
    int64_t area_bytes() const;
    void settle();
    template <class StorageOf, class Work>
    void for_copied(size_t copied, StorageOf&& storage_of, Work&& work);
    template <class StorageOf, class Work, class HostWork>
    void for_blocks(StorageOf&& storage_of, Work&& work, HostWork&& host_work);
    template <class Product>
    void fold(const Product* product, int64_t count, bool first, bool last, void* out);

    const int64_t rows_, cols_;
    const int64_t room_;  // bytes that X may take
    bool open_ = false;
    bmrm::Uploader uploader_;
    bmrm::Scratch scratch_;
    std::vector<std::unique_ptr<PlacedBlock>> placed_;
    std::vector<PlacedBlock*> streamed_;
    size_t on_host_ = 0;  // how many of these, the last ones, are the CPU's
    bmrm::Staging staging_;
    bmrm::Array<unsigned char> block_product_;  // X' r of a block
    bmrm::Array<double> sum_;                   // sum of these so far
    std::unique_ptr<bmrm::Csr> rebuilt_;
    std::shared_ptr<void> blas_;  // handle of cuBLAS, once it is needed
    std::unique_ptr<bmrm::HostRows> host_rows_;
};
