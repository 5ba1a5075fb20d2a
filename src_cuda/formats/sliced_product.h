// The product of a matrix in the sliced format.
#pragma once
#include "formats/product.h"
#include "formats/sliced_device.h"

namespace bmrm {

struct SlicedView;
struct ColumnsView;
SlicedView view_of(const Sliced& s, const ValueArray& coding);

class SlicedProduct : public Product {
  public:
    explicit SlicedProduct(const Source& from);
    const Sliced& slices() const { return slices_; }
    // `tile_size`: inputs per tile if they differ, else null.  early: as in NextLaunch.
    void launch(const uint32_t* tile_size, const void* x, void* y, bool early);
    int64_t format_bytes() const override { return slices_.bytes(); }
    void each_array(const ArrayVisitor& visit) override { slices_.each_array(visit); }
    int64_t elements() const override { return int64_t(slices_.elements); }
    void list(const Listing& to) override { list(to, nullptr); }
    // `rows`: the number of each row if it is another, else null.
    void list(const Listing& to, const uint32_t* rows);

  protected:
    void apply_one(const void* x, void* y) override;
    bool apply_columns(const void* x, void* y, int columns, Array<unsigned char>& partial) override;

  private:
    ColumnsView columns_view() const;

    Sliced slices_;
    const void* kernel_ = nullptr;
};

}  // namespace bmrm
