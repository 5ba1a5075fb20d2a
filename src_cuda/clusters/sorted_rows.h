// Rows sorted by label, and where each cluster and its chunks begin.
#pragma once
#include "clusters/clusters.h"
#include "clusters/kernels/cluster_sums.cuh"
#include "runtime/device_sort.cuh"

namespace bmrm {

struct SortedRows {
    // Also replaces labels by fresh ones and counts the changes.
    SortedRows(bb_clusters& rows, const int32_t* fresh, int64_t k, int64_t chunk_rows, int32_t* labels,
               PassCounters* counters)
        : keys(rows.memory, rows.n) {
        Memory& memory = rows.memory;
        const NextLaunch note(blocks_for(rows.n, 2048), 256, 0, memory.stream, false);
        note(note_labels, fresh, rows.n, labels, keys.data(), counters);
        order = sort_with_positions(memory, keys, uint64_t(k));
        firsts = firsts_of<int64_t>(memory, keys, k);
        Array<int64_t> chunks(memory, k);
        const NextLaunch count(blocks_for(k), 256, 0, memory.stream, false);
        count(count_chunks, firsts.data(), k, chunk_rows, chunks.data());
        chunk_firsts = offsets_of(memory, chunks);
    }

    Array<uint32_t> keys, order;
    Array<int64_t> firsts, chunk_firsts;  // k + 1 each
};

}  // namespace bmrm
