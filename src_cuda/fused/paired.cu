// The paired form built and run.  Lengths of rows, and of what columns have in each stretch, go to the host,
// which lays the slices out; the device then puts every nonzero in its two places, in an order that suits the
// banks of shared memory.
#include <algorithm>

#include "formats/tuning.h"
#include "fused/kernels/banks.cuh"
#include "fused/kernels/paired.cuh"
#include "fused/paired.h"
#include "runtime/occupancy.h"
#include "runtime/partial_sums.cuh"

namespace bmrm {

namespace {

constexpr int kThreads = 256, kDealers = 32;

// Where the rows of each stretch begin within a column: columns x (stretches + 1).
__global__ void find_starts(const int64_t* ptr, const uint32_t* row, int64_t columns, int stretches,
                            int64_t stretch, uint32_t* start) {
    BB_FOR (i, columns * (stretches + 1)) {
        const int64_t c = i / (stretches + 1), first_row = i % (stretches + 1) * stretch;
        int64_t low = ptr[c], high = ptr[c + 1];
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (int64_t(row[middle]) < first_row)
                low = middle + 1;
            else
                high = middle;
        }
        start[i] = uint32_t(low - ptr[c]);
    }
}

// The matrix both ways, and where its chunks lie.
struct Parts {
    const int64_t *row_ptr, *column_ptr;
    const uint32_t *column, *row;  // of each nonzero by rows; by columns
    int64_t rows, columns, stretch;
    int32_t count;                                  // stretches
    const PairedPlace *row_places, *column_places;  // of each row; of stretches x columns
    const uint32_t* start;                          // of find_starts
    const uint32_t* first;                          // of each stretch within the image

