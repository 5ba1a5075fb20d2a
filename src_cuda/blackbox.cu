// The C interface: checks of arguments, locks, and the way from exceptions to statuses.
#include <algorithm>
#include <atomic>
#include <memory>

#include "blackbox.h"
#include "handle.h"
#include "kernels/blocks.cuh"

using namespace bmrm;

namespace {

// The process that first used a device: a driver's state does not survive a fork.
std::atomic<pid_t> first_process{0};

void expect(bool holds, const char* text) {
    if (!holds) throw Failure(BB_INVALID, text);
}

void touch_device() {
    pid_t nobody = 0;
    const pid_t here = getpid();
    if (!first_process.compare_exchange_strong(nobody, here) && nobody != here) forked();
}

bb_device describe(int id) {
    cudaDeviceProp p;
    BB_CHECK(cudaGetDeviceProperties(&p, id));
    bb_device out = {};
    out.id = id;
    out.major = p.major;
    out.minor = p.minor;
    out.multiprocessors = p.multiProcessorCount;
    out.shared_per_block = int64_t(p.sharedMemPerBlockOptin);
    out.shared_per_multiprocessor = int64_t(p.sharedMemPerMultiprocessor);
    out.l2_bytes = p.l2CacheSize;
    OnDevice scope(id);
    size_t free_bytes = 0, total = 0;
    BB_CHECK(cudaMemGetInfo(&free_bytes, &total));
    out.total_bytes = int64_t(total);
    out.free_bytes = int64_t(free_bytes);
    std::copy_n(p.name, std::min(sizeof p.name, sizeof out.name) - 1, out.name);
    return out;
}

bb_device usable(int id) {
    touch_device();
    int count = 0;
    BB_CHECK(cudaGetDeviceCount(&count));
    if (id < 0 || id >= count)
        throw Failure(BB_NO_DEVICE, "device " + std::to_string(id) + ": there are " + std::to_string(count));
    const bb_device device = describe(id);
    if (device.major * 10 + device.minor < 75)
        throw Failure(BB_NO_DEVICE, std::string(device.name) + " has compute capability " +
                                        std::to_string(device.major) + "." + std::to_string(device.minor) +
                                        "; 7.5 is the least");
    return device;
}

// Statistics of an operator whose every row has every column.
bb_stats dense_statistics(int64_t rows, int64_t cols, int32_t bytes) {
    bb_stats stats = {};
    stats.rows = rows;
    stats.cols = stats.longest = cols;
    stats.nnz = rows * cols;
    stats.length_rows[bb_length_bin(cols)] = rows;
    stats.length_nnz[bb_length_bin(cols)] = stats.nnz;
    for (int k = 0; k < BB_SPREADS; k++) {
        const int64_t group = int64_t(1) << (k + BB_SPREAD_FIRST);
        stats.fragments[k] = rows * ((cols + group - 1) / group);
    }
    for (int k = 0; k < BB_TOPS; k++) stats.top_nnz[k] = rows * std::min(int64_t(1) << k, cols);
    stats.value_bytes = stats.vector_bytes = bytes;
    return stats;
}

void expect_ready(const bb_matrix* matrix) { expect(matrix->finished, "the matrix is not finished"); }

}  // namespace

