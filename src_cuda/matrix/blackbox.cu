// The C interface: checks of arguments, locks, and the conversion of exceptions to statuses.
#include <algorithm>
#include <atomic>
#include <memory>

#include "api/blackbox.h"
#include "formats/tuning.h"
#include "matrix/handle.h"
#include "runtime/built_for.h"

using namespace bmrm;

namespace {

// The process that first used a device: the driver's state does not survive a fork.
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
        throw Failure(BB_NO_DEVICE,
                      "device " + std::to_string(id) + ": found " + std::to_string(count) + " devices");
    const bb_device device = describe(id);
    if (device.major * 10 + device.minor < 75)
        throw Failure(BB_NO_DEVICE, std::string(device.name) + " has compute capability " +
                                        std::to_string(device.major) + "." + std::to_string(device.minor) +
                                        "; expected at least 7.5");
    expect_code(device);
    return device;
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

bb_status bb_room(int32_t device, int64_t memory_limit, int64_t spare, int64_t* room) {
    return guarded([&] {
        const double free_bytes = tuning::kFreeShare * double(usable(device).free_bytes);
        const int64_t all = memory_limit ? memory_limit : int64_t(free_bytes);
        if (all <= spare)
            throw Failure(BB_MEMORY, "device " + std::to_string(device) + ": of " + size_text(double(all)) +
                                         " vectors and cuts take " + size_text(double(spare)) +
                                         ", which leaves nothing for X");
        *room = all - spare;
    });
}

bb_status bb_create(int32_t device, int64_t rows, int64_t cols, bb_type type, const bb_options* options,
                    int64_t memory_limit, int64_t room, int32_t threads, bb_matrix** out) {
    return guarded([&] {
        expect(rows >= 1 && cols >= 1, "shape: expected at least one row and one column");
        expect(
            rows < 0xFFFFFFFF && cols < 0xFFFFFFFF,
            "a matrix on one device has fewer than 2^32 - 1 rows and columns; give each device some of the "
            "rows");
        const bb_device info = usable(device);
        const OnDevice scope(device);
        *out = new bb_matrix(info, rows, cols, type, *options, memory_limit, room, threads);
    });
}

bb_status bb_open(bb_matrix* matrix, int64_t rows, int64_t nnz, int32_t ones) {
    return on_matrix(matrix, [&] {
        expect(nnz >= 0 && nnz < 0xFFFFFFFF, "a block of rows has fewer than 2^32 - 1 nonzeros");
        matrix->open(rows, nnz, ones != 0);
    });
}

bb_status bb_open_dense(bb_matrix* matrix, int64_t rows, const void* values) {
    return on_matrix(matrix, [&] {
        expect(matrix->cols() <= 0x7FFFFFFF, "a dense matrix on a device has fewer than 2^31 columns");
        matrix->open_dense(rows, values);
    });
}

bb_status bb_append(bb_matrix* matrix, int64_t rows, const int64_t* indptr, const void* indices,
                    int32_t index_bytes, const void* values) {
    return on_matrix(matrix, [&] {
        expect(index_bytes == 4 || index_bytes == 8, "indices: expected 4 or 8 bytes");
        matrix->append(rows, indptr, indices, index_bytes, values);
    });
}

bb_status bb_finish(bb_matrix* matrix) {
    return on_matrix(matrix, [&] {
        expect(!matrix->finished, "the matrix is already finished");
        matrix->finish();
    });
}

bb_status bb_keep_on_host(bb_matrix* matrix, int32_t count, const bb_host_rows* rows) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        matrix->keep_on_host(count, *rows);
    });
}

void bb_destroy(bb_matrix* matrix) {
    // In a forked child there is nothing to free: the parent owns it all.
    if (matrix && getpid() == matrix->process) {
        guarded([&] {
            const OnDevice scope(matrix->device.id);
            matrix->memory.settle();
            delete matrix;
        });
    }
}

bb_status bb_get_stats(bb_matrix* matrix, bb_operator op, bb_stats* stats) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        *stats = matrix->of(op).stats;
    });
}

