#include "formats/kernels/columns.cuh"
#include "formats/kernels/partial.cuh"
#include "formats/kernels/sliced.cuh"
#include "formats/sliced_product.h"

namespace bmrm {

namespace {

template <class T, int CODING>
const void* sliced_kernel(const Cut& cut) {
    const int places = (cut.shared ? SHARED_ONLY : 0) | (cut.gathered ? GATHERED_ONLY : 0);
    if (places == GATHERED_ONLY)
        return reinterpret_cast<const void*>(&sliced_product<T, CODING, uint16_t, GATHERED_ONLY>);
    if (places == SHARED_AND_GATHERED)
        return cut.index_bytes == 1
                   ? reinterpret_cast<const void*>(&sliced_product<T, CODING, uint8_t, SHARED_AND_GATHERED>)
                   : reinterpret_cast<const void*>(&sliced_product<T, CODING, uint16_t, SHARED_AND_GATHERED>);
    return cut.index_bytes == 1
               ? reinterpret_cast<const void*>(&sliced_product<T, CODING, uint8_t, SHARED_ONLY>)
               : reinterpret_cast<const void*>(&sliced_product<T, CODING, uint16_t, SHARED_ONLY>);
}

}  // namespace

SlicedView view_of(const Sliced& s, const ValueArray& coding) {
    return {s.items.data(),     s.dest.data(),   s.local.data(),
            s.far.data(),       s.values.data(), coding.dictionary.data(),
            s.tile_item.data(), s.shares.data(), nullptr,
            s.shared_elements,  s.cols,          s.cut.tile,
            s.cut.shared};
}

SlicedProduct::SlicedProduct(const Source& from)
    : Product(from),
      slices_(build_sliced(from.memory, from.a, from.coding, from.plan, from.device, from.order)) {
    with_values(from.coding.type, from.coding.coding, [&](auto kind) {
        using T = typename decltype(kind)::T;
        constexpr int CODING = decltype(kind)::CODING;
        kernel_ = sliced_kernel<T, CODING>(slices_.cut);
    });
    // The limit belongs to the kernel, which other matrices launch with other tiles.
    BB_CHECK(cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  int(from.device.shared_per_block)));
}

void SlicedProduct::apply_one(const void* x, void* y) {
    const Sliced& s = slices_;
    if (s.cut.by_count) {
        by_type(coding_.type, [&](auto t) {
            using T = decltype(t);
            const NextLaunch start(unsigned(blocks_for(s.cols)), 256, 0, memory_.stream, memory_.overlaps);
            start(permute<T>, static_cast<const T*>(x), s.order.data(), s.cols,
                  reinterpret_cast<T*>(s.permuted_x.data()));
        });
        x = s.permuted_x.data();
    }
    launch(nullptr, x, y, s.cut.by_count ? memory_.chains : memory_.overlaps);
}

void SlicedProduct::launch(const uint32_t* tile_size, const void* x, void* y, bool early) {
    const Sliced& s = slices_;
    SlicedView view = view_of(s, coding_);
    view.tile_size = tile_size;
    by_type(coding_.type, [&](auto t) {
        using T = decltype(t);
        Output<T> out = {static_cast<T*>(y), reinterpret_cast<T*>(s.partial.data())};
        void* arguments[] = {&view, &x, &out};
        const NextLaunch start(unsigned(s.blocks), s.threads, s.shared_bytes, memory_.stream, early);
        start(kernel_, arguments);
        if (s.parted.size() == 0) return;
        const int64_t rows = s.parted.size();
        const auto long_count = uint32_t(s.longest.size());
        const NextLaunch add(unsigned(long_count + blocks_for(rows << s.log2_lanes, kPartialThreads)),
                             kPartialThreads, 0, memory_.stream, memory_.chains);
        add(add_partial<T>, out.partial, s.parted.data(), s.slot.data(), rows, s.longest.data(), long_count,
            s.log2_lanes, many_slots(s.log2_lanes), out.y);
    });
}

bool SlicedProduct::apply_columns(const void* x, void* y, int columns, Array<unsigned char>& partial) {
    const Sliced& s = slices_;
    const cudaStream_t stream = memory_.stream;
    with_values(coding_.type, coding_.coding, [&](auto kind) {
        using T = typename decltype(kind)::T;
        constexpr int CODING = decltype(kind)::CODING;
        reserve(memory_, partial, s.partial.size() * columns);
        const Output<T> out = {static_cast<T*>(y), reinterpret_cast<T*>(partial.data())};
        const ColumnsView view = columns_view();
        const auto launch = [&](auto kernel) {
            kernel<<<unsigned(s.blocks), 256, 0, stream>>>(view, static_cast<const T*>(x), columns, out);
        };
        if (columns <= 4)
            launch(sliced_columns<T, CODING, 4>);
        else if (columns <= 16)
            launch(sliced_columns<T, CODING, 16>);
        else
            launch(sliced_columns<T, CODING, 32>);
        const int64_t parted = s.parted.size();
        if (parted)
            add_partial_columns<<<blocks_for(parted * columns), 256, 0, stream>>>(
                out.partial, s.parted.data(), s.slot.data(), parted, columns, out.y);
    });
    BB_CHECK(cudaGetLastError());
    return true;
}

ColumnsView SlicedProduct::columns_view() const {
    const Sliced& s = slices_;
    return {view_of(s, coding_), s.cut.by_count ? s.order.data() : nullptr, s.cut.index_bytes};
}

void SlicedProduct::list(const Listing& to, const uint32_t* rows) {
    const Sliced& s = slices_;
    const SlotRows slots = {s.parted.data(), s.slot.data(), s.parted.size()};
    with_values(coding_.type, coding_.coding, [&](auto kind) {
        using T = typename decltype(kind)::T;
        list_slices<T, decltype(kind)::CODING><<<blocks_for(s.items.size() * 32), 256, 0, memory_.stream>>>(
            columns_view(), s.items.size(), s.tile_item.size() - 1, slots, rows, to);
    });
    BB_CHECK(cudaGetLastError());
}

std::unique_ptr<Product> make_sliced(const Source& from) { return std::make_unique<SlicedProduct>(from); }
std::unique_ptr<Product> make_tiled(const Source& from) { return make_sliced(from); }
std::unique_ptr<Product> make_hot(const Source& from) { return make_sliced(from); }

}  // namespace bmrm