extern "C" {

bb_status bb_device_count(int32_t* count) {
    return guarded([&] {
        touch_device();
        int found = 0;
        BB_CHECK(cudaGetDeviceCount(&found));
        *count = found;
    });
}

bb_status bb_device_info(int32_t id, bb_device* info) {
    return guarded([&] { *info = usable(id); });
}

bb_status bb_create(int32_t device, int64_t rows, int64_t cols, int64_t nnz, int32_t index_bytes,
                    bb_type type, int32_t ones, int64_t memory_limit, bb_matrix** out) {
    return guarded([&] {
        expect(rows >= 1 && cols >= 1 && nnz >= 0, "shape: expected at least one row and one column");
        expect(rows < 0xFFFFFFFF && cols < 0xFFFFFFFF && nnz < 0xFFFFFFFF,
               "a matrix on one device has fewer than 2^32 - 1 rows, columns and nonzeros; give each device "
               "some of the rows");
        expect(index_bytes == 4 || index_bytes == 8, "indices: expected 4 or 8 bytes");
        const bb_device info = usable(device);
        const OnDevice scope(device);
        auto matrix = std::make_unique<bb_matrix>(info);
        matrix->memory.set_limit(memory_limit);
        matrix->coding.type = type;
        matrix->coding.coding = ones ? BB_ONES : BB_PLAIN;
        matrix->index_bytes = index_bytes;
        Csr& a = matrix->csr[0];
        a.rows = rows;
        a.cols = cols;
        a.nnz = nnz;
        a.ptr = Array<int64_t>(matrix->memory, rows + 1);
        a.col = Array<uint32_t>(matrix->memory, nnz);
        a.values = Array<unsigned char>(matrix->memory, nnz * matrix->coding.value_bytes());
        matrix->state[0].stats.rows = rows;
        matrix->state[0].stats.cols = cols;
        *out = matrix.release();
    });
}

bb_status bb_append(bb_matrix* matrix, int64_t rows, const int64_t* indptr, const void* indices,
                    const void* values) {
    return on_matrix(matrix, [&] {
        expect(!matrix->finished, "the matrix is finished");
        Csr& a = matrix->csr[0];
        expect(rows >= 0 && matrix->filled_rows + rows <= a.rows, "more rows than were announced");
        if (rows == 0) return;
        int64_t ends[2];
        BB_CHECK(cudaMemcpy(ends, indptr, 8, cudaMemcpyDefault));
        BB_CHECK(cudaMemcpy(ends + 1, indptr + rows, 8, cudaMemcpyDefault));
        const int64_t count = ends[1] - ends[0];
        expect(count >= 0 && count <= a.nnz - matrix->filled,
               "row pointers: more nonzeros than were announced");
        append_rows(matrix->memory, a, matrix->filled_rows, matrix->filled, rows, indptr, ends[0], count,
                    indices, matrix->index_bytes, values, matrix->coding.value_bytes());
        BB_CHECK(cudaStreamSynchronize(matrix->memory.stream));  // the sources may go when the call returns
        matrix->filled_rows += rows;
        matrix->filled += count;
    });
}

bb_status bb_finish(bb_matrix* matrix, const bb_options* options) {
    return on_matrix(matrix, [&] {
        expect(!matrix->finished, "the matrix is finished");
        matrix->finish(*options);
    });
}

bb_status bb_dense(int32_t device, int64_t rows, int64_t cols, bb_type type, const void* values,
                   int64_t memory_limit, bb_matrix** out) {
    return guarded([&] {
        expect(rows >= 1 && cols >= 1, "shape: expected at least one row and one column");
        expect(cols <= 0x7FFFFFFF, "a dense matrix on a device has fewer than 2^31 columns");
        const bb_device info = usable(device);
        const OnDevice scope(device);
        auto matrix = std::make_unique<bb_matrix>(info);
        matrix->memory.set_limit(memory_limit);
        matrix->coding.type = type;
        matrix->dense = Dense(matrix->memory, rows, cols, type, info);
        matrix->dense.upload(values);
        for (int op = 0; op < 2; op++) {
            bb_operator_state& s = matrix->state[op];
            s.stats = dense_statistics(op ? cols : rows, op ? rows : cols, matrix->coding.vector_bytes());
            s.candidates.push_back({{BB_DENSE, 0, 0, 0, 0}, 0, 0, matrix->dense.bytes()});
            s.chosen = 0;
        }
        BB_CHECK(cudaStreamSynchronize(matrix->memory.stream));
        matrix->finished = true;
        *out = matrix.release();
    });
}

void bb_destroy(bb_matrix* matrix) {
    // In a forked child there is nothing to give back: the parent owns it all.
    if (matrix && getpid() == matrix->process) {
        guarded([&] {
            const OnDevice scope(matrix->device.id);
            matrix->memory.settle();
            delete matrix;
        });
    }
}

bb_status bb_get_stats(bb_matrix* matrix, bb_operator op, bb_stats* stats) {
    return on_matrix(matrix, [&] { *stats = matrix->state[op].stats; });
}

bb_status bb_get_candidates(bb_matrix* matrix, bb_operator op, bb_candidate* list, int32_t capacity,
                            int32_t* count, int32_t* chosen) {
    return on_matrix(matrix, [&] {
        const bb_operator_state& s = matrix->state[op];
        *count = int32_t(s.candidates.size());
        *chosen = s.chosen;
        std::copy_n(s.candidates.begin(), std::min(*count, capacity), list);
    });
}

bb_status bb_get_info(bb_matrix* matrix, int64_t* device_bytes, int32_t* coding, double* prepare_seconds) {
    return on_matrix(matrix, [&] {
        *device_bytes = matrix->memory.used();
        *coding = matrix->coding.coding;
        *prepare_seconds = matrix->prepare_seconds;
    });
}

bb_status bb_apply(bb_matrix* matrix, bb_operator op, const void* x, void* y, int32_t columns) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        expect(columns >= 1, "columns: expected at least 1");
        matrix->apply(op, x, y, columns);
    });
}

