// Products that read the compressed rows themselves.
#include <algorithm>

#include "formats/kernels/columns.cuh"
#include "formats/kernels/rows.cuh"
#include "formats/product.h"
#include "formats/rows_of.cuh"
#include "formats/sliced.h"

namespace bmrm {

namespace {

class RowsProduct : public Product {
  public:
    RowsProduct(const Source& from, int64_t blocks)
        : Product(from),
          a_(from.a),
          all_at_once_(tuning::all_at_once(double(blocks), from.device.multiprocessors)) {}
    bool needs_csr() const override { return true; }
    int64_t format_bytes() const override { return (a_.rows + 1) * 8 + a_.nnz * (4 + coding_.value_bytes()); }
    int64_t elements() const override { return a_.nnz; }
    int64_t listing_bytes() const override { return 2 * 4 * a_.nnz; }
    void list(const Listing& to) override {
        const Array<uint32_t> row = expand_rows(memory_, a_);
        with_values(coding_.type, coding_.coding, [&](auto kind) {
            using T = typename decltype(kind)::T;
            list_rows<T, decltype(kind)::CODING><<<blocks_for(a_.nnz), 256, 0, memory_.stream>>>(
                row.data(), a_.col.data(), a_.values.data(), coding_.dictionary.data(), a_.nnz, to);
        });
        BB_CHECK(cudaGetLastError());
    }

  protected:
    bool apply_columns(const void* x, void* y, int columns, Array<unsigned char>&) override {
        with_values(coding_.type, coding_.coding, [&](auto kind) {
            using T = typename decltype(kind)::T;
            rows_columns<T, decltype(kind)::CODING><<<blocks_for(a_.rows, 8), 256, 0, memory_.stream>>>(
                a_.ptr.data(), a_.col.data(), a_.values.data(), coding_.dictionary.data(), a_.rows,
                static_cast<const T*>(x), columns, static_cast<T*>(y));
        });
        BB_CHECK(cudaGetLastError());
        return true;
    }
    // Returns whether the first launch may begin early: all of its blocks run at once, and wait.
    bool early() const { return all_at_once_ && memory_.overlaps; }

    const Csr& a_;

  private:
    const bool all_at_once_;
};

class Subwarp : public RowsProduct {
  public:
    explicit Subwarp(const Source& from)
        : RowsProduct(from, blocks_for(from.a.rows, tuning::kPlainThreads / std::max(from.plan.lanes, 1))),
          lanes_(from.plan.lanes) {}
    void each_array(const ArrayVisitor&) override {}

  protected:
    void apply_one(const void* x, void* y) override {
        with_values(coding_.type, coding_.coding, [&](auto kind) {
            using T = typename decltype(kind)::T;
            constexpr int CODING = decltype(kind)::CODING;
            const auto launch = [&](auto kernel) {
                const NextLaunch start(unsigned(blocks_for(a_.rows, tuning::kPlainThreads / lanes_)),
                                       tuning::kPlainThreads, 0, memory_.stream, early());
                start(kernel, a_.ptr.data(), a_.col.data(), a_.values.data(), coding_.dictionary.data(),
                      a_.rows, static_cast<const T*>(x), static_cast<T*>(y), early());
            };
            switch (lanes_) {
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
        });
    }

  private:
    const int lanes_;
};

class Split : public RowsProduct {
  public:
    explicit Split(const Source& from)
        : RowsProduct(from, divided(from.a.nnz, tuning::kSplitNonzeros)),
          shares_(divided(from.a.nnz, tuning::kSplitNonzeros)),
          share_row_(memory_, shares_ + 1),
          carried_(memory_, shares_ * coding_.vector_bytes()) {
        split_rows<<<blocks_for(shares_ + 1), 256, 0, memory_.stream>>>(a_.ptr.data(), a_.rows, a_.nnz,
                                                                        shares_, share_row_.data());
        BB_CHECK(cudaGetLastError());
    }
    void each_array(const ArrayVisitor& visit) override {
        visit(share_row_, false);
        visit(carried_, true);
    }

  protected:
    void apply_one(const void* x, void* y) override {
        with_values(coding_.type, coding_.coding, [&](auto kind) {
            using T = typename decltype(kind)::T;
            constexpr int CODING = decltype(kind)::CODING;
            T* carried = reinterpret_cast<T*>(carried_.data());
            const NextLaunch first(unsigned(shares_), tuning::kPlainThreads, 0, memory_.stream, early());
            first(split<T, CODING>, a_.ptr.data(), a_.col.data(), a_.values.data(), coding_.dictionary.data(),
                  a_.rows, a_.nnz, share_row_.data(), static_cast<const T*>(x), static_cast<T*>(y), carried,
                  early());
            const NextLaunch second(unsigned(blocks_for(shares_)), 256, 0, memory_.stream, memory_.chains);
            second(carry<T>, share_row_.data(), shares_, carried, static_cast<T*>(y));
        });
    }
    bool apply_columns(const void* x, void* y, int columns, Array<unsigned char>& partial) override {
        const int64_t warps = divided(a_.nnz, kPieceNonzeros), bytes = coding_.vector_bytes();
        reserve(memory_, partial, 2 * warps * columns * bytes);
        BB_CHECK(cudaMemsetAsync(y, 0, size_t(a_.rows * columns * bytes), memory_.stream));
        const NextLaunch launch(unsigned(divided(warps, tuning::kPlainThreads / 32)), tuning::kPlainThreads,
                                0, memory_.stream, false);
        with_values(coding_.type, coding_.coding, [&](auto kind) {
            using T = typename decltype(kind)::T;
            constexpr int CODING = decltype(kind)::CODING;
            const auto multiply = [&](auto kernel) {
                launch(kernel, a_.ptr.data(), a_.col.data(), a_.values.data(), coding_.dictionary.data(),
                       a_.rows, a_.nnz, share_row_.data(), static_cast<const T*>(x), columns,
                       static_cast<T*>(y), reinterpret_cast<T*>(partial.data()));
            };
            if (columns == 2)
                multiply(split_columns<T, CODING, 2>);
            else if (columns <= 4)
                multiply(split_columns<T, CODING, 4>);
            else if (columns <= 8)
                multiply(split_columns<T, CODING, 8>);
            else if (columns <= 16)
                multiply(split_columns<T, CODING, 16>);
            else
                multiply(split_columns<T, CODING, 32>);
            launch(add_pieces<T>, a_.ptr.data(), a_.rows, a_.nnz, share_row_.data(),
                   reinterpret_cast<const T*>(partial.data()), columns, static_cast<T*>(y));
        });
        return true;
    }

  private:
    const int64_t shares_;
    Array<int64_t> share_row_;
    Array<unsigned char> carried_;
};

}  // namespace

std::unique_ptr<Product> make_subwarp(const Source& from) { return std::make_unique<Subwarp>(from); }
std::unique_ptr<Product> make_split(const Source& from) { return std::make_unique<Split>(from); }

}  // namespace bmrm
