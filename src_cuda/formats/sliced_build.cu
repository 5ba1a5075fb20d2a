// From compressed rows to the sliced format (sliced.h), on the device.
//
// Fragments begin wherever the row or the tile changes; for popularity order, a stable sort first brings the
// nonzeros of each tile together.  Fragments are cut into chunks, chunks sorted by shape, and equal shapes
// counted as runs.  There are few runs, so the host lays them out; then one kernel fills the slices.
#include <algorithm>

#include "formats/rows_of.cuh"
#include "formats/shares.h"
#include "formats/sliced_device.h"
#include "formats/tuning.h"
#include "runtime/device_sort.cuh"
#include "runtime/occupancy.h"

namespace bmrm {

namespace {

constexpr int kThreads = 256;

// One fragment per row if there is one tile.
struct Fragments {
    int64_t count = 0;
    Array<uint32_t> start, length, row;
    Array<uint16_t> tile;
};

// The nonzeros in order of fragments: as they are, or grouped by tile.
struct Entries {
    const uint32_t* col = nullptr;  // columns, or ranks in order of popularity
    Array<uint32_t> own_col, position, row;
};

__device__ __forceinline__ int tile_of(uint32_t col, int64_t tile, int shared) {
    const int64_t t = shared ? int64_t(col) / tile : 0;
    return int(t < shared ? t : shared);
}

__global__ void invert(const uint32_t* order, int64_t n, uint32_t* rank) {
    BB_FOR (i, n) rank[order[i]] = uint32_t(i);
}

__global__ void tile_keys(const uint32_t* col, const uint32_t* rank, int64_t nnz, Cut cut, uint16_t* key) {
    BB_FOR (i, nnz) key[i] = uint16_t(tile_of(rank[col[i]], cut.tile, cut.shared));
}

__global__ void regroup(const uint32_t* col, const uint32_t* rank, const uint32_t* row_of,
                        const uint32_t* position, int64_t nnz, uint32_t* new_col, uint32_t* new_row) {
    BB_FOR (i, nnz) {
        new_col[i] = rank[col[position[i]]];
        new_row[i] = row_of[position[i]];
    }
}

__global__ void fragment_heads(const uint32_t* col, const uint32_t* row, int64_t nnz, Cut cut,
                               uint8_t* head) {
    BB_FOR (i, nnz)
        head[i] = i == 0 || row[i] != row[i - 1] ||
                  tile_of(col[i], cut.tile, cut.shared) != tile_of(col[i - 1], cut.tile, cut.shared);
}

__global__ void describe_fragments(const uint32_t* start, int64_t count, int64_t nnz, const uint32_t* col,
                                   const uint32_t* row_of, Cut cut, uint32_t* length, uint32_t* row,
                                   uint16_t* tile) {
    BB_FOR (f, count) {
        length[f] = uint32_t((f + 1 < count ? start[f + 1] : nnz) - start[f]);
        row[f] = row_of[start[f]];
        tile[f] = uint16_t(tile_of(col[start[f]], cut.tile, cut.shared));
    }
}

__global__ void rows_as_fragments(const int64_t* ptr, int64_t rows, uint32_t* start, uint32_t* length,
                                  uint32_t* row, uint16_t* tile) {
    BB_FOR (r, rows) {
        start[r] = uint32_t(ptr[r]);
        length[r] = uint32_t(ptr[r + 1] - ptr[r]);
        row[r] = uint32_t(r);
        tile[r] = 0;
    }
}

__global__ void count_chunks(const uint32_t* length, int64_t count, int cap, uint32_t* chunks) {
    BB_FOR (f, count) chunks[f] = uint32_t(chunks_of(length[f], cap));
}

struct Chunks {
    int64_t count = 0;
    Array<uint64_t> key;
    Array<uint32_t> start, length, row;
};

__global__ void chop(const uint32_t* start, const uint32_t* length, const uint32_t* row, const uint16_t* tile,
                     const uint32_t* first, int64_t count, int cap, int grain, uint64_t* key, uint32_t* begin,
                     uint32_t* chunk_len, uint32_t* chunk_row) {
    BB_FOR (f, count) {
        const uint32_t many = first[f + 1] - first[f];
        for (uint32_t k = 0; k < many; k++) {
            const uint32_t c = first[f] + k;
            const int64_t part = chunk_length(length[f], k, cap);
            key[c] = chunk_key(tile[f], row[f], part, cap, grain);
            begin[c] = start[f] + uint32_t(chunk_start(length[f], k, cap));
            chunk_len[c] = uint32_t(part);
            chunk_row[c] = row[f];
        }
    }
}

// Rows that are not one chunk.
__global__ void mark_parted(const uint32_t* row_first, int64_t rows, uint8_t* mark) {
    BB_FOR (r, rows) mark[r] = row_first[r + 1] - row_first[r] != 1;
}

__global__ void count_slots(const uint32_t* row_first, const uint32_t* rows, int64_t count, uint32_t* slots,
                            uint32_t* place) {
    BB_FOR (i, count) {
        slots[i] = row_first[rows[i] + 1] - row_first[rows[i]];
        place[rows[i]] = uint32_t(i);
    }
}

// Chunks are in order of rows.
__global__ void destinations(const uint32_t* chunk_row, int64_t chunks, const uint32_t* row_first,
                             const uint32_t* place, const uint32_t* slot, uint32_t* dest) {
    BB_FOR (c, chunks) {
        const uint32_t row = chunk_row[c];
        dest[c] = row_first[row + 1] - row_first[row] == 1
                      ? row
                      : kSlot | (slot[place[row]] + uint32_t(c) - row_first[row]);
    }
}

__global__ void mark_long(const uint32_t* slot, int64_t count, uint32_t many, uint8_t* mark) {
    BB_FOR (i, count) mark[i] = slot[i + 1] - slot[i] > many;
}

// A run of equal slices, and where it lies.
struct Run {
    uint64_t key;
    uint32_t first_chunk, chunks;  // in sorted order
    uint32_t first_item, item_slices, slices, dest;
    uint64_t offset;  // in units of 32 elements
};

__device__ const Run& run_of(const Run* runs, int count, uint32_t item) {
    int low = 0, high = count - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (runs[middle].first_item <= item)
            low = middle;
        else
            high = middle - 1;
    }
    return runs[low];
}

struct FillArguments {
    const Run* runs;
    int run_count;
    uint32_t items;
    const uint32_t *sorted, *chunk_start, *chunk_length, *chunk_dest;
    const uint32_t *col,
        *position;  // position: of an entry in the matrix's values, or null if it is the same
    const void* source_values;
    int value_bytes;
    Cut cut;
    uint64_t shared_elements;
};

// A warp fills an item: its description, destinations, indices and values.
template <class V>
__global__ void fill(const FillArguments a, Item* items, uint32_t* dest, void* local, uint32_t* far,
                     V* values) {
    const uint32_t item = uint32_t((int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32),
                   lane = threadIdx.x % 32;
    if (item >= a.items) return;
    const Run& run = run_of(a.runs, a.run_count, item);
    const uint32_t width = key_width(run.key), log2 = key_log2(run.key), chunks = 32 >> log2;
    const uint32_t slice0 = (item - run.first_item) * run.item_slices;
    const uint32_t slices = min(run.item_slices, run.slices - slice0);
    const uint64_t offset = run.offset + uint64_t(slice0) * width;
    const uint32_t dest0 = run.dest + slice0 * chunks;
    if (lane == 0) items[item] = {uint32_t(offset), width | log2 << 16, slices, dest0};
    const int tile = int(key_tile(run.key));
    const bool shared = tile < a.cut.shared;
    const uint32_t base = shared ? uint32_t(tile * a.cut.tile) : 0,
                   pad = shared ? uint32_t(a.cut.tile) : 0xFFFFFFFFu;
    for (uint32_t s = 0; s < slices; s++) {
        const uint32_t nth = (slice0 + s) * chunks + (lane >> log2);
        uint32_t start = 0, length = 0, to = kNowhere;
        if (nth < run.chunks) {
            const uint32_t chunk = a.sorted[run.first_chunk + nth];
            start = a.chunk_start[chunk];
            length = a.chunk_length[chunk];
            to = a.chunk_dest[chunk];
        }
        if ((lane & ((1u << log2) - 1)) == 0) dest[dest0 + s * chunks + (lane >> log2)] = to;
        const uint64_t e = (offset + uint64_t(s) * width) * 32;
        for (uint32_t step = 0; step < width; step++) {
            const uint32_t p = (step << log2) + (lane & ((1u << log2) - 1));
            const uint64_t place = e + element_place(lane, step, width);
            uint32_t index = pad;
            V value = V();
            if (p < length) {
                index = a.col[start + p] - base;
                if (values)
                    value = static_cast<const V*>(
                        a.source_values)[a.position ? a.position[start + p] : start + p];
            }
            if (!shared)
                far[place - a.shared_elements] = index;
            else if (a.cut.index_bytes == 1)
                static_cast<uint8_t*>(local)[place] = uint8_t(index);
            else
                static_cast<uint16_t*>(local)[place] = uint16_t(index);
            if (values) values[place] = value;
        }
    }
}

Fragments find_fragments(Memory& memory, const Csr& a, const Cut& cut, const Entries& entries,
                         const Array<uint32_t>& row_of) {
    Fragments out;
    if (cut.shared + cut.gathered == 1) {
        out.count = a.rows;
        out.start = Array<uint32_t>(memory, a.rows);
        out.length = Array<uint32_t>(memory, a.rows);
        out.row = Array<uint32_t>(memory, a.rows);
        out.tile = Array<uint16_t>(memory, a.rows);
        rows_as_fragments<<<blocks_for(a.rows), kThreads, 0, memory.stream>>>(
            a.ptr.data(), a.rows, out.start.data(), out.length.data(), out.row.data(), out.tile.data());
        BB_CHECK(cudaGetLastError());
        return out;
    }
    Array<uint8_t> head(memory, a.nnz);
    const uint32_t* row = cut.by_count ? entries.row.data() : row_of.data();
    fragment_heads<<<blocks_for(a.nnz), kThreads, 0, memory.stream>>>(entries.col, row, a.nnz, cut,
                                                                      head.data());
    BB_CHECK(cudaGetLastError());
    out.start = positions_of(memory, head);
    head.reset();
    out.count = out.start.size();
    out.length = Array<uint32_t>(memory, out.count);
    out.row = Array<uint32_t>(memory, out.count);
    out.tile = Array<uint16_t>(memory, out.count);
    describe_fragments<<<blocks_for(out.count), kThreads, 0, memory.stream>>>(
        out.start.data(), out.count, a.nnz, entries.col, row, cut, out.length.data(), out.row.data(),
        out.tile.data());
    BB_CHECK(cudaGetLastError());
    if (cut.by_count) {  // from order of tiles to order of rows
        const Array<uint32_t> by_row = sort_with_positions(memory, out.row, uint64_t(a.rows));
        out.start = picked(memory, out.start, by_row);
        out.length = picked(memory, out.length, by_row);
        out.tile = picked(memory, out.tile, by_row);
    }
    return out;
}

Chunks chop_fragments(Memory& memory, const Fragments& fragments, const Csr& a, const Cut& cut, int cap) {
    Chunks out;
    Array<uint32_t> counts(memory, fragments.count);
    count_chunks<<<blocks_for(fragments.count), kThreads, 0, memory.stream>>>(
        fragments.length.data(), fragments.count, cap, counts.data());
    BB_CHECK(cudaGetLastError());
    const Array<uint32_t> first = offsets_of(memory, counts);
    out.count = first.at(fragments.count);
    const double groups = double(cut.shared + cut.gathered) * double((a.rows >> kWindowBits) + 1);
    const int grain = width_grain(double(out.count), double(a.nnz), groups, cap);
    out.key = Array<uint64_t>(memory, out.count);
    out.start = Array<uint32_t>(memory, out.count);
    out.length = Array<uint32_t>(memory, out.count);
    out.row = Array<uint32_t>(memory, out.count);
    chop<<<blocks_for(fragments.count), kThreads, 0, memory.stream>>>(
        fragments.start.data(), fragments.length.data(), fragments.row.data(), fragments.tile.data(),
        first.data(), fragments.count, cap, grain, out.key.data(), out.start.data(), out.length.data(),
        out.row.data());
    BB_CHECK(cudaGetLastError());
    return out;
}

std::vector<Run> find_runs(Memory& memory, const Array<uint64_t>& keys) {
    const int64_t n = keys.size();
    Array<uint64_t> unique(memory, n);
    Array<uint32_t> counts(memory, n);
    const size_t count = size_t(count_runs(memory, keys, unique, counts));
    std::vector<uint64_t> key(count);
    std::vector<uint32_t> chunks(count);
    BB_CHECK(cudaMemcpyAsync(key.data(), unique.data(), count * 8, cudaMemcpyDefault, memory.stream));
    BB_CHECK(cudaMemcpyAsync(chunks.data(), counts.data(), count * 4, cudaMemcpyDefault, memory.stream));
    BB_CHECK(cudaStreamSynchronize(memory.stream));
    std::vector<Run> runs(count);
    for (size_t i = 0; i < count; i++) runs[i] = {key[i], 0, chunks[i], 0, 0, 0, 0, 0};
    return runs;
}

struct Layout {
    uint64_t elements = 0, shared_elements = 0;
    uint32_t items = 0, dests = 0;
    std::vector<uint32_t> tile_item;
};

Layout lay_out(std::vector<Run>& runs, const Cut& cut, int target) {
    Layout out;
    const size_t tiles = size_t(cut.shared + cut.gathered);
    out.tile_item.assign(tiles + 1, 0);
    uint64_t offset = 0;
    uint32_t chunk = 0;
    size_t tile = 0;
    for (Run& run : runs) {
        const uint32_t width = key_width(run.key), log2 = key_log2(run.key);
        for (; tile <= key_tile(run.key); tile++) {
            out.tile_item[tile] = out.items;
            if (tile == size_t(cut.shared)) out.shared_elements = offset * 32;
        }
        run.first_chunk = chunk;
        run.first_item = out.items;
        run.offset = offset;
        run.dest = out.dests;
        run.slices = uint32_t(((uint64_t(run.chunks) << log2) + 31) / 32);
        run.item_slices = item_slices(width, target);
        chunk += run.chunks;
        out.items += (run.slices + run.item_slices - 1) / run.item_slices;
        out.dests += run.slices * (32 >> log2);
        offset += uint64_t(run.slices) * width;
    }
    for (; tile <= tiles; tile++) {
        out.tile_item[tile] = out.items;
        if (tile == size_t(cut.shared)) out.shared_elements = offset * 32;
    }
    out.elements = offset * 32;
    if (offset > 0xFFFFFFFFu) throw Failure(BB_INVALID, "the matrix has too many nonzeros for one device");
    return out;
}

// Returns the cost of an item of a run, in bytes moved.  A gathered input costs far more than one in shared
// memory, and a destination is read and then written through.
double item_cost(const Run& run, const Cut& cut, int value_bytes) {
    const double slices = std::min(run.item_slices, run.slices);
    const bool shared = key_tile(run.key) < uint32_t(cut.shared);
    const double element = value_bytes + (shared ? cut.index_bytes + 1 : tuning::kGatheredElement);
    return slices * (32.0 * key_width(run.key) * element + (32 >> key_log2(run.key)) * 12.0 + 64.0) + 64.0;
}

std::vector<BlockShare> shares_of(const std::vector<Run>& runs, const Layout& layout, const Cut& cut,
                                  const ValueArray& coding, int blocks, int resident) {
    std::vector<ItemRun> of_items;
    for (size_t r = 0; r < runs.size(); r++) {
        const uint32_t stop = r + 1 < runs.size() ? runs[r + 1].first_item : layout.items;
        of_items.push_back({stop - runs[r].first_item, key_tile(runs[r].key),
                            item_cost(runs[r], cut, coding.value_bytes())});
    }
    return share_out(of_items, cut.shared, fill_cost(cut.tile * coding.vector_bytes(), resident), blocks);
}

// Returns the destination of each chunk's sum; rows that are not one chunk get slots.
Array<uint32_t> place_sums(Memory& memory, const Chunks& chunks, const ValueArray& coding, Sliced& out) {
    const cudaStream_t stream = memory.stream;
    if (out.rows >= kSlot || chunks.count >= kSlot)
        throw Failure(BB_INVALID, "the matrix has too many rows for one device");
    // Chunks are in order of rows.
    const Array<uint32_t> row_first = firsts_of<uint32_t>(memory, chunks.row, out.rows);
    Array<uint32_t> place(memory, out.rows), dest(memory, chunks.count);
    Array<uint8_t> mark(memory, out.rows);
    mark_parted<<<blocks_for(out.rows), kThreads, 0, stream>>>(row_first.data(), out.rows, mark.data());
    BB_CHECK(cudaGetLastError());
    out.parted = positions_of(memory, mark);
    const int64_t count = out.parted.size();
    Array<uint32_t> of_row(memory, count);
    count_slots<<<blocks_for(count), kThreads, 0, stream>>>(row_first.data(), out.parted.data(), count,
                                                            of_row.data(), place.data());
    BB_CHECK(cudaGetLastError());
    out.slot = offsets_of(memory, of_row);
    destinations<<<blocks_for(chunks.count), kThreads, 0, stream>>>(
        chunks.row.data(), chunks.count, row_first.data(), place.data(), out.slot.data(), dest.data());
    BB_CHECK(cudaGetLastError());
    if (count) {
        const int64_t slots = out.slot.at(count);
        const double mean = double(slots) / double(count);
        while (out.log2_lanes < 5 && mean > double(2 << out.log2_lanes)) out.log2_lanes++;
        mark = Array<uint8_t>(memory, count);
        mark_long<<<blocks_for(count), kThreads, 0, stream>>>(out.slot.data(), count,
                                                              many_slots(out.log2_lanes), mark.data());
        BB_CHECK(cudaGetLastError());
        out.longest = positions_of(memory, mark);
        out.partial = Array<unsigned char>(memory, slots * coding.vector_bytes());
    }
    return dest;
}

}  // namespace

Sliced build_sliced(Memory& memory, const Csr& a, const ValueArray& coding, const bb_plan& plan,
                    const bb_device& device, const Array<uint32_t>* order) {
    Sliced out;
    out.cut = cut_of(plan, a.cols);
    out.rows = a.rows;
    out.cols = a.cols;
    // In the narrow form a row belongs to one thread, however long it is.
    const int cap =
        plan.kernel == BB_NARROW ? int(std::min<int64_t>(std::max<int64_t>(a.cols, 1), 0xFFF)) : plan.cap;
    if (out.cut.shared > tuning::kShortTile || (plan.cap < 8 && plan.kernel != BB_NARROW) || plan.cap < 1 ||
        cap > 0xFFF || (out.cut.shared && out.cut.tile > tuning::kShortTile))
        throw Failure(BB_INVALID, "plan: tile or cap out of range");

    Entries entries;
    entries.col = a.col.data();
    Array<uint32_t> row_of;
    if (out.cut.shared + out.cut.gathered > 1 || out.cut.by_count) row_of = expand_rows(memory, a);
    if (out.cut.by_count) {
        Array<uint32_t> rank(memory, a.cols);
        invert<<<blocks_for(a.cols), kThreads, 0, memory.stream>>>(order->data(), a.cols, rank.data());
        Array<uint16_t> key(memory, a.nnz);
        tile_keys<<<blocks_for(a.nnz), kThreads, 0, memory.stream>>>(a.col.data(), rank.data(), a.nnz,
                                                                     out.cut, key.data());
        BB_CHECK(cudaGetLastError());
        entries.position = sort_with_positions(memory, key, uint64_t(out.cut.shared + out.cut.gathered));
        entries.own_col = Array<uint32_t>(memory, a.nnz);
        entries.row = Array<uint32_t>(memory, a.nnz);
        regroup<<<blocks_for(a.nnz), kThreads, 0, memory.stream>>>(
            a.col.data(), rank.data(), row_of.data(), entries.position.data(), a.nnz, entries.own_col.data(),
            entries.row.data());
        BB_CHECK(cudaGetLastError());
        entries.col = entries.own_col.data();
        out.order = Array<uint32_t>(memory, a.cols);
        BB_CHECK(cudaMemcpyAsync(out.order.data(), order->data(), size_t(out.order.bytes()),
                                 cudaMemcpyDefault, memory.stream));
        out.permuted_x = Array<unsigned char>(memory, a.cols * coding.vector_bytes());
    }
    Fragments fragments = find_fragments(memory, a, out.cut, entries, row_of);
    row_of.reset();
    Chunks chunks = chop_fragments(memory, fragments, a, out.cut, cap);
    fragments = Fragments();
    const Array<uint32_t> dest = place_sums(memory, chunks, coding, out);
    const Array<uint32_t> sorted =
        sort_with_positions(memory, chunks.key, uint64_t(out.cut.shared + out.cut.gathered) << 48);

    std::vector<Run> runs;
    if (chunks.count) runs = find_runs(memory, chunks.key);
    for (const Run& run : runs) out.widest = std::max(out.widest, key_width(run.key));
    chunks.key.reset();
    const Layout layout = lay_out(runs, out.cut, plan.kernel == BB_NARROW ? tuning::kNarrowItem : cap);
    out.elements = layout.elements;
    out.shared_elements = layout.shared_elements;
    out.items = Array<Item>(memory, layout.items);
    out.dest = Array<uint32_t>(memory, layout.dests);
    out.local = Array<unsigned char>(memory, int64_t(layout.shared_elements) * out.cut.index_bytes);
    out.far = Array<uint32_t>(memory, int64_t(layout.elements - layout.shared_elements));
    out.values = Array<unsigned char>(memory, int64_t(layout.elements) * coding.value_bytes());
    out.tile_item = on_device(memory, layout.tile_item);
    out.shared_bytes = out.cut.shared ? (out.cut.tile + 1) * coding.vector_bytes() : 0;
    if (coding.coding == BB_DICTIONARY) out.shared_bytes += 256 * coding.vector_bytes();
    const int resident = plan.kernel == BB_NARROW ? 1 : resident_blocks(device, out.shared_bytes);
    if (resident == 0)
        throw Failure(BB_INVALID, "plan: the tile does not fit the shared memory of the device");
    out.threads = tuning::sliced_threads(coding.coding == BB_ONES) / resident;
    out.blocks = device.multiprocessors * resident;
    out.shares = on_device(memory, shares_of(runs, layout, out.cut, coding, out.blocks, resident));
    if (layout.items) {
        const Array<Run> device_runs = on_device(memory, runs);
        const FillArguments arguments = {device_runs.data(), int(runs.size()),     layout.items,
                                         sorted.data(),      chunks.start.data(),  chunks.length.data(),
                                         dest.data(),        entries.col,          entries.position.data(),
                                         a.values.data(),    coding.value_bytes(), out.cut,
                                         out.shared_elements};
        const auto run_fill = [&](auto* values) {
            fill<<<blocks_for(int64_t(layout.items) * 32), kThreads, 0, memory.stream>>>(
                arguments, out.items.data(), out.dest.data(), out.local.data(), out.far.data(), values);
            BB_CHECK(cudaGetLastError());
        };
        with_stored(coding.value_bytes(), out.values.data(), run_fill);
        BB_CHECK(cudaStreamSynchronize(memory.stream));  // device_runs must outlive the kernel's start
    }
    return out;
}

}  // namespace bmrm
