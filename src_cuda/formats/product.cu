#include <iterator>

#include "formats/product.h"

namespace bmrm {

std::unique_ptr<Product> make_product(const Source& from) {
#define BMRM_PLACE(number, name) make_##name,
    static constexpr std::unique_ptr<Product> (*makers[])(const Source&) = {
        BMRM_OPERATOR_FORMATS(BMRM_PLACE)};
#undef BMRM_PLACE
    if (size_t(from.plan.kernel) >= std::size(makers))
        throw Failure(BB_INVALID, "plan: found a format of dense rows, expected one of compressed rows");
    return makers[from.plan.kernel](from);
}

bool Product::apply(const void* x, void* y, int columns, Array<unsigned char>& partial) {
    if (empty_) {
        BB_CHECK(cudaMemsetAsync(y, 0, size_t(rows_ * columns * coding_.vector_bytes()), memory_.stream));
        return true;
    }
    if (columns > 32)
        throw Failure(BB_INVALID, "columns: found " + std::to_string(columns) + ", expected 1 to 32");
    if (columns > 1) return apply_columns(x, y, columns, partial);
    apply_one(x, y);
    return true;
}

}  // namespace bmrm