    __device__ __forceinline__ ChunkEntries in_row(int64_t r) const {
        return {row_ptr[r], uint32_t(row_ptr[r + 1] - row_ptr[r])};
    }
    __device__ __forceinline__ ChunkEntries in_column(int64_t c, int64_t g) const {
        const uint32_t* from = start + c * (count + 1) + g;
        return {column_ptr[c] + from[0], from[1] - from[0]};
    }
};

// Calls f(stretch of the image, its number, destinations of a slice) for each slice of a phase, a thread
// each.
template <class F>
__device__ __forceinline__ void for_slices(const Parts& parts, uint4* image, int phase, F&& f) {
    const int64_t g = blockIdx.x;
    unsigned char* all = reinterpret_cast<unsigned char*>(image + parts.first[g]);
    const PairedStretch own = *reinterpret_cast<const PairedStretch*>(all);
    const uint16_t* dest = reinterpret_cast<const uint16_t*>(all + own.dest_at());
    const uint32_t first = phase ? own.slices[0] : 0;
    for (uint32_t s = threadIdx.x; s < own.slices[phase]; s += blockDim.x) f(all, g, dest + (first + s) * 32);
}

// order[p]: place of the nonzero p among those of its row.
template <class T>
__global__ void order_rows(const Parts parts, uint4* image, uint16_t* order) {
    for_slices(parts, image, 0, [&](unsigned char*, int64_t g, const uint16_t* dest) {
        deal_out<T>(
            dest, [&](uint32_t r) { return parts.in_row(g * parts.stretch + r); },
            [&](int64_t p) { return parts.column[p] + 1; },
            [&](uint32_t, int64_t p, uint32_t place) { order[p] = uint16_t(place); });
    });
}

// A warp puts the nonzeros of a row in their places, and tells the columns: where[q] is what the second phase
// reads for the nonzero q of X by columns.
template <class T, int CODING, class Index>
__global__ void place_rows(const Parts parts, const void* values, const void* dictionary,
                           const uint16_t* order, uint4* image, uint16_t* where) {
    const Elements<T, CODING, uint32_t, ONCE> elements(parts.column, values, 0, 0,
                                                       static_cast<const T*>(dictionary));
    const uint32_t lane = threadIdx.x % 32;
    for (int64_t r = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32; r < parts.rows;
         r += int64_t(gridDim.x) * blockDim.x / 32) {
        const int64_t g = r / parts.stretch;
        unsigned char* all = reinterpret_cast<unsigned char*>(image + parts.first[g]);
        const PairedStretch own = *reinterpret_cast<const PairedStretch*>(all);
        Index* at = reinterpret_cast<Index*>(all + own.columns_at());
        T* value = reinterpret_cast<T*>(all + own.values_at(sizeof(Index))) + kPairedFirst<T>;
        for (int64_t p = parts.row_ptr[r] + lane; p < parts.row_ptr[r + 1]; p += 32) {
            const int64_t c = parts.column[p];
            const uint32_t here = paired_element(parts.row_places[r], order[p]);
            at[here] = Index(c + 1);
            if (CODING != BB_ONES) value[here] = elements.at(uint64_t(p));
            const ChunkEntries column = parts.in_column(c, g);
            int64_t low = column.first, high = column.first + column.count;
            while (low + 1 < high) {
                const int64_t middle = (low + high) / 2;
                if (int64_t(parts.row[middle]) <= r)
                    low = middle;
                else
                    high = middle;
            }
            where[low] = uint16_t(CODING == BB_ONES ? r - g * parts.stretch + 1 : kPairedFirst<T> + here);
        }
    }
}

template <class T, class Index>
__global__ void place_columns(const Parts parts, const uint16_t* where, uint4* image) {
    for_slices(parts, image, 1, [&](unsigned char* all, int64_t g, const uint16_t* dest) {
        const uint32_t places_at = reinterpret_cast<const PairedStretch*>(all)->places_at(sizeof(Index));
        uint16_t* from = reinterpret_cast<uint16_t*>(all + places_at);
        deal_out<T>(
            dest, [&](uint32_t c) { return parts.in_column(c, g); },
            [&](int64_t q) { return uint32_t(where[q]); },
            [&](uint32_t c, int64_t q, uint32_t place) {
                from[paired_element(parts.column_places[g * parts.columns + c], place)] = where[q];
            });
    });
}

// Stretches of as many rows as leave each multiprocessor one at most.
PairedSizes cut_rows(const Csr& rows, const ValueArray& coding, const bb_device& device) {
    const int64_t blocks = std::min(device.multiprocessors, kMostStretches);
    const int64_t even = (rows.rows + blocks - 1) / blocks;
    return {rows.rows, rows.cols, std::max(even, tuning::kLeastStretch),
            coding.coding == BB_ONES ? 0 : coding.vector_bytes(), rows.cols < 256 ? 1 : 2};
}

// Bytes of the vectors beside a stretch.
int64_t vector_room(const PairedSizes& sizes, int64_t vector_bytes) {
    const int64_t slopes = sizes.value_bytes ? 0 : sizes.stretch + 1;
    return 3 * 8 * sizes.stretch + vector_bytes * (sizes.columns + 1 + slopes);
}

template <class F>
void with_kind(const ValueArray& coding, int64_t index_bytes, F&& f) {
    with_values(coding.type, coding.coding, [&](auto kind) {
        if (index_bytes == 1)
            f(kind, uint8_t());
        else
            f(kind, uint16_t());
    });
}

}  // namespace

