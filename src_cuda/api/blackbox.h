// The C interface of the CUDA blackbox: a matrix that stays on a device, and its products.
//
// Every call returns a status; the text of the last failure in the calling thread is bb_last_error().
// No exception crosses this interface.  A handle may be used from several threads: each call takes its lock.
// Products are bit-identical from run to run on one device: no sum is made by atomics.
//
// Words used throughout.  An *operator* is one of the two products of a resident matrix: BB_NORMAL y = X w
// and BB_TRANSPOSED g = X' r; each has its own storage, statistics and kernel, chosen for it.  The operator's
// rows are its outputs, its columns its inputs.  A *plan* names a kernel and its parameters.
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
    BB_NO_DEVICE,  // no driver, no device, or one too old
    BB_MEMORY,     // the device (or pinned host memory) has too little room; the text has the sizes
    BB_CUDA,       // any other CUDA failure; the text has the failing call
    BB_FORKED      // the process was forked after its first use of the device
} bb_status;

typedef enum { BB_FLOAT32 = 0, BB_FLOAT64 = 1 } bb_type;
typedef enum { BB_NORMAL = 0, BB_TRANSPOSED = 1 } bb_operator;

// How values are kept: as they are, not at all (every one is 1), or as one-byte codes of at most 256 distinct
// ones.
typedef enum { BB_PLAIN = 0, BB_ONES = 1, BB_DICTIONARY = 2 } bb_coding;

typedef enum {
    BB_SUBWARP = 0,  // compressed rows, `lanes` threads a row
    BB_SPLIT,        // compressed rows, equal shares of nonzeros whatever the rows
    BB_SLICED,       // slices of rows of like length; inputs gathered from global memory
    BB_TILED,        // slices within tiles of `tile` columns whose inputs sit in shared memory
    BB_HOT,          // columns by popularity: `tiles` tiles in shared memory, the rest gathered
    BB_BINNED,       // tiles of `tile` columns in shared memory, then regions of as many products
    BB_NARROW,       // few columns: one format for both products
    BB_DENSE,        // row-major dense
    BB_KERNELS
} bb_kernel;

typedef struct {
    int32_t kernel;
    int32_t lanes;  // BB_SUBWARP: 2 to 32
    int32_t cap;    // sliced kinds: most nonzeros of a fragment that one thread takes (8, 16, 32, 64)
    int32_t tiles;  // BB_HOT: tiles in shared memory
    int64_t tile;   // BB_TILED, BB_HOT: columns a tile
} bb_plan;

typedef struct {
    int32_t id, major, minor, multiprocessors;
    int64_t shared_per_block, shared_per_multiprocessor, l2_bytes, total_bytes, free_bytes;
    char name[128];
} bb_device;

// What the prediction knows of a device beyond its data sheet; measured once, kept by the caller.
typedef struct {
    double launch;         // seconds from one small kernel to the next on a stream
    double copy;           // bytes/s of a device-to-device copy, read and written bytes both counted
    double read;           // bytes/s of a kernel that only reads
    double gather_shared;  // gathers/s from shared memory, all multiprocessors together, random columns
    double gather_l2;      // gathers/s of 4 bytes, random, from a vector that fits in L2
    double gather_memory;  // gathers/s of 4 bytes, random, from a vector far larger than L2
    double fill_shared;    // bytes/s at which all multiprocessors fill their shared memory from one vector
} bb_constants;

enum { BB_LENGTH_BINS = 200, BB_SPREADS = 22, BB_SPREAD_FIRST = 3, BB_TOPS = 32 };

