#include "graph/basis.h"

#include "common/memory.h"
namespace bmrm {
namespace {

/// Calls body(first, last, sums) for blocks of entries, and adds their sums in order: out[s] for s < count.
template <class Body>
void add_over_entries(i64 n, i64 vectors, i64 count, int threads, double* out, const Body& body) {
    const i64 blocks = (n + kBasisBlock - 1) / kBasisBlock;
    std::vector<double> sums(blocks * count, 0.0);
    for_each_task(blocks, threads_for(n * (vectors + 1), threads), [&](i64 t) {
        body(t * kBasisBlock, std::min(n, (t + 1) * kBasisBlock), sums.data() + t * count);
    });
    std::fill_n(out, count, 0.0);
    for (i64 t = 0; t < blocks; ++t)
        for (i64 s = 0; s < count; ++s) out[s] += sums[t * count + s];
}

}  // namespace

void multiply_basis(const double* const* basis, int count, const double* w, i64 n, int threads, double* out) {
    add_over_entries(n, count, count, threads, out, [&](i64 first, i64 last, double* sums) {
        basis_kernels().products(basis, count, w, first, last, sums);
    });
}

double combine_basis(const double* const* basis, const double* factors, int count, i64 n, int threads,
                     double* w) {
    double square = 0;
    add_over_entries(n, count, 1, threads, &square, [&](i64 first, i64 last, double* sum) {
        basis_kernels().add(basis, factors, count, first, last, w, sum);
    });
    return square;
}

}  // namespace bmrm
