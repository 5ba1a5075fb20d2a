// The sliced format (formats/sliced.h) built on the host, one step after the other, from the functions of
// that header from which the device builds it: with it the tests see the format and the shares of blocks on a
// machine without a GPU.  sliced_format.py compiles this file.
//
// The order of everything is part of the format: rows, then tiles, then chunks number the slots; a stable
// sort by chunk_key orders the chunks; equal keys make a run.
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "formats/shares.h"
#include "formats/sliced.h"

namespace bmrm {
namespace {

// Compressed rows; `values` may be null for ones.
struct HostRows {
    const int64_t* ptr;
    const int32_t* col;
    const double* values;
    int64_t rows, cols;
};

struct SlicedFormat {
    Cut cut;
    int64_t rows, cols;
    bool direct;  // each row is one chunk, whose destination is the row; else destinations are slots
    uint64_t shared_elements;
    std::vector<Item> items;
    std::vector<uint32_t> dest;
    std::vector<uint32_t> index;  // of every element: local in the shared tiles, global in the gathered one
    std::vector<double> values;   // of every element
    std::vector<uint32_t> tile_item;  // first item of each tile, and one past the last
    std::vector<uint32_t> row_slot;   // first slot of each row, and one past the last; empty if direct
    std::vector<uint32_t> order;      // columns by popularity if the cut is by_count, else as they are
};

constexpr uint32_t kGatheredPadding = 0xFFFFFFFFu;

struct Chunk {
    uint64_t key;
    int64_t row;
    std::vector<int64_t> places;  // of its nonzeros in the matrix
};

std::vector<uint32_t> column_order(const HostRows& matrix, bool by_count) {
    std::vector<uint32_t> order(size_t(matrix.cols));
    std::iota(order.begin(), order.end(), 0u);
    if (!by_count) return order;
    std::vector<int64_t> count(order.size());
    for (int64_t k = 0; k < matrix.ptr[matrix.rows]; k++) count[size_t(matrix.col[k])]++;
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return count[a] > count[b]; });
    return order;
}

// Tile of a column by its rank.
int tile_of(const Cut& cut, uint32_t rank) {
    return cut.shared ? int(std::min<int64_t>(rank / cut.tile, cut.shared)) : 0;
}

void add_chunks(std::vector<Chunk>& chunks, int tile, int64_t row, const std::vector<int64_t>& fragment,
                int cap) {
    const int64_t length = int64_t(fragment.size());
    auto from = fragment.begin();
    for (int64_t k = 0; k < chunks_of(length, cap); k++) {
        const int64_t part = chunk_length(length, k, cap);
        chunks.push_back({uint64_t(tile), row, {from, from + part}});
        from += part;
    }
}

// Chunks in order of rows, tiles and places.
std::vector<Chunk> cut_chunks(const HostRows& matrix, const Cut& cut, const std::vector<uint32_t>& rank,
                              int cap) {
    const int tiles = cut.shared + cut.gathered;
    std::vector<Chunk> chunks;
    std::vector<std::vector<int64_t>> fragments(static_cast<size_t>(tiles));
    for (int64_t row = 0; row < matrix.rows; row++) {
        std::vector<int64_t> places(size_t(matrix.ptr[row + 1] - matrix.ptr[row]));
        std::iota(places.begin(), places.end(), matrix.ptr[row]);
        std::stable_sort(places.begin(), places.end(),
                         [&](int64_t a, int64_t b) { return matrix.col[a] < matrix.col[b]; });
        for (auto& fragment : fragments) fragment.clear();
        for (int64_t place : places)
            fragments[size_t(tile_of(cut, rank[size_t(matrix.col[place])]))].push_back(place);
        for (int tile = 0; tile < tiles; tile++)
            if (tiles == 1 || !fragments[size_t(tile)].empty())
                add_chunks(chunks, tile, row, fragments[size_t(tile)], cap);
    }
    const double groups = double(tiles) * double((matrix.rows >> kWindowBits) + 1);
    const int grain = width_grain(double(chunks.size()), double(matrix.ptr[matrix.rows]), groups, cap);
    for (Chunk& chunk : chunks)
        chunk.key = chunk_key(chunk.key, uint64_t(chunk.row), int64_t(chunk.places.size()), cap, grain);
    return chunks;
}

std::vector<uint32_t> slots_of_rows(const std::vector<Chunk>& chunks, int64_t rows) {
    std::vector<uint32_t> slot(size_t(rows) + 1);
    for (const Chunk& chunk : chunks) slot[size_t(chunk.row) + 1]++;
    std::partial_sum(slot.begin(), slot.end(), slot.begin());
    return slot;
}

