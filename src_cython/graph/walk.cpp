#include "graph/walk.h"

namespace bmrm {
namespace {

/// Calls body(first, last, sums) for blocks of nodes, and adds their sums in order: out[s] for s < count.
template <class Body>
void add_over_blocks(i64 n, i64 K, i64 count, int threads, double* out, const Body& body) {
    const i64 block = nodes_of_block(K), blocks = (n + block - 1) / block;
    std::vector<double> sums(blocks * count, 0.0);
    for_each_task(blocks, threads_for(n * K * 4, threads),
                  [&](i64 t) { body(t * block, std::min(n, (t + 1) * block), sums.data() + t * count); });
    std::fill_n(out, count, 0.0);
    for (i64 t = 0; t < blocks; ++t)
        for (i64 s = 0; s < count; ++s) out[s] += sums[t * count + s];
}

/// The same after the product of the edges with z, W columns side by side: body(y, first, last, sums) takes
/// the products of some targets while they are in a near cache. One column is multiplied by whole tiles, into
/// `whole`; several by blocks.
template <class T, class Kernel, class Body>
void multiply_edges(const WalkEdges& edges, Kernel kernel, i64 W, int threads, const T* z, T* whole,
                    i64 count, double* out, const Body& body) {
    const auto& tiles = edges.blocks->tiles();
    const i64 block = nodes_of_block(W), all = edges.ptr[edges.n];
    std::vector<i64> place{0};  // of the sums of each tile
    for (const EdgeTile& tile : tiles)
        place.push_back(place.back() + (tile.end - tile.begin + block - 1) / block);
    std::vector<double> sums(place.back() * count, 0.0);
    for_each_task(static_cast<i64>(tiles.size()), threads_for((all + edges.n) * W, threads), [&](i64 t) {
        alignas(64) T some[kRowBlock * kWalkColumns];
        if (W == 1) edges.blocks->multiply_tile(t, z, whole);
        double* sum = sums.data() + place[t] * count;
        for (i64 first = tiles[t].begin; first < tiles[t].end; first += block, sum += count) {
            const i64 last = std::min(first + block, tiles[t].end);
            if (W > 1) kernel(edges.ptr, edges.idx, edges.val, all, first, last, z, some);
            body(W == 1 ? whole : some, first, last, sum);
        }
    });
    std::fill_n(out, count, 0.0);
    for (i64 t = 0; t < place.back(); ++t)
        for (i64 s = 0; s < count; ++s) out[s] += sums[t * count + s];
}

}  // namespace

i64 row_additions(i64 entries) {
    constexpr int sums = 4;
    return std::min(entries, entries / sums + 2 * sums);
}

i64 additions_per_sum(const WalkEdges& edges, i64 K) {
    const i64 block = nodes_of_block(K), tiles = static_cast<i64>(edges.blocks->tiles().size()),
              inside = K == 1 ? block / kExactLanes + kExactLanes : block;
    return std::min(edges.n, inside + edges.n / block + tiles);
}

void mix_images(const Mixture& mixture, const float* scale, i64 n, i64 K, int threads, float* x, float* z,
                double* lost) {
    const auto& kernels = WalkKernels::of(K);
    add_over_blocks(n, K, K, threads, lost, [&](i64 first, i64 last, double* sums) {
        kernels.mix(mixture, scale, first, last, x, z, sums);
    });
}

void light_step(const WalkEdges& edges, const Terms<float>& terms, const float* scale, const float* x,
                const float* z, i64 K, int threads, float* g, float* sent, double* sums) {
    const auto& kernels = WalkKernels::of(K);
    multiply_edges(edges, kernels.rows, K, threads, z, g, 3 * K, sums,
                   [&](const float* y, i64 first, i64 last, double* some) {
                       kernels.advance(terms, scale, x, y, first, last, g, sent, some);
                   });
}

void inner_products(const Residual* residuals, int count, i64 n, i64 K, int threads, double* out) {
    const auto& kernels = WalkKernels::of(K);
    add_over_blocks(n, K, count * count * K, threads, out, [&](i64 first, i64 last, double* some) {
        kernels.inner_products(residuals, count, first, last, some);
    });
    for (int i = 0; i < count; ++i)
        for (int j = 0; j < i; ++j) std::copy_n(out + (i * count + j) * K, K, out + (j * count + i) * K);
}

void move_base(const float* e, const double* factor, const double* scale, i64 n, i64 K, i64 column,
               int threads, double* x, double* z, double* sums) {
    const i64 W = std::min<i64>(K, kExactColumns);
    const auto& kernels = WalkKernels::of(K);
    add_over_blocks(n, W, 2 * W, threads, sums, [&](i64 first, i64 last, double* some) {
        kernels.move(e, factor, scale, first, last, K, column, x, z, some);
    });
}

void exact_residual(const WalkEdges& edges, const Terms<double>& terms, const std::int32_t* additions,
                    const double* x, const double* z, i64 K, i64 column, int threads, double* y, float* r,
                    double* sums) {
    const i64 W = std::min<i64>(K, kExactColumns);
    const auto& kernels = WalkKernels::of(K);
    multiply_edges(edges, kernels.exact_rows, W, threads, z, y, 3 * W, sums,
                   [&](const double* product, i64 first, i64 last, double* some) {
                       kernels.residual(terms, x, additions, W == 1 ? product + first : product, first, last,
                                        K, column, r, some);
                   });
}

void residual_of_products(i64 n, const Terms<double>& terms, const std::int32_t* additions, const double* x,
                          const double* y, i64 K, i64 column, int threads, float* r, double* sums) {
    const i64 W = std::min<i64>(K, kExactColumns);
    const auto& kernels = WalkKernels::of(K);
    add_over_blocks(n, W, 3 * W, threads, sums, [&](i64 first, i64 last, double* some) {
        kernels.residual(terms, x, additions, y + first * W, first, last, K, column, r, some);
    });
}

void total_points(const double* x, const double* scale, i64 n, i64 K, i64 column, int threads, double* sums) {
    const i64 W = std::min<i64>(K, kExactColumns);
    const auto& kernels = WalkKernels::of(K);
    add_over_blocks(n, W, 2 * W, threads, sums, [&](i64 first, i64 last, double* some) {
        kernels.total(x, scale, first, last, K, column, some);
    });
}

void multiply_columns(const WalkEdges& edges, i64 W, int threads, const double* z, double* out) {
    if (W == 1) return edges.blocks->multiply(z, out);
    const auto& kernels = WalkKernels::of(W);
    const i64 all = edges.ptr[edges.n], blocks = (edges.n + kRowBlock - 1) / kRowBlock;
    for_each_task(blocks, threads_for((all + edges.n) * W, threads), [&](i64 t) {
        const i64 first = t * kRowBlock;
        kernels.exact_rows(edges.ptr, edges.idx, edges.val, all, first, std::min(edges.n, first + kRowBlock),
                           z, out + first * W);
    });
}

void collect_columns(const double* base, const float* e, const std::int32_t* place, i64 n, i64 K,
                     const i64* columns, i64 count, int threads, double* const* out) {
    const i64 blocks = (n + kRowBlock - 1) / kRowBlock;
    for_each_task(blocks, threads_for(n * count, threads), [&](i64 t) {
        for (i64 i = t * kRowBlock; i < std::min(n, (t + 1) * kRowBlock); ++i) {
            const i64 row = (place ? place[i] : i) * K;
            if (place && i + kNodesAhead < n) {
                __builtin_prefetch(base + place[i + kNodesAhead] * K);
                __builtin_prefetch(e + place[i + kNodesAhead] * K);
            }
            for (i64 c = 0; c < count; ++c) {
                const double value = base[row + columns[c]] + static_cast<double>(e[row + columns[c]]);
                out[c][i] = value > 0 ? value : 0.0;
            }
        }
    });
}

}  // namespace bmrm
