// X w and X' r of a matrix of few columns, both from the narrow format of X.
#pragma once
#include "formats/sliced_product.h"

namespace bmrm {

enum NarrowPass { NARROW_MARGINS, NARROW_GRADIENT };

class Narrow {
  public:
    explicit Narrow(const Source& from);
    static bool fits(int64_t columns, const ValueArray& coding, const bb_device& device);

    // The rows of X in slices, which also multiply several columns.
    SlicedProduct& rows() { return rows_; }
    void normal(const void* w, void* margins);
    void transposed(const void* r, void* gradient);
    // Visits the arrays that are not small.
    void each_array(const ArrayVisitor& visit) {
        rows_.each_array(visit);
        visit(block_sums_, true);
    }

  private:
    struct Launch {
        const void* kernel;
        int threads, blocks;
        int64_t shared_bytes;
    };
    // Returns how to launch a kernel for a pass.
    Launch launch_of(const void* kernel, NarrowPass pass, const Source& from) const;
    void start(const Launch& launch, const void* in, void* margins);

    Memory& memory_;
    const ValueArray& coding_;
    SlicedProduct rows_;
    Launch margins_, gradient_;
    Array<double> block_sums_;
};

}  // namespace bmrm