// Lays out the runs of sorted chunks one after the other.
class Layout {
  public:
    Layout(const HostRows& matrix, const std::vector<Chunk>& chunks, const std::vector<uint32_t>& rank,
           int target, SlicedFormat& out)
        : matrix_(matrix), chunks_(chunks), rank_(rank), target_(target), out_(out) {}

    // A run of chunks of one key, named by their slots.
    void add_run(const std::vector<uint32_t>& slots) {
        const uint64_t key = chunks_[slots[0]].key;
        const uint32_t width = key_width(key), log2 = key_log2(key), a_slice = 32 >> log2;
        const uint32_t slices = uint32_t((slots.size() + a_slice - 1) / a_slice);
        start_tiles(key_tile(key));
        const uint32_t an_item = item_slices(width, target_);
        for (uint32_t first = 0; first < slices; first += an_item) {
            const uint64_t offset = out_.values.size() / 32 + uint64_t(first) * width;
            out_.items.push_back({uint32_t(offset), width | log2 << 16, std::min(an_item, slices - first),
                                  uint32_t(out_.dest.size()) + first * a_slice});
        }
        for (uint32_t s = 0; s < slices; s++) add_slice(slots, s * a_slice, width, log2);
    }

    void finish() { start_tiles(uint32_t(out_.cut.shared + out_.cut.gathered)); }

  private:
    void start_tiles(uint32_t until) {
        for (; tile_ <= until; tile_++) {
            out_.tile_item.push_back(uint32_t(out_.items.size()));
            if (tile_ == uint32_t(out_.cut.shared)) out_.shared_elements = out_.values.size();
        }
    }

    void add_slice(const std::vector<uint32_t>& slots, uint32_t first, uint32_t width, uint32_t log2) {
        const uint32_t threads = 1u << log2;
        const uint32_t tile = key_tile(chunks_[slots[0]].key);
        const bool shared = tile < uint32_t(out_.cut.shared);
        const size_t base = out_.values.size();
        out_.values.resize(base + size_t(width) * 32, 0.0);
        out_.index.resize(base + size_t(width) * 32, shared ? uint32_t(out_.cut.tile) : kGatheredPadding);
        for (uint32_t nth = 0; nth < (32u >> log2); nth++) {
            if (first + nth >= slots.size()) {
                out_.dest.push_back(kNowhere);
                continue;
            }
            const uint32_t slot = slots[first + nth];
            const Chunk& chunk = chunks_[slot];
            out_.dest.push_back(out_.direct ? uint32_t(chunk.row) : slot);
            for (size_t p = 0; p < chunk.places.size(); p++) {
                const uint32_t thread = nth * threads + uint32_t(p) % threads, step = uint32_t(p) / threads;
                const size_t at = base + element_place(thread, step, width);
                const int64_t place = chunk.places[p];
                const uint32_t rank = rank_[size_t(matrix_.col[place])];
                out_.index[at] = shared ? rank - uint32_t(tile * out_.cut.tile) : rank;
                out_.values[at] = matrix_.values ? matrix_.values[place] : 1.0;
            }
        }
    }

    const HostRows& matrix_;
    const std::vector<Chunk>& chunks_;
    const std::vector<uint32_t>& rank_;
    const int target_;
    SlicedFormat& out_;
    uint32_t tile_ = 0;
};

// Calls body(tile, destination, index, value) for every element, padding included, chunk by chunk.
template <class Body>
void for_each_element(const SlicedFormat& format, Body&& body) {
    for (size_t tile = 0; tile + 1 < format.tile_item.size(); tile++) {
        for (uint32_t i = format.tile_item[tile]; i < format.tile_item[tile + 1]; i++) {
            const Item& item = format.items[i];
            const uint32_t width = item.shape & 0xFFFF, log2 = item.shape >> 16, a_slice = 32 >> log2;
            for (uint32_t s = 0; s < item.slices; s++) {
                const size_t base = size_t(item.offset) * 32 + size_t(s) * width * 32;
                for (uint32_t thread = 0; thread < 32; thread++) {
                    const uint32_t to = format.dest[item.dest + s * a_slice + (thread >> log2)];
                    for (uint32_t step = 0; step < width; step++) {
                        const size_t at = base + element_place(thread, step, width);
                        body(tile, to, format.index[at], format.values[at]);
                    }
                }
            }
        }
    }
}

bool is_padding(const SlicedFormat& format, size_t tile, uint32_t index) {
    return index == (tile < size_t(format.cut.shared) ? uint32_t(format.cut.tile) : kGatheredPadding);
}

uint32_t column_of(const SlicedFormat& format, size_t tile, uint32_t index) {
    const bool shared = tile < size_t(format.cut.shared);
    return format.order[shared ? size_t(int64_t(tile) * format.cut.tile) + index : index];
}

