#include <memory>

#include "formats/mixed.h"
#include "formats/sliced_product.h"
#include "runtime/chain.cuh"
#include "runtime/device_sort.cuh"

namespace bmrm {

namespace {

constexpr int kThreads = 256;

__global__ void mark_long(const int64_t* ptr, int64_t rows, int64_t least, uint8_t* flag) {
    BB_FOR (i, rows) flag[i] = ptr[i + 1] - ptr[i] >= least;
}

__global__ void measure_long(const int64_t* ptr, const uint32_t* row, int64_t count, int64_t* length) {
    BB_FOR (i, count) length[i] = ptr[row[i] + 1] - ptr[row[i]];
}

__global__ void measure_short(const int64_t* ptr, const uint8_t* is_long, int64_t rows, int64_t* length) {
    BB_FOR (i, rows) length[i] = is_long[i] ? 0 : ptr[i + 1] - ptr[i];
}

// Copies rows, THREADS threads each; `row`: which of `from` each is, or null.  Rows of length 0 in `to` are
// left out.
template <int THREADS, class V>
__global__ void copy_rows(const int64_t* from_ptr, const uint32_t* from_col, const V* from_values,
                          const uint32_t* row, const int64_t* to_ptr, int64_t rows, uint32_t* to_col,
                          V* to_values) {
    const int64_t threads = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / THREADS; i < rows;
         i += threads / THREADS) {
        const int64_t begin = from_ptr[row ? int64_t(row[i]) : i], to = to_ptr[i], count = to_ptr[i + 1] - to;
        for (int64_t k = threadIdx.x % THREADS; k < count; k += THREADS) {
            to_col[to + k] = from_col[begin + k];
            if (to_values) to_values[to + k] = from_values[begin + k];
        }
    }
}

// Takes some rows of a matrix, with the lengths that are given.
template <int THREADS>
Csr take_rows(Memory& memory, const Csr& a, const ValueArray& coding, const uint32_t* row,
              const Array<int64_t>& lengths) {
    Csr out;
    out.rows = lengths.size();
    out.cols = a.cols;
    out.repeated = a.repeated;
    out.ptr = offsets_of(memory, lengths);
    out.nnz = out.ptr.at(out.rows);
    out.col = Array<uint32_t>(memory, out.nnz);
    out.values = Array<unsigned char>(memory, out.nnz * coding.value_bytes());
    with_stored(coding.value_bytes(), out.values.data(), [&](auto* values) {
        using V = std::remove_pointer_t<decltype(values)>;
        copy_rows<THREADS><<<blocks_for(out.rows * THREADS, kThreads), kThreads, 0, memory.stream>>>(
            a.ptr.data(), a.col.data(), reinterpret_cast<const V*>(a.values.data()), row, out.ptr.data(),
            out.rows, out.col.data(), values);
    });
    BB_CHECK(cudaGetLastError());
    return out;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    spread_rows(const T* __restrict__ sums, const uint32_t* __restrict__ row, int64_t count,
                T* __restrict__ y) {
    let_next_start();
    const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const uint32_t to = i < count ? row[i] : 0;
    wait_for_previous();
    if (i < count) y[to] = load_input(sums + i);
}

class Mixed : public Product {
  public:
    explicit Mixed(const Source& from) : Product(from) {
        Memory& memory = from.memory;
        const Csr& a = from.a;
        if (!can_slice(plan_of_long(from.plan), a.cols)) throw Failure(BB_INVALID, "plan: no such tiles");
        Array<uint8_t> is_long(memory, a.rows);
        mark_long<<<blocks_for(a.rows), kThreads, 0, memory.stream>>>(
            a.ptr.data(), a.rows, long_row(from.plan, a.cols), is_long.data());
        BB_CHECK(cudaGetLastError());
        long_rows_ = positions_of(memory, is_long);
        Array<int64_t> lengths(memory, long_rows_.size());
        measure_long<<<blocks_for(long_rows_.size()), kThreads, 0, memory.stream>>>(
            a.ptr.data(), long_rows_.data(), long_rows_.size(), lengths.data());
        const Csr many = take_rows<kThreads>(memory, a, from.coding, long_rows_.data(), lengths);
        if (many.nnz == 0 || many.nnz == a.nnz)
            throw Failure(BB_INVALID, "plan: no rows are long, or all that have nonzeros are");
        const bb_plan long_plan = plan_of_long(from.plan), short_plan = plan_of_short(from.plan);
        in_tiles_ = std::make_unique<SlicedProduct>(
            Source{memory, many, from.coding, long_plan, from.device, nullptr});
        lengths = Array<int64_t>(memory, a.rows);
        measure_short<<<blocks_for(a.rows), kThreads, 0, memory.stream>>>(a.ptr.data(), is_long.data(),
                                                                          a.rows, lengths.data());
        const Csr few = take_rows<8>(memory, a, from.coding, nullptr, lengths);
        gathered_ = std::make_unique<SlicedProduct>(
            Source{memory, few, from.coding, short_plan, from.device, nullptr});
        sums_ = Array<unsigned char>(memory, long_rows_.size() * from.coding.vector_bytes());
    }
    int64_t format_bytes() const override {
        return in_tiles_->format_bytes() + gathered_->format_bytes() + long_rows_.bytes() + 2 * sums_.bytes();
    }
    void each_array(const ArrayVisitor& visit) override {
        in_tiles_->each_array(visit);
        gathered_->each_array(visit);
        visit(long_rows_, false);
        visit(sums_, true);
    }
    int64_t elements() const override { return in_tiles_->elements() + gathered_->elements(); }
    void list(const Listing& to) override {
        in_tiles_->list(to, long_rows_.data());
        gathered_->list(to.after(in_tiles_->elements(), coding_.vector_bytes()));
    }

  protected:
    // The short rows write 0 for the long ones, which come after them.
    void apply_one(const void* x, void* y) override {
        gathered_->launch(nullptr, x, y, memory_.overlaps);
        in_tiles_->launch(nullptr, x, sums_.data(), memory_.chains);
        by_type(coding_.type, [&](auto t) {
            using T = decltype(t);
            const NextLaunch launch(blocks_for(long_rows_.size(), kThreads), kThreads, 0, memory_.stream,
                                    memory_.chains);
            launch(spread_rows<T>, reinterpret_cast<const T*>(sums_.data()), long_rows_.data(),
                   long_rows_.size(), static_cast<T*>(y));
        });
    }

  private:
    Array<uint32_t> long_rows_;
    Array<unsigned char> sums_;  // of the long rows
    std::unique_ptr<SlicedProduct> in_tiles_, gathered_;
};

}  // namespace

std::unique_ptr<Product> make_mixed(const Source& from) { return std::make_unique<Mixed>(from); }

}  // namespace bmrm
