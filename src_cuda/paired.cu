// The paired form built and run.  Lengths of rows, and of what columns have in each stretch, go to the host,
// which lays the slices out; the device then puts every nonzero in its two places.
#include <algorithm>
#include <cstring>

#include "kernels/paired.cuh"
#include "kernels/parts.cuh"
#include "paired.h"
#include "select.h"
#include "tuning.h"

namespace bmrm {

namespace {

constexpr int kThreads = 256;
constexpr int64_t kUnit = 16;  // bytes of which all parts are multiples

int64_t units(int64_t bytes) { return (bytes + kUnit - 1) / kUnit; }

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

struct PlacesOf {
    const PairedPlace *rows, *columns;  // of each row; of stretches x columns
    const uint32_t* start;              // of find_starts
    const uint32_t* first;              // of each stretch within the image
    int32_t count;                      // stretches
    int64_t stretch;
};

// A warp puts the nonzeros of a row in their places.
template <class T, int CODING, class Index>
__global__ void place_nonzeros(const int64_t* ptr, const uint32_t* col, const void* values,
                               const void* dictionary, int64_t rows, const int64_t* column_ptr,
                               const uint32_t* column_row, int64_t columns, PlacesOf places, uint4* image) {
    const Elements<T, CODING, uint32_t, ONCE> elements(col, values, 0, 0, static_cast<const T*>(dictionary));
    const uint32_t lane = threadIdx.x % 32;
    for (int64_t r = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32; r < rows;
         r += int64_t(gridDim.x) * blockDim.x / 32) {
        const int64_t g = r / places.stretch;
        unsigned char* all = reinterpret_cast<unsigned char*>(image + places.first[g]);
        const PairedStretch own = *reinterpret_cast<const PairedStretch*>(all);
        Index* at = reinterpret_cast<Index*>(all + own.columns_at());
        uint16_t* from = reinterpret_cast<uint16_t*>(all + own.places_at(sizeof(Index)));
        T* value = reinterpret_cast<T*>(all + own.values_at(sizeof(Index))) + kPairedFirst<T>;
        for (int64_t p = ptr[r] + lane; p < ptr[r + 1]; p += 32) {
            const int64_t c = col[p];
            const uint32_t here = paired_element(places.rows[r], uint32_t(p - ptr[r]));
            at[here] = Index(c + 1);
            if (CODING != BB_ONES) value[here] = elements.at(uint64_t(p));
            const uint32_t* start = places.start + c * (places.count + 1) + g;
            int64_t low = column_ptr[c] + start[0], high = column_ptr[c] + start[1];
            const int64_t begin = low;
            while (low + 1 < high) {
                const int64_t middle = (low + high) / 2;
                if (int64_t(column_row[middle]) <= r)
                    low = middle;
                else
                    high = middle;
            }
            const uint32_t there = paired_element(places.columns[g * columns + c], uint32_t(low - begin));
            from[there] = uint16_t(CODING == BB_ONES ? r - g * places.stretch + 1 : kPairedFirst<T> + here);
        }
    }
}

// Bytes of a nonzero's value.
int64_t value_bytes(const ValueArray& coding) { return coding.coding == BB_ONES ? 0 : coding.vector_bytes(); }

int64_t index_bytes(int64_t columns) { return columns < 256 ? 1 : 2; }

// Bytes of the vectors beside a stretch.
int64_t vector_room(int64_t stretch, int64_t columns, const ValueArray& coding) {
    const int64_t slopes = coding.coding == BB_ONES ? stretch + 1 : 0;
    return 3 * 8 * stretch + coding.vector_bytes() * (columns + 1 + slopes);
}

template <class F>
void with_kind(const ValueArray& coding, int64_t columns, F&& f) {
    with_values(coding.type, coding.coding, [&](auto kind) {
        if (index_bytes(columns) == 1)
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
    stretch_ = std::max((rows_ + device.multiprocessors - 1) / device.multiprocessors, tuning::kLeastStretch);
    blocks_ = int((rows_ + stretch_ - 1) / stretch_);
    const int64_t each = value_bytes(coding) + index_bytes(columns_) + 2;
    if (rows.repeated || rows.nnz == 0 || columns_ > kPairedLongest || stretch_ > kPairedLongest ||
        rows.nnz * each > blocks_ * room || vector_room(stretch_, columns_, coding) > room)
        return;

    const int64_t starts = columns_ * (blocks_ + 1);
    Array<uint32_t> start(memory, starts);
    find_starts<<<blocks_for(starts), kThreads, 0, memory.stream>>>(
        columns.ptr.data(), columns.col.data(), columns_, blocks_, stretch_, start.data());
    BB_CHECK(cudaGetLastError());
    const std::vector<int64_t> ptr = rows.ptr.to_host();
    const std::vector<uint32_t> start_at = start.to_host();
    std::vector<PairedPlace> row_places(static_cast<size_t>(rows_));
    std::vector<PairedPlace> column_places(static_cast<size_t>(columns_ * blocks_));
    std::vector<unsigned char> image;
    image.reserve(size_t(rows.nnz * each * 3 / 2));
    int64_t largest = 0;
    uint32_t most_slices = 1;
    for (int64_t b = 0; b < blocks_; b++) {
        const int64_t first = b * stretch_, end = std::min(first + stretch_, rows_);
        std::vector<uint32_t> lengths;
        for (int64_t r = first; r < end; r++)
            lengths.push_back(uint32_t(ptr[size_t(r + 1)] - ptr[size_t(r)]));
        const PairedSlices of_rows =
            pack_chunks(lengths.data(), lengths.size(), true, &row_places[size_t(first)]);
        lengths.clear();
        for (int64_t c = 0; c < columns_; c++) {
            const size_t at = size_t(c * (blocks_ + 1) + b);
            lengths.push_back(start_at[at + 1] - start_at[at]);
        }
        const PairedSlices of_columns =
            pack_chunks(lengths.data(), lengths.size(), false, &column_places[size_t(b * columns_)]);
        const PairedStretch own = {{uint32_t(of_rows.shape.size()), uint32_t(of_columns.shape.size())},
                                   {of_rows.quads, of_columns.quads}};
        most_slices = std::max({most_slices, own.slices[0], own.slices[1]});
        const int64_t values = value_bytes(coding) ? kUnit + own.quads[0] * 128 * value_bytes(coding) : 0;
        const int64_t size = units(own.values_at(uint32_t(index_bytes(columns_))) + values) * kUnit;
        largest = std::max(largest, size);
        first_.push_back(uint32_t(image.size() / kUnit));
        image.resize(image.size() + size_t(size));
        unsigned char* to = image.data() + image.size() - size;
        const auto put = [](unsigned char*& at, const auto& what) {
            std::memcpy(at, what.data(), what.size() * sizeof(what[0]));
            at += what.size() * sizeof(what[0]);
        };
        std::memcpy(to, &own, sizeof own);
        unsigned char *shapes = to + sizeof own, *dest = to + own.dest_at();
        for (const PairedSlices* phase : {&of_rows, &of_columns}) {
            put(shapes, phase->shape);
            put(dest, phase->dest);
        }
    }
    first_.push_back(uint32_t(image.size() / kUnit));
    vectors_at_ = uint32_t(largest);
    shared_bytes_ = largest + vector_room(stretch_, columns_, coding);
    if (shared_bytes_ > room) return;
    // As much that two blocks fit, and not more: else blocks of the next launch come to lie side by side.
    shared_bytes_ = std::max(shared_bytes_, device.shared_per_multiprocessor / 3);
    // One warp more than there are slices, for the risk.
    threads_ = 32 * int(std::clamp<uint32_t>(most_slices + 1, 4, kPairedThreads / 32));

    image_ = Array<uint4>(memory, first_.back());
    image_.from_host(reinterpret_cast<const uint4*>(image.data()), image_.size());
    block_sums_ = Array<unsigned char>(memory, blocks_ * columns_ * coding.vector_bytes());
    block_sums_.fill_bytes(0);
    block_risks_ = Array<double>(memory, blocks_);
    const Array<PairedPlace> of_row = on_device(memory, row_places);
    const Array<PairedPlace> of_column = on_device(memory, column_places);
    const Array<uint32_t> begins = on_device(memory, first_);
    const PlacesOf places = {of_row.data(), of_column.data(), start.data(), begins.data(), blocks_, stretch_};
    with_kind(coding, columns_, [&](auto kind, auto index) {
        using T = typename decltype(kind)::T;
        using Index = decltype(index);
        constexpr int CODING = decltype(kind)::CODING;
        place_nonzeros<T, CODING, Index><<<blocks_for(rows_ * 32), kThreads, 0, memory.stream>>>(
            rows.ptr.data(), rows.col.data(), rows.values.data(), coding.dictionary.data(), rows_,
            columns.ptr.data(), columns.col.data(), columns_, places, image_.data());
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
