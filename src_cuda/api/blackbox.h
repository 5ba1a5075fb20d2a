// The C interface of the CUDA blackbox: a matrix that stays on a GPU, and its products.
//
// A function that returns a bb_status returns BB_OK, or the kind of the failure; bb_last_error() then has the
// text.  If it fails, its outputs are undefined, and what it had allocated is freed.  No exception crosses
// this interface.  A handle may be used from several threads: each call takes its lock.  Products are
// bit-identical from run to run on one device: no sum uses atomics.
//
// An *operator* is one of the two products of a matrix X of (rows, cols): BB_NORMAL y = X x, and
// BB_TRANSPOSED y = X' x.  Each has its own storage, statistics and kernel.  The rows of an operator are its
// outputs, its columns its inputs.  A *plan* names a kernel and its parameters.
//
// An array on the host may be pageable or pinned memory.  "On the device" means on the device of the matrix.
// "Either" means any address that the device or the host can read.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BB_API __attribute__((visibility("hidden")))

typedef struct bb_matrix bb_matrix;

typedef enum {
    BB_OK = 0,
    BB_INVALID,    // an argument or the matrix is not what the call expects
    BB_NO_DEVICE,  // no driver, no device, or one that is too old
    BB_NO_CODE,    // this build has no code for the device; the text says for what it has
    BB_MEMORY,     // too little device memory or pinned host memory; the text has the sizes
    BB_CUDA,       // any other CUDA failure; the text names the call that failed
    BB_FORKED      // the process was forked after its first use of the device
} bb_status;

typedef enum { BB_FLOAT32 = 0, BB_FLOAT64 = 1 } bb_type;
typedef enum { BB_NORMAL = 0, BB_TRANSPOSED = 1 } bb_operator;

// How values are stored: as they are, not at all (every value is 1), or as one-byte codes of at most 256
// distinct values.
typedef enum { BB_PLAIN = 0, BB_ONES = 1, BB_DICTIONARY = 2 } bb_coding;

typedef struct {
    int32_t kernel;  // number (bb_kernel_name)
    int32_t lanes;   // subwarp: threads per row, 2 to 32
    int32_t cap;     // sliced kernels: maximum number of nonzeros per thread and fragment (8, 16, 32, 64)
    int32_t tiles;   // hot: tiles in shared memory
    int64_t tile;    // tiled, hot, binned: columns per tile
} bb_plan;

typedef struct {
    int32_t id;
    int32_t major, minor;  // compute capability
    int32_t multiprocessors;
    int64_t shared_per_block;           // bytes
    int64_t shared_per_multiprocessor;  // bytes
    int64_t l2_bytes;
    int64_t total_bytes;  // of device memory
    int64_t free_bytes;
    char name[128];
} bb_device;

// What the prediction needs of a device besides its data sheet; measured once, kept by the caller.
typedef struct {
    double launch;         // seconds from one small kernel to the next on a stream
    double copy;           // bytes/s of a device-to-device copy; bytes read and bytes written both count
    double read;           // bytes/s of a kernel that only reads
    double gather_shared;  // gathers/s from shared memory, all multiprocessors together, random columns
    double gather_l2;      // gathers/s of 4 bytes, random, from a vector that fits in L2
    double gather_memory;  // gathers/s of 4 bytes, random, from a vector far larger than L2
    double fill_shared;    // bytes/s at which all multiprocessors fill their shared memory from one vector
} bb_constants;

enum {
    BB_LENGTH_BINS = 200,  // bins of row lengths
    BB_SPREADS = 22,       // sizes of column groups of which fragments are counted
    BB_SPREAD_FIRST = 3,   // log2 of the first of these sizes
    BB_TOPS = 32           // numbers of popular columns whose nonzeros are counted
};

// Statistics of one operator.  Row lengths 0 to 64 have a bin each, longer ones four per octave
// (choice/length_bin.h).
typedef struct {
    int64_t rows, cols, nnz;
    int64_t empty_rows;
    int64_t longest;                      // maximum number of nonzeros of a row
    int64_t length_rows[BB_LENGTH_BINS];  // rows by number of nonzeros
    int64_t length_nnz[BB_LENGTH_BINS];   // nonzeros of these rows
    int64_t fragments[BB_SPREADS];        // pairs (row, group of 2^(k+3) neighbouring columns) with a nonzero
    int64_t top_nnz[BB_TOPS];             // nonzeros in the 2^k most popular columns
    int32_t value_bytes;                  // stored bytes per value: 0, 1, 4 or 8
    int32_t vector_bytes;                 // bytes of an input or output: 4 or 8
    int32_t repeated;                     // 1 if a row has a column twice
} bb_stats;

