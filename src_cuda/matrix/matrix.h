// The resident matrix behind a handle: blocks of consecutive rows, most often one.
//
// There are several where X has more nonzeros than the kernels' indices hold, where it can be prepared only
// in parts, or where it finds no room: each block then has formats of its own, and those that do not fit
// stream from pinned host memory (streamed.h).  X w writes the outputs of each block; X' r adds up those of
// the blocks in their order, in double, whatever lies where.
#pragma once
#include <unistd.h>

#include <memory>
#include <mutex>
#include <vector>

#include "matrix/bridge.h"
#include "matrix/row_block.h"
#include "matrix/streamed.h"

struct bb_matrix {
    bb_matrix(const bb_device& device, int64_t rows, int64_t cols, bb_type type, const bb_options& options,
              int64_t limit, int64_t room, int threads);

    const bb_device device;
    const pid_t process = getpid();
    std::recursive_mutex lock;
    bmrm::Memory memory;  // before everything that is freed into it
    const bb_type type;
    const bb_options options;
    bmrm::Bridge bridge;
    bool finished = false;
    double prepare_seconds = 0;
    bmrm::Array<double> squares;  // of each column, summed; 0 without a transpose
    // Of each row, where it is sparse, has a transpose, and few rows for its columns; else empty.
    bmrm::Array<double> row_squares;

    int64_t rows() const { return rows_; }
    int64_t cols() const { return cols_; }
    int64_t outputs(bb_operator op) const { return op == BB_NORMAL ? rows_ : cols_; }
    int64_t inputs(bb_operator op) const { return op == BB_NORMAL ? cols_ : rows_; }
    int64_t vector_bytes() const { return type == BB_FLOAT64 ? 8 : 4; }

    // A block of rows, which `append` fills; the one before is prepared.
    void open(int64_t rows, int64_t nnz, bool ones);
    void open_dense(int64_t rows, const void* values);
    void append(int64_t rows, const int64_t* indptr, const void* indices, int index_bytes,
                const void* values);
    void finish();

    void apply(bb_operator op, const void* x, void* y, int columns);
    void apply_blocks(const void* r, const int64_t* starts, int blocks, void* y);
    // X' diag(s) X of a dense X, on the host.
    void weighted_gram(const double* s, double* gram);
    double time(bb_operator op, int columns, int repeats);

    const bmrm::Operator& of(bb_operator op) const { return parts_.front()->block.of(op); }
    bb_coding coding() const;
    int64_t host_bytes() const;
    int64_t left_bytes() const;  // that vectors and cuts may still take
    std::vector<bb_block> blocks() const;

  private:
    struct Part {
        template <class... Arguments>
        explicit Part(int64_t first, Arguments&&... arguments) : first(first), block(arguments...) {}
        int64_t first;  // row
        bmrm::RowBlock block;
        bmrm::Packed packed[bmrm::RowBlock::kStorages];
        bool streams = false;
        int area = 0;

        int64_t end() const { return first + block.rows(); }
        int64_t bytes();  // that its storages take on the device
    };

    void close();
    double* last_row_squares();
    void expect_rows(int64_t rows) const;
    void make_room(int64_t bytes);
    bool pack_last();
    void pack(Part& part);
    int64_t area_bytes() const;
    void settle();
    template <class StorageOf, class Work>
    void over_parts(StorageOf&& storage_of, Work&& work);
    template <class T>
    void fold(const void* part, int64_t count, bool first, bool last, void* out);
    void fold(const void* part, int64_t count, bool first, bool last, void* out);

    const int64_t rows_, cols_;
    const int64_t room_;  // bytes that X may take
    bool open_ = false;
    bmrm::Uploader uploader_;
    bmrm::Scratch scratch_;
    std::vector<std::unique_ptr<Part>> parts_;
    std::vector<Part*> streamed_;
    bmrm::Staging staging_;
    bmrm::Array<unsigned char> part_sum_;  // X' r of a block
    bmrm::Array<double> sum_;              // and of those so far
    std::shared_ptr<void> blas_;           // cuBLAS's handle, once it was wanted
};
