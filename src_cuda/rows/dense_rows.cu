// Dense rows on a device; api/dense_rows.h.
#include <cmath>
#include <cstring>
#include <memory>

#include "rows/kernels/dense_rows.cuh"
#include "rows/resident_rows.h"
#include "runtime/chain.cuh"

using namespace bmrm;

extern "C" {

bb_status bb_dense_rows_create(const bb_device* device, bb_type type, int64_t n, int64_t d,
                               const void* values, const double* weights, int64_t spare, int32_t threads,
                               bb_dense_rows** out) {
    return guarded([&] {
        if (n < 1 || d < 1 || d > 0x7FFFFFFF)
            throw Failure(BB_INVALID, "X: expected at least one row and one column, and fewer than 2^31");
        const OnDevice scope(device->id);
        auto rows = std::make_unique<bb_dense_rows>(*device, type, n, d, values, weights, threads);
        size_t free_bytes = 0, total = 0;
        BB_CHECK(cudaMemGetInfo(&free_bytes, &total));
        if (int64_t(free_bytes) < spare)
            throw Failure(BB_MEMORY, "device " + std::to_string(device->id) + ": " +
                                         size_text(double(spare)) + " are needed besides the rows, " +
                                         size_text(double(free_bytes)) + " of " + size_text(double(total)) +
                                         " are free");
        *out = rows.release();
    });
}

void bb_dense_rows_destroy(bb_dense_rows* rows) { destroy_handle(rows); }

bb_status bb_dense_rows_load(bb_dense_rows* rows, int64_t n, const void* values, const double* weights) {
    return on_handle(rows, [&](bb_dense_rows& held) {
        if (n < 1 || n > held.capacity || !values || !held.rows.is_own() || !weights != !held.weights)
            throw Failure(
                BB_INVALID,
                "rows: expected no more than at first, which were uploaded, and weights as at first");
        held.load(n, values, weights);
    });
}

bb_status bb_dense_rows_address(bb_dense_rows* rows, const void** values) {
    return on_handle(rows, [&](bb_dense_rows& held) { held.rows.with([&](auto* at) { *values = at; }); });
}

bb_status bb_dense_rows_take(bb_dense_rows* rows, const int64_t* numbers, int64_t count, double* to) {
    return on_handle(rows, [&](bb_dense_rows& held) {
        for (int64_t i = 0; i < count; i++)
            if (numbers[i] < 0 || numbers[i] >= held.rows.n)
                throw Failure(BB_INVALID, "numbers: a row is out of range");
        const int64_t d = held.rows.d;
        Array<int64_t> wanted(held.memory, count);
        wanted.from_host(numbers, count);
        Array<double> found(held.memory, count * d);
        held.rows.with([&](auto* values) {
            using T = std::remove_const_t<std::remove_pointer_t<decltype(values)>>;
            const NextLaunch launch(blocks_for(count * d), 256, 0, held.memory.stream, false);
            launch(gather_rows<T>, values, wanted.data(), count, d, found.data());
        });
        BB_CHECK(
            cudaMemcpyAsync(to, found.data(), size_t(found.bytes()), cudaMemcpyDefault, held.memory.stream));
        BB_CHECK(cudaStreamSynchronize(held.memory.stream));
    });
}

bb_status bb_dense_rows_extremes(bb_dense_rows* rows, double* largest, int64_t* not_finite) {
    return on_handle(rows, [&](bb_dense_rows& held) {
        Array<Extremes> out(held.memory, 1);
        const Extremes nothing = {0, ~0ull};
        out.from_host(&nothing, 1);
        const int64_t size = held.rows.n * held.rows.d;
        held.rows.with([&](auto* values) {
            using T = std::remove_const_t<std::remove_pointer_t<decltype(values)>>;
            const unsigned blocks = std::min(blocks_for(size), unsigned(held.device.multiprocessors) * 8);
            const NextLaunch launch(blocks, 256, 0, held.memory.stream, false);
            launch(find_extremes<T>, values, size, out.data());
        });
        const Extremes found = out.at(0);
        std::memcpy(largest, &found.largest, sizeof *largest);
        *not_finite = found.not_finite == ~0ull ? -1 : int64_t(found.not_finite) / held.rows.d;
        if (std::isnan(*largest)) *largest = INFINITY;
    });
}

}  // extern "C"
