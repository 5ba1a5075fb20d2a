#include <algorithm>

#include "formats/kernels/binned.cuh"
#include "formats/kernels/columns.cuh"
#include "formats/kernels/partial.cuh"
#include "formats/kernels/rows.cuh"
#include "formats/kernels/sliced.cuh"
#include "formats/products.h"
#include "formats/tuning.h"

namespace bmrm {

namespace {

int places_of(const Cut& cut) { return (cut.shared ? SHARED_ONLY : 0) | (cut.gathered ? GATHERED_ONLY : 0); }

template <class T, int CODING>
const void* sliced_kernel(const Cut& cut) {
    const int places = places_of(cut);
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

template <class T, int CODING>
void run_subwarp(int lanes, const Csr& a, const ValueArray& coding, const void* x, void* y,
                 cudaStream_t stream, bool early) {
    const auto launch = [&](auto kernel) {
        const NextLaunch start(unsigned(blocks_for(a.rows, tuning::kPlainThreads / lanes)),
                               tuning::kPlainThreads, 0, stream, early);
        start(kernel, a.ptr.data(), a.col.data(), a.values.data(), coding.dictionary.data(), a.rows,
              static_cast<const T*>(x), static_cast<T*>(y), early);
    };
    switch (lanes) {
        case 2:
            return launch(subwarp<T, CODING, 2>);
        case 4:
            return launch(subwarp<T, CODING, 4>);
        case 8:
            return launch(subwarp<T, CODING, 8>);
        case 16:
            return launch(subwarp<T, CODING, 16>);
        case 32:
            return launch(subwarp<T, CODING, 32>);
        default:
            throw Failure(BB_INVALID, "plan: lanes must be 2, 4, 8, 16 or 32");
    }
}

}  // namespace

SlicedView view_of(const Sliced& s, const ValueArray& coding) {
    return {s.items.data(),     s.dest.data(),   s.local.data(),
            s.far.data(),       s.values.data(), coding.dictionary.data(),
            s.tile_item.data(), s.shares.data(), nullptr,
            s.shared_elements,  s.cols,          s.cut.tile,
            s.cut.shared};
}

Product::Product(Memory& memory, const Csr& a, const ValueArray& coding, const bb_plan& plan,
                 const bb_device& device, const Array<uint32_t>* order)
    : memory_(&memory), plan_(plan) {
    if (plan.kernel == BB_SUBWARP) {
        const int64_t blocks = blocks_for(a.rows, tuning::kPlainThreads / std::max(plan.lanes, 1));
        all_at_once_ = tuning::all_at_once(double(blocks), device.multiprocessors);
        return;
    }
    if (plan.kernel == BB_SPLIT) {
        const int64_t shares = (a.nnz + tuning::kSplitNonzeros - 1) / tuning::kSplitNonzeros;
        all_at_once_ = tuning::all_at_once(double(shares), device.multiprocessors);
        share_row_ = Array<int64_t>(memory, shares + 1);
        carried_ = Array<unsigned char>(memory, shares * coding.vector_bytes());
        split_rows<<<blocks_for(shares + 1), 256, 0, memory.stream>>>(a.ptr.data(), a.rows, a.nnz, shares,
                                                                      share_row_.data());
        BB_CHECK(cudaGetLastError());
        return;
    }
    if (plan.kernel == BB_BINNED) {
        binned_ = build_binned(memory, a, coding, plan, device);
        with_values(coding.type, coding.coding, [&](auto kind) {
            using T = typename decltype(kind)::T;
            kernel_ = reinterpret_cast<const void*>(&binned_products<T, decltype(kind)::CODING>);
            second_kernel_ = sliced_kernel<T, BB_ONES>(binned_.rows.cut);
        });
        for (const void* kernel : {kernel_, second_kernel_})
            BB_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          int(device.shared_per_block)));
        return;
    }
    if (plan.kernel == BB_NARROW && a.repeated)
        throw Failure(BB_INVALID, "plan: a matrix with repeated columns in a row has no narrow form");
    sliced_ = build_sliced(memory, a, coding, plan, device, order);
    with_values(coding.type, coding.coding, [&](auto kind) {
        using T = typename decltype(kind)::T;
        constexpr int CODING = decltype(kind)::CODING;
        kernel_ = sliced_kernel<T, CODING>(sliced_.cut);
    });
    // The limit belongs to the kernel, which other matrices launch with other tiles.
    BB_CHECK(cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  int(device.shared_per_block)));
}

int64_t Product::format_bytes(const Csr& a, const ValueArray& coding) const {
    if (needs_csr()) return (a.rows + 1) * 8 + a.nnz * (4 + coding.value_bytes());
    return plan_.kernel == BB_BINNED ? binned_.bytes() : sliced_.bytes();
}

void Product::apply(const void* x, void* y, int columns, const Csr& a, const ValueArray& coding,
                    Array<unsigned char>& partial) {
    if (a.nnz == 0) {
        BB_CHECK(cudaMemsetAsync(y, 0, size_t(a.rows * columns * coding.vector_bytes()), memory_->stream));
        return;
    }
    if (columns == 1)
        apply_one(x, y, a, coding);
    else
        apply_columns(x, y, columns, a, coding, partial);
}