typedef struct {
    bb_plan plan;
    double predicted;  // seconds per product
    double measured;   // seconds per product; 0 if it was not timed
    int64_t bytes;     // of the format, which each product reads; 0 if it was not built
} bb_candidate;

typedef enum {
    BB_TUNE_PREDICT = 0,  // trust the prediction
    BB_TUNE_BEST,         // time the best few
    BB_TUNE_ALL,          // time every candidate
    BB_TUNE_BUS,          // trust the prediction for formats that cross the bus for each product
    BB_TUNE_COLD          // as BB_TUNE_BEST, for products between which other work fills the caches
} bb_tuning;

typedef struct {
    int32_t tuning;          // bb_tuning
    int32_t transpose;       // 0: BB_NORMAL only
    int32_t coding;          // 1: look for ones and dictionaries; 0: store values as they are
    int32_t forced;          // 1: use plan[op] and nothing else
    int32_t finite;          // 1: refuse values that are not finite
    bb_plan plan[2];         // forced plans, by operator
    bb_constants constants;  // from bb_measure
} bb_options;

// A block of consecutive rows of a matrix, prepared on its own.
typedef struct {
    int64_t first, rows, nnz;
    int64_t bytes;      // of its formats, on the device or in a staging area
    int64_t copied[2];  // bytes that a product copies from pinned host memory, by operator; 0 if resident
    bb_plan plan[2];    // by operator
    int32_t streams;    // 1 if it is in pinned host memory
    int32_t on_host;    // 1 if the CPU computes its products (bb_keep_on_host)
    const void* dense;  // its dense rows there, until bb_destroy; NULL if it is resident, or sparse
} bb_block;

// What computes the products of rows that stay on the host, with vectors of doubles there.
typedef struct {
    void* matrices;
    // y = X x, or y[p] = X_p' x_p for blocks of the rows, p from 0 to blocks - 1; x and y have `columns`
    // elements per row.  Returns 0, or 1 if memory is full.  Called by a thread of the driver.
    int32_t (*product)(void* matrices, bb_operator op, int32_t columns, const int64_t* starts, int32_t blocks,
                       const double* x, double* y);
} bb_host_rows;

typedef struct {
    int64_t device_bytes;  // in use
    int64_t peak_bytes;    // maximum in use at any time
    int64_t host_bytes;    // of pinned host memory
    int64_t left_bytes;    // left of the memory limit, or free
    double prepare_seconds;
    int32_t coding;  // bb_coding; BB_PLAIN if blocks differ
    int32_t blocks;  // of rows
} bb_info;

// Milliseconds of one bridged product, by part (thesis Fig. 5.2).
typedef struct {
    double convert_in, upload, product, download, convert_out;
} bb_times;

// Returns the text of the last failure in the calling thread; valid until the next one.
BB_API const char* bb_last_error(void);

// --- devices

// count: is set to the number of devices.
BB_API bb_status bb_device_count(int32_t* count);
// id: of the device, from 0; info: is set to its properties.
BB_API bb_status bb_device_info(int32_t id, bb_device* info);
// Returns the number of architectures that were compiled for.
// architectures: gets the first `capacity` of them, ten times the compute capability.
BB_API int32_t bb_built_for(int32_t* architectures, int32_t capacity);
// Measures a device, which takes a fraction of a second.
// id: of the device, from 0; constants: is set to its rates.
BB_API bb_status bb_measure(int32_t id, bb_constants* constants);

// --- statistics and choice: host code, no device needed

// Counts the statistics of the product with a sparse matrix on the host.
// indptr: rows + 1 offsets from 0; indices: indptr[rows] columns, from 0 to cols - 1 (neither is checked);
// value_bytes: 0, 1, 4 or 8, stored per value; vector_bytes: 4 or 8, per vector element; stats: is set.
BB_API bb_status bb_statistics_host(const int64_t* indptr, const int32_t* indices, int64_t rows, int64_t cols,
                                    int32_t value_bytes, int32_t vector_bytes, bb_stats* stats);
