// One operator of a sparse matrix with the kernel chosen for it.
#pragma once
#include "formats/binned.h"
#include "formats/csr.h"
#include "formats/sliced_device.h"

namespace bmrm {

// The storage that a plan needs, and the launches of its product.  The plain kernels read the Csr itself,
// which must then live as long as the product.
class Product {
  public:
    Product() = default;
    // `order`: columns by popularity, for BB_HOT.
    Product(Memory& memory, const Csr& a, const ValueArray& coding, const bb_plan& plan,
            const bb_device& device, const Array<uint32_t>* order);

    // `partial`: room for partial sums of several columns, enlarged if necessary.
    void apply(const void* x, void* y, int columns, const Csr& a, const ValueArray& coding,
               Array<unsigned char>& partial);
    bool takes_columns() const { return plan_.kernel != BB_BINNED; }
    bool needs_csr() const { return memory_ && (plan_.kernel == BB_SUBWARP || plan_.kernel == BB_SPLIT); }
    const Sliced& sliced() const { return sliced_; }
    // Returns the bytes of the format that a product reads.
    int64_t format_bytes(const Csr& a, const ValueArray& coding) const;
    // Calls f(array, whether products write it) for each array except those of the Csr.
    template <class F>
    void each_array(F&& f) {
        sliced_.each_array(f);
        binned_.each_array(f);
        f(share_row_, false);
        f(carried_, true);
    }
    explicit operator bool() const { return memory_ != nullptr; }

  private:
    void apply_one(const void* x, void* y, const Csr& a, const ValueArray& coding);
    void apply_sliced(const void* x, void* y, const ValueArray& coding);
    void apply_binned(const void* x, void* y, const ValueArray& coding);
    void launch_sliced(const void* kernel, const Sliced& s, const ValueArray& coding,
                       const uint32_t* tile_size, const void* x, void* y, bool early);
    void apply_columns(const void* x, void* y, int columns, const Csr& a, const ValueArray& coding,
                       Array<unsigned char>& partial);

    Memory* memory_ = nullptr;
    bb_plan plan_ = {};
    Sliced sliced_;
    Binned binned_;
    const void *kernel_ = nullptr, *second_kernel_ = nullptr;
    bool all_at_once_ = false;  // whether the blocks of BB_SUBWARP and BB_SPLIT all run at once
    Array<int64_t> share_row_;
    Array<unsigned char> carried_;
};

enum NarrowPass { NARROW_MARGINS, NARROW_GRADIENT };

// X w and X' r from the narrow format of X.
class Narrow {
  public:
    Narrow() = default;
    Narrow(Memory& memory, const Sliced& rows, const ValueArray& coding, const bb_device& device);
    static bool fits(int64_t columns, const ValueArray& coding, const bb_device& device);

    void normal(const Sliced& rows, const ValueArray& coding, const void* w, void* margins);
    void transposed(const Sliced& rows, const ValueArray& coding, const void* r, void* gradient);
    // Calls f(array, whether products write it) for the arrays that are not small.
    template <class F>
    void each_array(F&& f) {
        f(block_sums_, true);
    }
    explicit operator bool() const { return memory_ != nullptr; }

  private:
    struct Launch {
        const void* kernel;
        int threads, blocks;
        int64_t shared_bytes;
    };
    // Returns how to launch a kernel for a pass.
    static Launch launch_of(const void* kernel, NarrowPass pass, const Sliced& rows, const ValueArray& coding,
                            const bb_device& device);
    void start(const Launch& launch, const Sliced& rows, const ValueArray& coding, const void* in,
               void* margins);

    Memory* memory_ = nullptr;
    Launch margins_ = {}, gradient_ = {};
    Array<double> block_sums_;
};

struct SlicedView view_of(const Sliced& s, const ValueArray& coding);

}  // namespace bmrm
