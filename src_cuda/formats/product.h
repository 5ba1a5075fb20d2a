// One operator of a sparse matrix with the kernel chosen for it.
#pragma once
#include <functional>
#include <memory>

#include "formats/csr.h"
#include "formats/listing.h"
#include "formats/tuning.h"

namespace bmrm {

// Is called with an array, and whether products write it.
using ArrayVisitor = std::function<void(AnyArray&, bool)>;

// What a product is built from.
struct Source {
    Memory& memory;
    const Csr& a;
    const ValueArray& coding;
    const bb_plan& plan;
    const bb_device& device;
    const Array<uint32_t>* order;  // columns by popularity, for the formats that need it
};

// The storage that a plan needs, and the launches of its product.  The coding must live as long as the
// product and, if needs_csr(), so must the compressed rows.
class Product {
  public:
    explicit Product(const Source& from)
        : memory_(from.memory), coding_(from.coding), rows_(from.a.rows), empty_(from.a.nnz == 0) {}
    virtual ~Product() = default;
    Product(const Product&) = delete;
    Product& operator=(const Product&) = delete;

    // `partial`: room for partial sums of several columns, enlarged if necessary.  Returns false, and does
    // nothing, if the format takes one column at a time and there are several.
    bool apply(const void* x, void* y, int columns, Array<unsigned char>& partial);
    // Returns whether products read the compressed rows.
    virtual bool needs_csr() const { return false; }
    // Returns the bytes of the format that a product reads.
    virtual int64_t format_bytes() const = 0;
    // Visits each array except those of the Csr.
    virtual void each_array(const ArrayVisitor& visit) = 0;
    // Returns the number of elements, including padding, and the bytes that listing them takes meanwhile.
    virtual int64_t elements() const = 0;
    virtual int64_t listing_bytes() const { return 0; }
    virtual void list(const Listing& to) = 0;

  protected:
    virtual void apply_one(const void* x, void* y) = 0;
    // As `apply` for 2 to 32 columns.
    virtual bool apply_columns(const void*, void*, int, Array<unsigned char>&) { return false; }

    Memory& memory_;
    const ValueArray& coding_;

  private:
    const int64_t rows_;
    const bool empty_;
};

// Builds the product of a plan; throws BB_INVALID if the plan does not suit.
std::unique_ptr<Product> make_product(const Source& from);

#define BMRM_DECLARE(number, name) std::unique_ptr<Product> make_##name(const Source& from);
BMRM_OPERATOR_FORMATS(BMRM_DECLARE)
#undef BMRM_DECLARE

}  // namespace bmrm