// Returns the name of a kernel by its number, from 0; NULL past the last one.
BB_API const char* bb_kernel_name(int32_t kernel);
// Lists the plans that are worth considering for an operator.
// plans: room for `capacity` of them.  Returns the number of plans, which may be above the capacity.
BB_API int32_t bb_candidates(const bb_device* device, const bb_stats* stats, bb_plan* plans,
                             int32_t capacity);
// Each of the next three returns bytes for a sparse matrix of (rows, cols) with nnz nonzeros of value_bytes
// bytes each (0 if all are 1), with its transpose if `transpose` is 1:
// the maximum that it takes on the device when it is ready;
BB_API int64_t bb_predict_bytes(int64_t rows, int64_t cols, int64_t nnz, int32_t value_bytes,
                                int32_t transpose);
// the maximum that its preparation takes at any time;
BB_API int64_t bb_prepare_bytes(int64_t rows, int64_t cols, int64_t nnz, int32_t value_bytes,
                                int32_t transpose);
// and what formats with two-byte indices would take.
BB_API int64_t bb_format_bytes(int64_t rows, int64_t cols, int64_t nnz, int32_t value_bytes,
                               int32_t transpose);

// --- building a matrix: bb_create; per block of rows bb_open and then bb_append until it is full, or
// bb_open_dense; bb_finish.  Each block is prepared on its own; those that do not fit on the device stream
// from pinned host memory.

// Finds the device memory that X may take.
// memory_limit: maximum bytes of device memory for the matrix and all that is kept with it, 0 for what is
// free; spare: bytes of these to leave for vectors and cuts; room: is set to the rest.
BB_API bb_status bb_room(int32_t device, int64_t memory_limit, int64_t spare, int64_t* room);
// Creates an empty matrix of (rows, cols).
// type: of its values and vectors; options: how to choose kernels, copied; memory_limit: as for bb_room,
// holds for all later calls; room: bytes that X may take, as bb_room finds them; threads: of the host, for
// the upload and the bridge; out: is set to the matrix, which bb_destroy frees.
BB_API bb_status bb_create(int32_t device, int64_t rows, int64_t cols, bb_type type,
                           const bb_options* options, int64_t memory_limit, int64_t room, int32_t threads,
                           bb_matrix** out);
// Opens the next block of sparse rows, and prepares the one before.
// rows, nnz: of the block, which bb_append must fill exactly; ones: 1 if values will be NULL.
BB_API bb_status bb_open(bb_matrix* matrix, int64_t rows, int64_t nnz, int32_t ones);
// Adds a block of dense rows.
// values: (rows, cols) of the matrix's type, row-major, either.
BB_API bb_status bb_open_dense(bb_matrix* matrix, int64_t rows, const void* values);
// Appends rows to the open block.
// indptr: rows + 1 offsets whose differences are the lengths of these rows; indices: columns, which start at
// offset indptr[0]; index_bytes: 4 or 8, per index; values: of the matrix's type, start likewise, NULL for
// ones.  The arrays are either, and may be freed when the call returns.
BB_API bb_status bb_append(bb_matrix* matrix, int64_t rows, const int64_t* indptr, const void* indices,
                           int32_t index_bytes, const void* values);
// Prepares the last block; products may be called from then on.
BB_API bb_status bb_finish(bb_matrix* matrix);
// Lets the CPU compute the products of some blocks of a finished matrix while the device works on the others.
// count: of the last blocks that stream, which are consecutive; rows: all rows of these, copied, outlives the
// matrix.  Sparse ones are freed here.
BB_API bb_status bb_keep_on_host(bb_matrix* matrix, int32_t count, const bb_host_rows* rows);
// Frees a matrix; NULL is allowed.
BB_API void bb_destroy(bb_matrix* matrix);

// --- properties; statistics and candidates are those of the first block, whose plans the others follow

// stats: is set to the statistics of an operator.
BB_API bb_status bb_get_stats(bb_matrix* matrix, bb_operator op, bb_stats* stats);
// list: room for `capacity` candidates; count: is set to their number, which may be above the capacity;
// chosen: is set to the position of the chosen one, -1 if the matrix has no such operator.
BB_API bb_status bb_get_candidates(bb_matrix* matrix, bb_operator op, bb_candidate* list, int32_t capacity,
                                   int32_t* count, int32_t* chosen);