// Statistics of one operator.  Bins of lengths: 0 to 64 one by one, then four to an octave (bb_length_bin).
typedef struct {
    int64_t rows, cols, nnz, empty_rows, longest;
    int64_t length_rows[BB_LENGTH_BINS];  // rows by number of nonzeros
    int64_t length_nnz[BB_LENGTH_BINS];   // their nonzeros
    int64_t fragments[BB_SPREADS];        // pairs (row, group of 2^(k+3) neighbouring columns) with a nonzero
    int64_t top_nnz[BB_TOPS];             // nonzeros in the 2^k most popular columns
    int32_t value_bytes;                  // stored bytes a value: 0, 1, 4 or 8
    int32_t vector_bytes;                 // bytes of an input or output: 4 or 8
    int32_t repeated;                     // 1 where a row has a column twice
    int32_t reserved;
} bb_stats;

typedef struct {
    bb_plan plan;
    double predicted;  // seconds a product
    double measured;   // seconds a product, or 0 where it was not timed
    int64_t bytes;     // bytes of the format a product reads, or 0 where it was not built
} bb_candidate;

typedef enum {
    BB_TUNE_PREDICT = 0,  // trust the prediction
    BB_TUNE_BEST,         // time the best few
    BB_TUNE_ALL,          // time every candidate
    BB_TUNE_BUS           // trust the prediction of products whose formats cross the bus each time
} bb_tuning;

typedef struct {
    int32_t tuning;          // bb_tuning
    int32_t transpose;       // 0: BB_NORMAL only
    int32_t coding;          // 1: look for ones and dictionaries; 0: keep values as they are
    int32_t forced;          // 1: use plan[op] and nothing else
    int32_t finite;          // 1: refuse values that are not
    bb_plan plan[2];         // forced plans
    bb_constants constants;  // of bb_measure
} bb_options;

// A block of consecutive rows of a matrix, prepared on its own.
typedef struct {
    int64_t first, rows, nnz;
    int64_t bytes;      // that its formats take, on the device or in a staging area
    int64_t copied[2];  // bytes that a product copies from pinned host memory: 0 where it stays on the device
    bb_plan plan[2];
} bb_block;

typedef struct {
    int64_t device_bytes;  // in use
    int64_t peak_bytes;    // most that were in use at a time
    int64_t host_bytes;    // pinned
    int64_t left_bytes;    // of the limit, or free
    double prepare_seconds;
    int32_t coding;  // BB_PLAIN where blocks differ
    int32_t blocks;
} bb_info;

// Milliseconds of one bridged product (thesis Fig. 5.2).
typedef struct {
    double convert_in, upload, product, download, convert_out;
} bb_times;

BB_API const char* bb_last_error(void);

// --- devices
BB_API bb_status bb_device_count(int32_t* count);
BB_API bb_status bb_device_info(int32_t id, bb_device* info);
BB_API bb_status bb_measure(int32_t id, bb_constants* constants);

// --- statistics and choice: host code, no device needed
BB_API int32_t bb_length_bin(int64_t length);
BB_API bb_status bb_statistics_host(const int64_t* indptr, const int32_t* indices, int64_t rows, int64_t cols,
                                    int32_t value_bytes, int32_t vector_bytes, bb_stats* stats);
BB_API int32_t bb_candidates(const bb_device* device, const bb_stats* stats, bb_plan* plans,
                             int32_t capacity);
BB_API double bb_predict(const bb_device* device, const bb_constants* constants, const bb_stats* stats,
                         const bb_plan* plan);
// Bytes that a sparse matrix takes at most once it is there, that its preparation takes at a time at most,
// and that formats with two-byte indices would take.
BB_API int64_t bb_predict_bytes(int64_t rows, int64_t cols, int64_t nnz, int32_t value_bytes,
                                int32_t transpose);
BB_API int64_t bb_prepare_bytes(int64_t rows, int64_t cols, int64_t nnz, int32_t value_bytes,
                                int32_t transpose);
BB_API int64_t bb_format_bytes(int64_t rows, int64_t cols, int64_t nnz, int32_t value_bytes,
                               int32_t transpose);

