// The binned product: how it is built from compressed rows, on the device, and multiplied
// (kernels/binned.cuh).
//
// A region is a fixed number of consecutive nonzeros, wherever rows begin or end in it: a row at the edge of
// two regions has a partial sum in each.  A stable sort by tile puts nonzeros in order of (tile, region);
// equal pairs are bins.  Sorting the bins by region gives the places of each bin's products.
#include <algorithm>

#include "formats/kernels/binned.cuh"
#include "formats/kernels/listing.cuh"
#include "formats/shares.h"
#include "formats/sliced_product.h"
#include "runtime/device_sort.cuh"
#include "runtime/occupancy.h"

namespace bmrm {

namespace {

constexpr int kThreads = 256;

__global__ void column_tiles(const uint32_t* col, int64_t nnz, int64_t tile, uint16_t* key) {
    BB_FOR (i, nnz) key[i] = uint16_t(col[i] / tile);
}

__global__ void bin_heads(const uint16_t* tile, const uint32_t* position, int64_t nnz, int64_t region,
                          uint8_t* head) {
    BB_FOR (i, nnz)
        head[i] = i == 0 || tile[i] != tile[i - 1] || position[i] / region != position[i - 1] / region;
}

// For bins in order of (tile, region): the quads of each, and the region to sort by.
__global__ void measure_bins(const uint32_t* start, int64_t bins, int64_t nnz, const uint32_t* position,
                             int64_t region, uint32_t* quads, uint32_t* of_region) {
    BB_FOR (b, bins) {
        const int64_t end = b + 1 < bins ? start[b + 1] : nnz;
        quads[b] = uint32_t((end - start[b] + 3) / 4);
        of_region[b] = uint32_t(position[start[b]] / region);
    }
}

// `sums`: quads before a bin in order of (region, tile).  Regions begin `stride` quads apart.
__global__ void place_bins(const uint32_t* order, const uint32_t* sorted_region, const uint32_t* sums,
                           const uint32_t* region_first, int64_t bins, uint32_t stride, uint32_t* dest) {
    BB_FOR (b, bins) {
        const uint32_t region = sorted_region[b];
        dest[order[b]] = region * stride + (sums[b] - sums[region_first[region]]);
    }
}

__global__ void region_sizes(const uint32_t* first, const uint32_t* sums, int64_t regions, uint32_t* size) {
    BB_FOR (r, regions) size[r] = (sums[first[r + 1]] - sums[first[r]]) * 4;
}

// The first quad of each tile; bins are in order of tiles.
__global__ void first_of_tiles(const uint32_t* start, const uint16_t* tile, const uint32_t* first_quad,
                               int64_t bins, int64_t tiles, uint32_t* tile_quad) {
    BB_FOR (b, bins + 1) {
        const int64_t from = b == 0 ? 0 : int64_t(tile[start[b - 1]]) + 1;
        const int64_t to = b == bins ? tiles : tile[start[b]];
        for (int64_t t = from; t <= to; t++) tile_quad[t] = first_quad[b];
    }
}

struct BinLayout {
    const uint32_t *start, *first_quad, *quads,
        *dest;                 // per bin: first nonzero, first quad, quads, products
    const uint32_t* position;  // of the nonzeros, in order of bins
    const uint16_t* tile_of;
    int64_t bins, nnz, tile;
};

// A warp fills a bin, and stores for each of its nonzeros where its product will be.
template <class V>
__global__ void fill_bins(const BinLayout a, const uint32_t* col, const V* source, uint16_t* local, V* values,
                          uint32_t* quad_dest, uint32_t* product_of) {
    const int64_t b = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
    if (b >= a.bins) return;
    const uint32_t start = a.start[b], length = uint32_t((b + 1 < a.bins ? a.start[b + 1] : a.nnz) - start);
    const uint32_t first = a.first_quad[b], dest = a.dest[b], base = uint32_t(a.tile_of[start] * a.tile);
    for (uint32_t k = threadIdx.x % 32; k < a.quads[b] * 4; k += 32) {
        const uint64_t to = uint64_t(first) * 4 + k;
        uint16_t index = uint16_t(a.tile);
        V value = V();
        if (k < length) {
            const uint32_t from = a.position[start + k];
            index = uint16_t(col[from] - base);
            if (source) value = source[from];
            product_of[from] = dest * 4 + k;
        }
        local[to] = index;
        if (values) values[to] = value;
        if (k % 4 == 0) quad_dest[first + k / 4] = dest + k / 4;
    }
}

// The row of each product, from the list of the second half, whose columns are the products.
__global__ void place_rows(const uint64_t* keys, int64_t count, uint32_t* row) {
    BB_FOR (i, count)
        if (keys[i] != kPadding) row[uint32_t(keys[i])] = uint32_t(keys[i] >> 32);
}

// Lists the elements of bins; `row`: of each product.
template <class T, int CODING>
__global__ void list_bins(const BinnedView view, int64_t elements, int64_t tiles, const uint32_t* row,
                          const Listing to) {
    const Elements<T, CODING, uint16_t, ONCE> e(view.local, view.values, 0, 0,
                                                static_cast<const T*>(view.dictionary));
    BB_FOR (i, elements) {
        const uint32_t at = view.local[i];
        if (at == view.tile) {
            to.keys[i] = kPadding;
            continue;
        }
        const int64_t quad = i / 4, tile = last_begun(view.tile_quad, 0, tiles - 1, quad);
        put_element(to, uint64_t(i), row[view.dest[quad] * 4 + i % 4], uint32_t(tile * view.tile + at),
                    e.at(uint64_t(i)));
    }
}

// Returns the quads of each tile that each block takes.  A quad moves four values and indices, a place, and
// four products.
std::vector<BlockShare> shares_of(const std::vector<uint32_t>& tile_quad, int64_t tile,
                                  const ValueArray& coding, int blocks, int resident) {
    const double cost = 4.0 * double(coding.value_bytes() + 2 + coding.vector_bytes()) + 4;
    std::vector<ItemRun> runs;
    for (size_t t = 0; t + 1 < tile_quad.size(); t++)
        if (tile_quad[t] < tile_quad[t + 1])
            runs.push_back({tile_quad[t + 1] - tile_quad[t], uint32_t(t), cost});
    const double fill = fill_cost(tile * coding.vector_bytes(), resident);
    return share_out(runs, int(tile_quad.size()) - 1, fill, blocks);
}

class Binned : public Product {
  public:
    explicit Binned(const Source& from);
    int64_t format_bytes() const override {
        return dest_.bytes() + local_.bytes() + values_.bytes() + 2 * products_.bytes() +
               rows_->slices().bytes();
    }
    void each_array(const ArrayVisitor& visit) override {
        visit(tile_quad_, false);
        visit(shares_, false);
        visit(dest_, false);
        visit(local_, false);
        visit(values_, false);
        visit(region_size_, false);
        visit(products_, true);
        rows_->each_array(visit);
    }
    int64_t elements() const override { return local_.size(); }
    int64_t listing_bytes() const override { return 8 * rows_->elements() + 4 * rows_->slices().cols; }
    void list(const Listing& to) override {
        Array<uint64_t> keys(memory_, rows_->elements());
        Array<uint32_t> row(memory_, rows_->slices().cols);  // of each product
        rows_->list({keys.data(), nullptr});
        place_rows<<<blocks_for(keys.size()), kThreads, 0, memory_.stream>>>(keys.data(), keys.size(),
                                                                             row.data());
        with_values(coding_.type, coding_.coding, [&](auto kind) {
            using T = typename decltype(kind)::T;
            list_bins<T, decltype(kind)::CODING><<<blocks_for(elements()), kThreads, 0, memory_.stream>>>(
                view(), elements(), tile_quad_.size() - 1, row.data(), to);
        });
        BB_CHECK(cudaGetLastError());
    }

