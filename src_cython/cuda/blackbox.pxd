"""The C interface of the CUDA blackbox; ``src_cuda/api/blackbox.h`` documents it."""

from libc.stdint cimport int32_t, int64_t


cdef extern from "api/blackbox.h" nogil:
    ctypedef struct bb_matrix:
        pass

    ctypedef enum bb_status:
        BB_OK
        BB_INVALID
        BB_NO_DEVICE
        BB_NO_CODE
        BB_MEMORY
        BB_CUDA
        BB_FORKED

    ctypedef enum bb_type:
        BB_FLOAT32
        BB_FLOAT64

    ctypedef enum bb_operator:
        BB_NORMAL
        BB_TRANSPOSED

    ctypedef enum bb_coding:
        BB_PLAIN
        BB_ONES
        BB_DICTIONARY

    ctypedef struct bb_plan:
        int32_t kernel, lanes, cap, tiles
        int64_t tile

    ctypedef struct bb_device:
        int32_t id, major, minor, multiprocessors
        int64_t shared_per_block, shared_per_multiprocessor, l2_bytes, total_bytes, free_bytes
        char name[128]

    ctypedef struct bb_constants:
        double launch, copy, read, gather_shared, gather_l2, gather_memory, fill_shared

    enum:
        BB_LENGTH_BINS
        BB_SPREADS
        BB_TOPS

    ctypedef struct bb_stats:
        int64_t rows, cols, nnz, empty_rows, longest
        int64_t length_rows[BB_LENGTH_BINS]
        int64_t length_nnz[BB_LENGTH_BINS]
        int64_t fragments[BB_SPREADS]
        int64_t top_nnz[BB_TOPS]
        int32_t value_bytes, vector_bytes, repeated

    ctypedef struct bb_candidate:
        bb_plan plan
        double predicted, measured
        int64_t bytes

    ctypedef enum bb_tuning:
        BB_TUNE_PREDICT
        BB_TUNE_BEST
        BB_TUNE_ALL
        BB_TUNE_BUS
        BB_TUNE_COLD

    ctypedef struct bb_options:
        int32_t tuning, transpose, coding, forced, finite
        bb_plan plan[2]
        bb_constants constants

    ctypedef struct bb_block:
        int64_t first, rows, nnz, bytes
        int64_t copied[2]
        bb_plan plan[2]

    ctypedef struct bb_info:
        int64_t device_bytes, peak_bytes, host_bytes, left_bytes
        double prepare_seconds
        int32_t coding, blocks

    ctypedef struct bb_times:
        double convert_in, upload, product, download, convert_out

    const char *bb_last_error()

    bb_status bb_device_count(int32_t *count)
    bb_status bb_device_info(int32_t id, bb_device *info)
    int32_t bb_built_for(int32_t *architectures, int32_t capacity)
    bb_status bb_measure(int32_t id, bb_constants *constants)

    bb_status bb_statistics_host(const int64_t *indptr, const int32_t *indices, int64_t rows, int64_t cols,
                                 int32_t value_bytes, int32_t vector_bytes, bb_stats *stats)
    const char *bb_kernel_name(int32_t kernel)
    int32_t bb_candidates(const bb_device *device, const bb_stats *stats, bb_plan *plans, int32_t capacity)
    int64_t bb_predict_bytes(int64_t rows, int64_t cols, int64_t nnz, int32_t value_bytes, int32_t transpose)

    int64_t bb_prepare_bytes(int64_t rows, int64_t cols, int64_t nnz, int32_t value_bytes, int32_t transpose)
    int64_t bb_format_bytes(int64_t rows, int64_t cols, int64_t nnz, int32_t value_bytes, int32_t transpose)

    bb_status bb_room(int32_t device, int64_t memory_limit, int64_t spare, int64_t *room)
    bb_status bb_create(int32_t device, int64_t rows, int64_t cols, bb_type type, const bb_options *options,
                        int64_t memory_limit, int64_t room, int32_t threads, bb_matrix **out)
    bb_status bb_open(bb_matrix *matrix, int64_t rows, int64_t nnz, int32_t ones)
    bb_status bb_open_dense(bb_matrix *matrix, int64_t rows, const void *values)
    bb_status bb_append(bb_matrix *matrix, int64_t rows, const int64_t *indptr, const void *indices,
                        int32_t index_bytes, const void *values)
    bb_status bb_finish(bb_matrix *matrix)
    void bb_destroy(bb_matrix *matrix)

    bb_status bb_get_stats(bb_matrix *matrix, bb_operator op, bb_stats *stats)
    bb_status bb_get_candidates(bb_matrix *matrix, bb_operator op, bb_candidate *list, int32_t capacity,
                                int32_t *count, int32_t *chosen)
    bb_status bb_get_blocks(bb_matrix *matrix, bb_block *list, int32_t capacity)
    bb_status bb_get_info(bb_matrix *matrix, bb_info *info)
    bb_status bb_get_squares(bb_matrix *matrix, double *squares)
    bb_status bb_get_dense(bb_matrix *matrix, const void **values)
    bb_status bb_blas_load(const char *library)
    bb_status bb_weighted_gram(bb_matrix *matrix, const double *s, double *gram)

    bb_status bb_apply(bb_matrix *matrix, bb_operator op, const void *x, void *y, int32_t columns)
    bb_status bb_apply_wide(bb_matrix *matrix, bb_operator op, const double *x, double *y)
    bb_status bb_synchronize(bb_matrix *matrix)
    bb_status bb_get_stream(bb_matrix *matrix, void **stream)
    bb_status bb_set_stream(bb_matrix *matrix, void *stream)

    bb_status bb_apply_host(bb_matrix *matrix, bb_operator op, const double *x, double *y, int32_t columns)
    bb_status bb_apply_blocks_host(bb_matrix *matrix, const double *r, const int64_t *starts, int32_t blocks,
                                   double *y)
    bb_status bb_last_times(bb_matrix *matrix, bb_times *times)

    bb_status bb_copy(int32_t device, void *to, const void *from_, int64_t bytes)
    bb_status bb_time(bb_matrix *matrix, bb_operator op, int32_t columns, int32_t repeats, double *seconds)