// --- a matrix: bb_create; for each block of rows bb_open, and bb_append until it is full, or bb_open_dense;
// bb_finish.  Each block is prepared on its own; those beyond what fits on the device stream from pinned host
// memory.
// memory_limit: most bytes of device memory that the matrix, and all that is kept beside it, may take, now
// and later; 0: what is free.  room: those that X may take of it, as bb_room tells for bytes to spare for the
// rest.  threads: of the host, for the upload and the bridge.
BB_API bb_status bb_room(int32_t device, int64_t memory_limit, int64_t spare, int64_t* room);
BB_API bb_status bb_create(int32_t device, int64_t rows, int64_t cols, bb_type type,
                           const bb_options* options, int64_t memory_limit, int64_t room, int32_t threads,
                           bb_matrix** out);
// ones: values will be NULL.
BB_API bb_status bb_open(bb_matrix* matrix, int64_t rows, int64_t nnz, int32_t ones);
BB_API bb_status bb_open_dense(bb_matrix* matrix, int64_t rows, const void* values);
// indptr: rows+1 offsets whose differences are the lengths of these rows; indices, of index_bytes (4 or 8)
// each, and values start at indptr[0].
BB_API bb_status bb_append(bb_matrix* matrix, int64_t rows, const int64_t* indptr, const void* indices,
                           int32_t index_bytes, const void* values);
BB_API bb_status bb_finish(bb_matrix* matrix);
BB_API void bb_destroy(bb_matrix* matrix);

// --- what it is; statistics and candidates are those of the first block, whose plans the others follow
BB_API bb_status bb_get_stats(bb_matrix* matrix, bb_operator op, bb_stats* stats);
BB_API bb_status bb_get_candidates(bb_matrix* matrix, bb_operator op, bb_candidate* list, int32_t capacity,
                                   int32_t* count, int32_t* chosen);
BB_API bb_status bb_get_blocks(bb_matrix* matrix, bb_block* list, int32_t capacity);
BB_API bb_status bb_get_info(bb_matrix* matrix, bb_info* info);
// The sum of the squares of each column, on the host; 0 for a sparse matrix without its transpose.
BB_API bb_status bb_get_squares(bb_matrix* matrix, double* squares);

// --- X' diag(s) X of a dense X, in float64 on the host; s: a number of at least 0 for each row
// By cuBLAS, which is found by a name or a path that dlopen knows.
BB_API bb_status bb_blas_load(const char* library);
BB_API bb_status bb_weighted_gram(bb_matrix* matrix, const double* s, double* gram);

// --- products with vectors on the device, in the matrix's type; asynchronous on its stream
// columns > 1: x is (cols, columns) and y (rows, columns), row-major.
BB_API bb_status bb_apply(bb_matrix* matrix, bb_operator op, const void* x, void* y, int32_t columns);
// The same for one vector of doubles, whatever the matrix's type: a float32 one converts on the device.
BB_API bb_status bb_apply_wide(bb_matrix* matrix, bb_operator op, const double* x, double* y);
BB_API bb_status bb_synchronize(bb_matrix* matrix);
// The stream on which the matrix works; a caller may give its own (a cudaStream_t), to capture it or to share
// it.
BB_API bb_status bb_get_stream(bb_matrix* matrix, void** stream);
BB_API bb_status bb_set_stream(bb_matrix* matrix, void* stream);

// --- the bridge: vectors on the host in double; the call returns when y is there
BB_API bb_status bb_apply_host(bb_matrix* matrix, bb_operator op, const double* x, double* y,
                               int32_t columns);
BB_API bb_status bb_apply_blocks_host(bb_matrix* matrix, const double* r, const int64_t* starts,
                                      int32_t blocks, double* y);
// Of the last of these; all 0 before the first.
BB_API bb_status bb_last_times(bb_matrix* matrix, bb_times* times);

// --- copies, and timing
BB_API bb_status bb_copy(int32_t device, void* to, const void* from, int64_t bytes);
// Seconds a product, from the replay of a graph of `repeats` products between two events.
BB_API bb_status bb_time(bb_matrix* matrix, bb_operator op, int32_t columns, int32_t repeats,
                         double* seconds);

#ifdef __cplusplus
}
#endif
