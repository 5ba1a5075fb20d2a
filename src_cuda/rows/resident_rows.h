// Dense rows with weights, and the device that has them.
#pragma once
#include "api/dense_rows.h"
#include "rows/dense_rows.h"
#include "runtime/handle.h"
#include "runtime/pinned_room.h"

struct bb_dense_rows : bmrm::Handle {
    bb_dense_rows(const bb_device& device, bb_type type, int64_t n, int64_t d, const void* values,
                  const double* from_weights, int threads)
        : Handle(device.id), device(device), rows(memory, type, n, d, values, threads) {
        if (!from_weights) return;
        weights = bmrm::Array<double>(memory, n);
        weights.from_host(from_weights, n);
        BB_CHECK(cudaStreamSynchronize(memory.stream));  // the caller's weights have been read
    }

    // Replaces the rows; those at first were uploaded.
    void load(int64_t n, const void* values, const double* from_weights) {
        if (from_weights) weights.from_host(from_weights, n);
        rows.load(memory, n, values);  // waits
    }

    const bb_device device;
    bmrm::DenseRows rows;
    const int64_t capacity = rows.n;  // rows at first
    bmrm::Array<double> weights;      // empty if all are 1
    bmrm::PinnedRoom given, found;    // of a call, and its results
    bmrm::Array<double> work;         // what a pass needs, kept from call to call
};