  protected:
    void apply_one(const void* x, void* y) override {
        BinnedView view = this->view();
        void* products = products_.data();
        void* arguments[] = {&view, &x, &products};
        const NextLaunch launch(unsigned(blocks_), threads_, shared_bytes_, memory_.stream, memory_.overlaps);
        launch(kernel_, arguments);
        rows_->launch(region_size_.data(), products, y, memory_.chains);
    }

  private:
    BinnedView view() const {
        return {tile_quad_.data(),         shares_.data(), dest_.data(), local_.data(), values_.data(),
                coding_.dictionary.data(), cols_,          tile_};
    }

    const int64_t cols_, tile_;
    const void* kernel_ = nullptr;
    Array<uint32_t> tile_quad_, dest_;
    Array<BlockShare> shares_;  // of the blocks of the first half, in quads
    Array<uint16_t> local_;
    Array<unsigned char> values_, products_;
    Array<uint32_t> region_size_;  // products per region, for the second half
    int blocks_ = 0, threads_ = 0;
    int64_t shared_bytes_ = 0;
    ValueArray ones_;                      // of the second half
    std::unique_ptr<SlicedProduct> rows_;  // the second half: a matrix of ones, one tile per region
};

Binned::Binned(const Source& from) : Product(from), cols_(from.a.cols), tile_(from.plan.tile) {
    Memory& memory = from.memory;
    const Csr& a = from.a;
    const ValueArray& coding = from.coding;
    const bb_plan& plan = from.plan;
    const int64_t tiles = (a.cols + tile_ - 1) / std::max<int64_t>(tile_, 1),
                  room = (tile_ / 2 - 256) / 4 * 4, region = room - 3 * tiles;
    // A region is half a tile: two blocks share a multiprocessor, and one adds while the other fills.
    if (tile_ < 1024 || tile_ > tuning::kShortTile || region < room / 4)
        throw Failure(BB_INVALID, "plan: too many tiles for regions of this size");
    const int64_t regions = (a.nnz + region - 1) / region, stride = room / 4;
    if (regions * stride * 4 > 0xFFFFFFFF || tiles > 0xFFFF || regions > 0xFFFF)
        throw Failure(BB_INVALID, "plan: the matrix has too many nonzeros for bins");
    const auto launch_size = [](int64_t n) { return blocks_for(n, kThreads); };
    const cudaStream_t stream = memory.stream;

    Array<uint16_t> key(memory, a.nnz);
    column_tiles<<<launch_size(a.nnz), kThreads, 0, stream>>>(a.col.data(), a.nnz, tile_, key.data());
    BB_CHECK(cudaGetLastError());
    const Array<uint32_t> position = sort_with_positions(memory, key, uint64_t(tiles));
    Array<uint8_t> head(memory, a.nnz);
    bin_heads<<<launch_size(a.nnz), kThreads, 0, stream>>>(key.data(), position.data(), a.nnz, region,
                                                           head.data());
    BB_CHECK(cudaGetLastError());
    const Array<uint32_t> start = positions_of(memory, head);
    head.reset();
    const int64_t count = start.size();
    Array<uint32_t> quads(memory, count), of_region(memory, count), dest(memory, count);
    measure_bins<<<launch_size(count), kThreads, 0, stream>>>(start.data(), count, a.nnz, position.data(),
                                                              region, quads.data(), of_region.data());
    BB_CHECK(cudaGetLastError());
    const Array<uint32_t> first_quad = offsets_of(memory, quads);
    const Array<uint32_t> order = sort_with_positions(memory, of_region, uint64_t(regions));
    const Array<uint32_t> region_first = firsts_of<uint32_t>(memory, of_region, regions);
    const Array<uint32_t> sums = offsets_of(memory, picked(memory, quads, order));
    place_bins<<<launch_size(count), kThreads, 0, stream>>>(order.data(), of_region.data(), sums.data(),
                                                            region_first.data(), count, uint32_t(stride),
                                                            dest.data());
    region_size_ = Array<uint32_t>(memory, regions);
    region_sizes<<<launch_size(regions), kThreads, 0, stream>>>(region_first.data(), sums.data(), regions,
                                                                region_size_.data());
    tile_quad_ = Array<uint32_t>(memory, tiles + 1);
    first_of_tiles<<<launch_size(count + 1), kThreads, 0, stream>>>(
        start.data(), key.data(), first_quad.data(), count, tiles, tile_quad_.data());
    BB_CHECK(cudaGetLastError());

    const int64_t quad_count = first_quad.at(count), elements = quad_count * 4;
    dest_ = Array<uint32_t>(memory, quad_count);
    local_ = Array<uint16_t>(memory, elements);
    values_ = Array<unsigned char>(memory, elements * coding.value_bytes());
    Csr second;
    second.rows = a.rows;
    second.cols = regions * stride * 4;
    second.nnz = a.nnz;
    second.col = Array<uint32_t>(memory, a.nnz);
    second.ptr = Array<int64_t>(memory, a.rows + 1);
    BB_CHECK(cudaMemcpyAsync(second.ptr.data(), a.ptr.data(), size_t(second.ptr.bytes()),
                             cudaMemcpyDeviceToDevice, stream));
    const BinLayout layout = {
        start.data(), first_quad.data(), quads.data(), dest.data(), position.data(), key.data(), count, a.nnz,
        tile_};
    const auto fill = [&](auto* values) {
        using V = std::remove_pointer_t<decltype(values)>;
        fill_bins<<<launch_size(count * 32), kThreads, 0, stream>>>(
            layout, a.col.data(), values ? reinterpret_cast<const V*>(a.values.data()) : nullptr,
            local_.data(), values, dest_.data(), second.col.data());
        BB_CHECK(cudaGetLastError());
    };
    with_stored(coding.value_bytes(), values_.data(), fill);

    shared_bytes_ = (tile_ + 1 + (coding.coding == BB_DICTIONARY ? 256 : 0)) * coding.vector_bytes();
    const int resident = resident_blocks(from.device, shared_bytes_);
    if (resident == 0)
        throw Failure(BB_INVALID, "plan: the tile does not fit the shared memory of the device");
    threads_ = tuning::kBinnedThreads / resident;
    blocks_ = from.device.multiprocessors * resident;
    shares_ = on_device(memory, shares_of(tile_quad_.to_host(), tile_, coding, blocks_, resident));
    products_ = Array<unsigned char>(memory, regions * stride * 4 * coding.vector_bytes());
    ones_.type = coding.type;
    ones_.coding = BB_ONES;
    const bb_plan rows = {BB_TILED, 0, plan.cap, 0, stride * 4};
    rows_ = std::make_unique<SlicedProduct>(Source{memory, second, ones_, rows, from.device, nullptr});
    with_values(coding.type, coding.coding, [&](auto kind) {
        kernel_ = reinterpret_cast<const void*>(
            &binned_products<typename decltype(kind)::T, decltype(kind)::CODING>);
    });
    BB_CHECK(cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  int(from.device.shared_per_block)));
}

}  // namespace

std::unique_ptr<Product> make_binned(const Source& from) { return std::make_unique<Binned>(from); }

}  // namespace bmrm