void Product::apply_one(const void* x, void* y, const Csr& a, const ValueArray& coding) {
    if (plan_.kernel == BB_BINNED) return apply_binned(x, y, coding);
    if (!needs_csr()) return apply_sliced(x, y, coding);
    with_values(coding.type, coding.coding, [&](auto kind) {
        using T = typename decltype(kind)::T;
        constexpr int CODING = decltype(kind)::CODING;

        const bool early = all_at_once_ && memory_->overlaps;
        if (plan_.kernel == BB_SUBWARP)
            return run_subwarp<T, CODING>(plan_.lanes, a, coding, x, y, memory_->stream, early);
        const int64_t shares = share_row_.size() - 1;
        T* carried = reinterpret_cast<T*>(carried_.data());
        const NextLaunch first(unsigned(shares), tuning::kPlainThreads, 0, memory_->stream, early);
        first(split<T, CODING>, a.ptr.data(), a.col.data(), a.values.data(), coding.dictionary.data(), a.rows,
              a.nnz, share_row_.data(), static_cast<const T*>(x), static_cast<T*>(y), carried, early);
        const NextLaunch second(unsigned(blocks_for(shares)), 256, 0, memory_->stream, memory_->chains);
        second(carry<T>, share_row_.data(), shares, carried, static_cast<T*>(y));
    });
}

void Product::apply_binned(const void* x, void* y, const ValueArray& coding) {
    BinnedView view = {
        binned_.tile_quad.data(), binned_.shares.data(),    binned_.dest.data(), binned_.local.data(),
        binned_.values.data(),    coding.dictionary.data(), binned_.cols,        binned_.tile};
    void* products = binned_.products.data();
    void* arguments[] = {&view, &x, &products};
    const NextLaunch launch(unsigned(binned_.blocks), binned_.threads, binned_.shared_bytes, memory_->stream,
                            memory_->overlaps);
    launch(kernel_, arguments);
    launch_sliced(second_kernel_, binned_.rows, binned_.ones, binned_.region_size.data(), products, y,
                  memory_->chains);
}

void Product::apply_sliced(const void* x, void* y, const ValueArray& coding) {
    const Sliced& s = sliced_;
    if (s.cut.by_count) {
        by_type(coding.type, [&](auto t) {
            using T = decltype(t);
            const NextLaunch launch(unsigned(blocks_for(s.cols)), 256, 0, memory_->stream, memory_->overlaps);
            launch(permute<T>, static_cast<const T*>(x), s.order.data(), s.cols,
                   reinterpret_cast<T*>(s.permuted_x.data()));
        });
        x = s.permuted_x.data();
    }
    launch_sliced(kernel_, s, coding, nullptr, x, y, s.cut.by_count ? memory_->chains : memory_->overlaps);
}

// `tile_size`: inputs per tile if they differ, else null.  early: as in NextLaunch.
void Product::launch_sliced(const void* kernel, const Sliced& s, const ValueArray& coding,
                            const uint32_t* tile_size, const void* x, void* y, bool early) {
    SlicedView view = view_of(s, coding);
    view.tile_size = tile_size;
    by_type(coding.type, [&](auto t) {
        using T = decltype(t);
        Output<T> out = {static_cast<T*>(y), reinterpret_cast<T*>(s.partial.data())};
        void* arguments[] = {&view, &x, &out};
        const NextLaunch launch(unsigned(s.blocks), s.threads, s.shared_bytes, memory_->stream, early);
        launch(kernel, arguments);
        if (s.parted.size() == 0) return;
        const int64_t rows = s.parted.size();
        const auto long_count = uint32_t(s.longest.size());
        const NextLaunch add(unsigned(long_count + blocks_for(rows << s.log2_lanes, kPartialThreads)),
                             kPartialThreads, 0, memory_->stream, memory_->chains);
        add(add_partial<T>, out.partial, s.parted.data(), s.slot.data(), rows, s.longest.data(), long_count,
            s.log2_lanes, many_slots(s.log2_lanes), out.y);
    });
}

void Product::apply_columns(const void* x, void* y, int columns, const Csr& a, const ValueArray& coding,
                            Array<unsigned char>& partial) {
    if (columns > 32)
        throw Failure(BB_INVALID, "columns: found " + std::to_string(columns) + ", expected 1 to 32");
    const cudaStream_t stream = memory_->stream;
    with_values(coding.type, coding.coding, [&](auto kind) {
        using T = typename decltype(kind)::T;
        constexpr int CODING = decltype(kind)::CODING;

        if (needs_csr()) {
            rows_columns<T, CODING><<<blocks_for(a.rows, 8), 256, 0, stream>>>(
                a.ptr.data(), a.col.data(), a.values.data(), coding.dictionary.data(), a.rows,
                static_cast<const T*>(x), columns, static_cast<T*>(y));
            return;
        }
        reserve(*memory_, partial, sliced_.partial.size() * columns);
        const Output<T> out = {static_cast<T*>(y), reinterpret_cast<T*>(partial.data())};
        const ColumnsView view = {view_of(sliced_, coding),
                                  sliced_.cut.by_count ? sliced_.order.data() : nullptr,
                                  sliced_.cut.index_bytes};
        const auto launch = [&](auto kernel) {
            kernel<<<unsigned(sliced_.blocks), 256, 0, stream>>>(view, static_cast<const T*>(x), columns,
                                                                 out);
        };
        if (columns <= 4)
            launch(sliced_columns<T, CODING, 4>);
        else if (columns <= 16)
            launch(sliced_columns<T, CODING, 16>);
        else
            launch(sliced_columns<T, CODING, 32>);
        const int64_t parted = sliced_.parted.size();
        if (parted)
            add_partial_columns<<<blocks_for(parted * columns), 256, 0, stream>>>(
                out.partial, sliced_.parted.data(), sliced_.slot.data(), parted, columns, out.y);
    });
    BB_CHECK(cudaGetLastError());
}

}  // namespace bmrm