bb_status bb_apply_wide(bb_matrix* matrix, bb_operator op, const double* x, double* y) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        const auto product = [&](const void* from, void* to) { matrix->apply(op, from, to, 1); };
        if (matrix->coding.type == BB_FLOAT64)
            product(x, y);
        else
            matrix->bridge.apply_wide(matrix->memory, x, matrix->inputs(op), y, matrix->outputs(op), product);
    });
}

bb_status bb_fused(bb_matrix* matrix, int32_t loss, double parameter, double scale, const void* w,
                   const double* labels, const double* weights, void* margins, void* gradient, double* risk) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        matrix->fused(loss, parameter, scale, w, labels, weights, margins, gradient, risk);
    });
}

bb_status bb_can_fuse(bb_matrix* matrix, int32_t* yes) {
    return on_matrix(matrix, [&] { *yes = matrix->can_fuse(); });
}

bb_status bb_synchronize(bb_matrix* matrix) {
    return on_matrix(matrix, [&] { BB_CHECK(cudaStreamSynchronize(matrix->memory.stream)); });
}

bb_status bb_get_stream(bb_matrix* matrix, void** stream) {
    return on_matrix(matrix, [&] { *stream = matrix->memory.stream; });
}

bb_status bb_set_stream(bb_matrix* matrix, void* stream) {
    return on_matrix(matrix, [&] {
        BB_CHECK(cudaStreamSynchronize(matrix->memory.stream));
        matrix->memory.stream = static_cast<cudaStream_t>(stream);
    });
}

bb_status bb_apply_host(bb_matrix* matrix, bb_operator op, const double* x, double* y, int32_t columns,
                        bb_times* times) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        expect(columns >= 1, "columns: expected at least 1");
        matrix->bridge.apply(matrix->memory, matrix->coding.type, x, matrix->inputs(op) * columns, y,
                             matrix->outputs(op) * columns, times,
                             [&](const void* from, void* to) { matrix->apply(op, from, to, columns); });
    });
}

bb_status bb_apply_blocks_host(bb_matrix* matrix, const double* r, const int64_t* starts, int32_t blocks,
                               double* y, bb_times* times) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        expect(blocks >= 1, "blocks: expected at least 1");
        matrix->bridge.apply(
            matrix->memory, matrix->coding.type, r, matrix->rows(), y, matrix->cols() * blocks, times,
            [&](const void* from, void* to) { matrix->apply_blocks(from, starts, blocks, to); });
    });
}

bb_status bb_copy(int32_t device, void* to, const void* from, int64_t bytes) {
    return guarded([&] {
        const OnDevice scope(device);
        BB_CHECK(cudaMemcpy(to, from, size_t(bytes), cudaMemcpyDefault));
    });
}

bb_status bb_time(bb_matrix* matrix, bb_operator op, int32_t columns, int32_t repeats, double* seconds) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        expect(columns >= 1 && repeats >= 1, "columns, repeats: expected at least 1");
        *seconds = matrix->time(op, columns, repeats);
    });
}

}  // extern "C"