SlicedFormat build(const HostRows& matrix, const bb_plan& plan) {
    SlicedFormat out{};
    out.cut = cut_of(plan, matrix.cols);
    out.rows = matrix.rows;
    out.cols = matrix.cols;
    const int tiles = out.cut.shared + out.cut.gathered;
    out.order = column_order(matrix, out.cut.by_count != 0);
    std::vector<uint32_t> rank(out.order.size());
    for (size_t i = 0; i < out.order.size(); i++) rank[out.order[i]] = uint32_t(i);

    const std::vector<Chunk> chunks = cut_chunks(matrix, out.cut, rank, plan.cap);
    out.direct = tiles == 1 && int64_t(chunks.size()) == matrix.rows;
    if (!out.direct) out.row_slot = slots_of_rows(chunks, matrix.rows);

    std::vector<uint32_t> sorted(chunks.size());
    std::iota(sorted.begin(), sorted.end(), 0u);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](uint32_t a, uint32_t b) { return chunks[a].key < chunks[b].key; });
    Layout layout(matrix, chunks, rank, item_target(plan), out);
    for (size_t begin = 0, end; begin < sorted.size(); begin = end) {
        for (end = begin; end < sorted.size() && chunks[sorted[end]].key == chunks[sorted[begin]].key;) end++;
        layout.add_run({sorted.begin() + long(begin), sorted.begin() + long(end)});
    }
    layout.finish();
    return out;
}

// y = A x, sums in double.
void multiply(const SlicedFormat& format, const double* x, double* y) {
    std::vector<double> sums(format.direct ? size_t(format.rows) : size_t(format.row_slot.back()));
    for_each_element(format, [&](size_t tile, uint32_t to, uint32_t index, double value) {
        if (to != kNowhere && !is_padding(format, tile, index))
            sums[to] += value * x[column_of(format, tile, index)];
    });
    for (size_t row = 0; row < size_t(format.rows); row++) {
        y[row] = format.direct ? sums[row] : 0.0;
        if (!format.direct)
            for (uint32_t slot = format.row_slot[row]; slot < format.row_slot[row + 1]; slot++)
                y[row] += sums[slot];
    }
}

struct Entry {
    int64_t row, col;
    double value;
};

// What the format holds, without its padding.
std::vector<Entry> decode(const SlicedFormat& format) {
    std::vector<uint32_t> row_of;
    for (size_t row = 0; row + 1 < format.row_slot.size(); row++)
        row_of.resize(format.row_slot[row + 1], uint32_t(row));
    std::vector<Entry> entries;
    for_each_element(format, [&](size_t tile, uint32_t to, uint32_t index, double value) {
        if (is_padding(format, tile, index)) {
            if (value != 0.0) throw std::logic_error("padding holds a value");
            return;
        }
        if (to == kNowhere) throw std::logic_error("a value goes nowhere");
        const int64_t row = format.direct ? to : row_of[to];
        entries.push_back({row, column_of(format, tile, index), value});
    });
    return entries;
}

}  // namespace
}  // namespace bmrm

extern "C" {

// Is given the bytes of one array after the other, by name.
typedef void (*Sink)(const char* name, const void* data, int64_t bytes);

// Builds the format of a plan, gives its arrays to `sink`, and multiplies: y = A x.  Returns 1 if the format
// cannot hold the plan, 2 if it was built wrong, else 0.
int sliced_format(const int64_t* ptr, const int32_t* col, const double* values, int64_t rows, int64_t cols,
                  const bb_plan* plan, const double* x, double* y, Sink sink) {
    if (!bmrm::can_slice(*plan, cols)) return 1;
    const bmrm::SlicedFormat format = bmrm::build({ptr, col, values, rows, cols}, *plan);
    const auto give = [&](const char* name, const auto& array) {
        sink(name, array.data(), int64_t(array.size() * sizeof array[0]));
    };
    const bmrm::Cut& cut = format.cut;
    const std::vector<int64_t> scalars = {cut.tile,
                                          cut.shared,
                                          cut.gathered,
                                          cut.by_count,
                                          cut.index_bytes,
                                          format.direct,
                                          int64_t(format.shared_elements)};
    try {
        give("entries", bmrm::decode(format));
    } catch (const std::logic_error&) {
        return 2;
    }
    give("scalars", scalars);
    give("items", format.items);
    give("dest", format.dest);
    give("index", format.index);
    give("values", format.values);
    give("tile_item", format.tile_item);
    give("row_slot", format.row_slot);
    give("order", format.order);
    bmrm::multiply(format, x, y);
    return 0;
}

// shares: `blocks` of them.
void share_out(const bmrm::ItemRun* runs, int64_t count, int32_t tiles, double fill, int32_t blocks,
               bmrm::BlockShare* shares) {
    const auto found = bmrm::share_out({runs, runs + count}, tiles, fill, blocks);
    std::copy(found.begin(), found.end(), shares);
}

}  // extern "C"