Paired::Paired(Memory& memory, const Csr& rows, const Csr& columns, const ValueArray& coding,
               const bb_device& device)
    : rows_(rows.rows), columns_(rows.cols) {
    const int64_t room = std::min<int64_t>(device.shared_per_block,
                                           device.shared_per_multiprocessor / 2 - tuning::kReservedShared);
    const PairedSizes sizes = cut_rows(rows, coding, device);
    stretch_ = sizes.stretch;
    blocks_ = int(sizes.stretches());
    const int64_t vectors = vector_room(sizes, coding.vector_bytes());
    const int64_t least = rows.nnz * (sizes.value_bytes + sizes.index_bytes + 2);
    if (rows.repeated || rows.nnz == 0 || columns_ > kPairedLongest || stretch_ > kPairedLongest ||
        least > blocks_ * room || vectors > room)
        return;

    Array<uint32_t> start(memory, columns_ * (blocks_ + 1));
    find_starts<<<blocks_for(start.size()), kThreads, 0, memory.stream>>>(
        columns.ptr.data(), columns.col.data(), columns_, blocks_, stretch_, start.data());
    BB_CHECK(cudaGetLastError());
    PairedImage image = lay_out(sizes, rows.ptr.to_host().data(), start.to_host().data());
    vectors_at_ = uint32_t(image.largest);
    shared_bytes_ = image.largest + vectors;
    if (shared_bytes_ > room) return;
    // As much that two blocks fit, and not more: else blocks of the next launch come to lie side by side.
    shared_bytes_ = std::max(shared_bytes_, device.shared_per_multiprocessor / 3);
    // One warp more than there are slices, for the risk.
    threads_ = 32 * int(std::clamp<uint32_t>(image.most_slices + 1, 4, kPairedThreads / 32));

    first_ = std::move(image.first);
    image_ = Array<uint4>(memory, first_.back());
    image_.from_host(reinterpret_cast<const uint4*>(image.bytes.data()), image_.size());
    block_sums_ = Array<unsigned char>(memory, blocks_ * columns_ * coding.vector_bytes());
    block_sums_.fill_bytes(0);
    block_risks_ = Array<double>(memory, blocks_);
    const Array<PairedPlace> of_row = on_device(memory, image.rows);
    const Array<PairedPlace> of_column = on_device(memory, image.columns);
    const Array<uint32_t> begins = on_device(memory, first_);
    const Parts parts = {rows.ptr.data(), columns.ptr.data(), rows.col.data(), columns.col.data(),
                         rows_,           columns_,           stretch_,        blocks_,
                         of_row.data(),   of_column.data(),   start.data(),    begins.data()};
    Array<uint16_t> order(memory, rows.nnz), where(memory, rows.nnz);
    with_kind(coding, sizes.index_bytes, [&](auto kind, auto index) {
        using T = typename decltype(kind)::T;
        using Index = decltype(index);
        constexpr int CODING = decltype(kind)::CODING;
        order_rows<T><<<blocks_, kDealers, 0, memory.stream>>>(parts, image_.data(), order.data());
        place_rows<T, CODING, Index><<<blocks_for(rows_ * 32), kThreads, 0, memory.stream>>>(
            parts, rows.values.data(), coding.dictionary.data(), order.data(), image_.data(), where.data());
        place_columns<T, Index><<<blocks_, kDealers, 0, memory.stream>>>(parts, where.data(), image_.data());
        kernel_ = reinterpret_cast<const void*>(&paired_pass<T, CODING == BB_ONES, Index>);
    });
    BB_CHECK(cudaGetLastError());
    BB_CHECK(cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, int(room)));
    BB_CHECK(cudaStreamSynchronize(memory.stream));
    memory_ = &memory;
}

void Paired::fused(const ValueArray& coding, int loss, double parameter, double scale, const void* w,
                   bb_numbers labels, bb_numbers weights, void* margins, void* gradient, double* risk) {
    PairedView view = {image_.data(),     block_sums_.data(), block_risks_.data(), rows_,
                       int32_t(stretch_), int32_t(columns_),  vectors_at_,         {}};
    std::copy(first_.begin(), first_.end(), view.first);
    FusedInput input = {loss, parameter, scale, labels, weights};
    void* arguments[] = {&view, &input, &w, &margins};
    const NextLaunch begin(unsigned(blocks_), threads_, shared_bytes_, memory_->stream, memory_->overlaps);
    begin(kernel_, arguments);
    by_type(coding.type, [&](auto t) {
        using T = decltype(t);
        add_up(reinterpret_cast<const T*>(block_sums_.data()), blocks_, columns_, columns_,
               static_cast<T*>(gradient), {block_risks_.data(), 1, risk}, memory_->stream, memory_->chains);
    });
}

}  // namespace bmrm