// list: room for `capacity` blocks; bb_get_info has their number.
BB_API bb_status bb_get_blocks(bb_matrix* matrix, bb_block* list, int32_t capacity);
// info: is set to memory, times and the number of blocks.
BB_API bb_status bb_get_info(bb_matrix* matrix, bb_info* info);
// squares: cols doubles on the host, set to the sum of squares of each column; 0 for a sparse matrix without
// its transpose.
BB_API bb_status bb_get_squares(bb_matrix* matrix, double* squares);
// values: is set to where the rows of a dense X are on the device, (rows, cols) of its type, until
// bb_destroy; null if X is sparse, or in several blocks.
BB_API bb_status bb_get_dense(bb_matrix* matrix, const void** values);
// Rebuilds the compressed rows of a sparse X on its device, by the first call: they stay as long as the
// matrix. starts: is set to rows + 1 offsets; columns: to those of the nonzeros, ascending in each row;
// values: to theirs, or NULL if all are 1.
BB_API bb_status bb_get_rows(bb_matrix* matrix, const int64_t** starts, const uint32_t** columns,
                             const void** values);

// --- X' diag(s) X of a dense X, in float64, by cuBLAS

// Loads cuBLAS.
// library: a name or a path for dlopen.
BB_API bb_status bb_blas_load(const char* library);
// s: rows doubles on the host, all at least 0; gram: (cols, cols) doubles on the host, set to the product.
BB_API bb_status bb_weighted_gram(bb_matrix* matrix, const double* s, double* gram);

// --- products with vectors on the device, asynchronous on the stream of the matrix

// y = X x or y = X' x, in the matrix's type.
// columns: of x and y, at least 1; both are row-major with `columns` elements per row.
BB_API bb_status bb_apply(bb_matrix* matrix, bb_operator op, const void* x, void* y, int32_t columns);
// The same for one vector of doubles, whatever the matrix's type; a float32 matrix converts on the device.
BB_API bb_status bb_apply_wide(bb_matrix* matrix, bb_operator op, const double* x, double* y);
// Waits for all work on the stream of the matrix.
BB_API bb_status bb_synchronize(bb_matrix* matrix);
// stream: is set to the cudaStream_t on which the matrix works.
BB_API bb_status bb_get_stream(bb_matrix* matrix, void** stream);
// Makes the matrix work on a stream of the caller's, to capture it or to share it.
// stream: a cudaStream_t that outlives the matrix or the next call of this function.
BB_API bb_status bb_set_stream(bb_matrix* matrix, void* stream);

// --- the bridge: products with vectors of doubles on the host; y is complete when the call returns

// As bb_apply.
BB_API bb_status bb_apply_host(bb_matrix* matrix, bb_operator op, const double* x, double* y,
                               int32_t columns);
// y[p] = X_p' r_p for consecutive blocks of rows.
// r: rows doubles; starts: blocks + 1 first rows, the last one past the end; y: (blocks, cols).
BB_API bb_status bb_apply_blocks_host(bb_matrix* matrix, const double* r, const int64_t* starts,
                                      int32_t blocks, double* y);
// times: is set to those of the last call of the two above; all 0 before the first.
BB_API bb_status bb_last_times(bb_matrix* matrix, bb_times* times);

// --- copies, and timing

// Copies bytes between any two addresses, either, and waits.
BB_API bb_status bb_copy(int32_t device, void* to, const void* from, int64_t bytes);
// Copies every `step`-th element of an array on the device to the host, and waits.
// from: the first element; count: the number of elements copied; bytes: of an element; to: where they go.
BB_API bb_status bb_copy_steps(int32_t device, const void* from, int64_t step, int64_t count, int32_t bytes,
                               void* to);
// Times a product with vectors on the device, by replaying a graph of `repeats` products between two events.
// columns: of its vectors; seconds: is set to those per product.
BB_API bb_status bb_time(bb_matrix* matrix, bb_operator op, int32_t columns, int32_t repeats,
                         double* seconds);

#ifdef __cplusplus
}
#endif