bb_status bb_get_candidates(bb_matrix* matrix, bb_operator op, bb_candidate* list, int32_t capacity,
                            int32_t* count, int32_t* chosen) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        const Operator& o = matrix->of(op);
        *count = int32_t(o.candidates.size());
        *chosen = o.chosen;
        std::copy_n(o.candidates.begin(), std::min(*count, capacity), list);
    });
}

bb_status bb_get_blocks(bb_matrix* matrix, bb_block* list, int32_t capacity) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        const std::vector<bb_block> found = matrix->blocks();
        std::copy_n(found.begin(), std::min(found.size(), size_t(capacity)), list);
    });
}

bb_status bb_get_squares(bb_matrix* matrix, double* squares) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        const std::vector<double> found = matrix->squares.to_host();
        std::copy(found.begin(), found.end(), squares);
    });
}

bb_status bb_get_dense(bb_matrix* matrix, const void** values) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        *values = matrix->dense_values();
    });
}

bb_status bb_get_rows(bb_matrix* matrix, const int64_t** starts, const uint32_t** columns,
                      const void** values) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        expect(matrix->of(BB_NORMAL).plan().kernel != BB_DENSE, "X: found dense rows, expected sparse ones");
        const Csr& rows = matrix->compressed_rows();
        *starts = rows.ptr.data();
        *columns = rows.col.data();
        *values = rows.values.size() ? rows.values.data() : nullptr;
    });
}

bb_status bb_weighted_gram(bb_matrix* matrix, const double* s, double* gram) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        matrix->weighted_gram(s, gram);
    });
}

bb_status bb_get_info(bb_matrix* matrix, bb_info* info) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        *info = {matrix->memory.used(),
                 matrix->memory.peak(),
                 matrix->host_bytes(),
                 matrix->left_bytes(),
                 matrix->prepare_seconds,
                 matrix->coding(),
                 int32_t(matrix->blocks().size())};
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
        if (matrix->type == BB_FLOAT64)
            product(x, y);
        else
            matrix->bridge.apply_wide(matrix->memory, x, matrix->inputs(op), y, matrix->outputs(op), product);
    });
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

bb_status bb_apply_host(bb_matrix* matrix, bb_operator op, const double* x, double* y, int32_t columns) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        expect(columns >= 1, "columns: expected at least 1");
        matrix->bridge.apply(matrix->memory, matrix->type, x, matrix->inputs(op) * columns, y,
                             matrix->outputs(op) * columns,
                             [&](const void* from, void* to) { matrix->apply(op, from, to, columns); });
    });
}

bb_status bb_apply_blocks_host(bb_matrix* matrix, const double* r, const int64_t* starts, int32_t blocks,
                               double* y) {
    return on_matrix(matrix, [&] {
        expect_ready(matrix);
        expect(blocks >= 1, "blocks: expected at least 1");
        matrix->bridge.apply(
            matrix->memory, matrix->type, r, matrix->rows(), y, matrix->cols() * blocks,
            [&](const void* from, void* to) { matrix->apply_blocks(from, starts, blocks, to); });
    });
}

bb_status bb_last_times(bb_matrix* matrix, bb_times* times) {
    return on_matrix(matrix, [&] { *times = matrix->bridge.times(); });
}

bb_status bb_copy(int32_t device, void* to, const void* from, int64_t bytes) {
    return guarded([&] {
        const OnDevice scope(device);
        BB_CHECK(cudaMemcpy(to, from, size_t(bytes), cudaMemcpyDefault));
    });
}

bb_status bb_copy_steps(int32_t device, const void* from, int64_t step, int64_t count, int32_t bytes,
                        void* to) {
    return guarded([&] {
        const OnDevice scope(device);
        if (count == 0) return;
        const size_t each = size_t(bytes);
        if (step == 1)
            BB_CHECK(cudaMemcpy(to, from, size_t(count) * each, cudaMemcpyDeviceToHost));
        else
            BB_CHECK(cudaMemcpy2D(to, each, from, size_t(step) * each, each, size_t(count),
                                  cudaMemcpyDeviceToHost));
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
