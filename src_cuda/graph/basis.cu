// Vectors of the Golub-Kahan process on the device.  A vector is made orthogonal by classical Gram-Schmidt:
// all products in one pass, then all multiples in another.  If little is left of it, it is done a second
// time, which leaves no more than rounding (Giraud, Langou, Rozloznik, van den Eshof, Numer. Math. 101 (2005)
// 87).
#include <algorithm>
#include <cmath>
#include <vector>

#include "api/graph.h"
#include "graph/kernels/basis.cuh"
#include "graph/numbering.h"
#include "graph/peers.h"
#include "matrix/handle.h"
#include "runtime/chain.cuh"

using namespace bmrm;

namespace {

// Share of the length that must be left, or it is done a second time (Daniel, Gragg, Kaufman, Stewart, Math.
// Comp. 30 (1976) 772).
constexpr double kEnoughLeft = 0.7;

void expect(bool holds, const char* text) {
    if (!holds) throw Failure(BB_INVALID, text);
}

// Vectors that are too many repeat the first, from the cache.
SomeVectors some(const double* const* vectors, int count) {
    SomeVectors out = {};
    for (int j = 0; j < kVectorsAtOnce; j++) out.at[j] = vectors[j < count ? j : 0];
    return out;
}

template <int VALUE>
struct Constant {
    static constexpr int value = VALUE;
};

// Calls f with the number of vectors that a kernel reads.
template <class F>
void with_count(int count, F&& f) {
    if (count <= 1) return f(Constant<1>());
    if (count <= 4) return f(Constant<4>());
    return f(Constant<kVectorsAtOnce>());
}

}  // namespace

struct bb_basis {
    bb_basis(bb_matrix* matrix, bb_matrix* by_source, const uint32_t* places, const bb_graph_ranks* ranks)
        : matrix(matrix),
          by_source(by_source),
          memory(matrix->memory),
          n(matrix->rows()),
          peers(memory, ranks, n),
          numbering_(memory, places, peers.nodes()),
          blocks_(pass_blocks(n, 1)),
          partial_(memory, int64_t(kVectorsAtOnce + 1) * blocks_),
          factors_(memory, BB_BASIS_VECTORS) {
        peers.follow(memory);
        if (by_source) peers.follow(by_source->memory);
        for (Mailbox* box : {&before_, &after_}) box->reserve(kVectorsAtOnce + 1, stream());
    }

    double* lend() {
        if (idle_.empty()) {
            owned_.emplace_back(memory, n);
            return owned_.back().data();
        }
        double* vector = idle_.back();
        idle_.pop_back();
        return vector;
    }
    void give(double* vector) { idle_.push_back(vector); }

    void fill(double* vector, double value) {
        const NextLaunch launch(blocks_for(n), 256, 0, stream(), false);
        launch(fill_vector, vector, value, n);
    }

    void apply(bb_operator op, const double* from, double* to) {
        from = peers.gather(from, whole_);
        if (op == BB_TRANSPOSED && by_source)
            by_source->apply(BB_NORMAL, from, to, 1);
        else
            matrix->apply(op, from, to, 1);
    }

    double orthogonalise(const double* from, const double* const* vectors, int count, double* to) {
        double left = 0;
        for (int turn = 0; turn < 2; turn++) {
            const double* source = turn ? to : from;
            if (count) project_on(source, vectors, count);
            add_all(source, vectors, count, -1.0, to);
            left = std::sqrt(after_.wait(peers.letters())[0]);
            if (!count || left > kEnoughLeft * std::sqrt(before_.wait(peers.letters())[0])) break;
        }
        if (left > 0) {
            const NextLaunch launch(blocks_for(n), 256, 0, stream(), false);
            launch(divide_vector, to, left, n);
        }
        check_products();
        return left;
    }

    void combine(const double* const* vectors, const double* factors, int count, double* to) {
        factors_.from_host(factors, count);
        add_all(nullptr, vectors, count, 1.0, to);
        BB_CHECK(cudaStreamSynchronize(stream()));  // the caller's factors have been read
    }

    double distance(const double* vector, double factor, const double* other) {
        pass()(measure_distance, vector, factor, other, n, partial_.data());
        finish(1, nullptr, 0, &after_);
        const double length = std::sqrt(after_.wait(peers.letters())[0]);
        check_products();
        return length;
    }

    // On the device, since passes of the host over millions of nodes take longer than the process.
    void make_distribution(const double* vector, double* to) {
        pass()(measure_signs, vector, n, partial_.data());
        finish(2, factors_.data(), 2, nullptr);
        const NextLaunch launch(blocks_for(n), 256, 0, stream(), false);
        launch(divide_by_sum, vector, factors_.data(), n, to);
    }

    void get(const double* vector, double* values) {
        numbering_.fetch(matrix->bridge, peers.gather(vector, whole_), values);
    }

    // Waits for all that was queued: letters may still be on their way.
    void settle() noexcept {
        cudaStreamSynchronize(peers.letters());
        cudaStreamSynchronize(stream());
    }

    bb_matrix *const matrix, *const by_source;
    Memory& memory;
    const int64_t n;
    Peers peers;

  private:
    cudaStream_t stream() const { return memory.stream; }
    void check_products() const {
        for (const bb_matrix* each : {matrix, by_source})
            if (each) each->check_products();
    }
    NextLaunch pass() const { return NextLaunch(unsigned(blocks_), kPassThreads, 0, stream(), false); }

    // Adds up the sums of the last pass; as for Peers::finish.
    void finish(int count, double* keep, int keeps, Mailbox* box) {
        peers.finish(partial_.data(), blocks_, count, keep, keeps, Numbers{}, box ? box->next() : Letter{});
        if (keep) peers.await();
    }

    // Sets the factors to the products with all vectors, and sends the square of `vector`.
    void project_on(const double* vector, const double* const* vectors, int count) {
        for (int first = 0; first < count; first += kVectorsAtOnce) {
            const int used = std::min(count - first, kVectorsAtOnce);
            with_count(used, [&](auto most) {
                pass()(project<decltype(most)::value>, some(vectors + first, used), vector, n,
                       partial_.data());
            });
            finish(1 + used, factors_.data() + first, used, first == 0 ? &before_ : nullptr);
        }
    }

    // to = from + sign times factors times vectors; sends the square of `to`.
    void add_all(const double* from, const double* const* vectors, int count, double sign, double* to) {
        int first = 0;
        do {
            const int used = std::min(count - first, kVectorsAtOnce);
            const SomeVectors group = used ? some(vectors + first, used) : some(&from, 1);
            const double* source = first ? to : from;
            with_count(used, [&](auto most) {
                pass()(add_multiples<decltype(most)::value>, group, factors_.data() + first, used, sign,
                       source, n, to, partial_.data());
            });
            first += kVectorsAtOnce;
            finish(1, nullptr, 0, first >= count ? &after_ : nullptr);
        } while (first < count);
    }

    const Numbering numbering_;
    const int blocks_;
    Array<double> partial_, factors_, whole_;
    Mailbox before_, after_;
    std::vector<Array<double>> owned_;
    std::vector<double*> idle_;
};

namespace {

template <class Body>
bb_status on(bb_basis* basis, Body&& body) noexcept {
    return on_matrix(basis ? basis->matrix : nullptr, [&] { body(*basis); });
}

}  // namespace

extern "C" {

bb_status bb_basis_create(bb_matrix* matrix, bb_matrix* by_source, const uint32_t* places,
                          const bb_graph_ranks* ranks, bb_basis** out) {
    return on_matrix(matrix, [&] {
        for (const bb_matrix* each : {matrix, by_source})
            expect(!each || (each->finished && each->rows() == matrix->rows() &&
                             each->cols() == matrix->cols() && each->type == BB_FLOAT64),
                   "matrix: expected one of float64, or two with the same numbers of rows and columns");
        expect(by_source || matrix->rows() == matrix->cols(), "matrix: expected a square one");
        expect(!by_source || by_source->memory.stream == matrix->memory.stream,
               "matrix: expected two on the same stream");
        *out = new bb_basis(matrix, by_source, places, ranks);
    });
}

void bb_basis_destroy(bb_basis* basis) {
    if (!basis) return;
    on(basis, [&](bb_basis& b) {
        b.settle();
        delete &b;
    });
}

bb_status bb_basis_lend(bb_basis* basis, double** vector) {
    return on(basis, [&](bb_basis& b) { *vector = b.lend(); });
}

void bb_basis_give(bb_basis* basis, double* vector) {
    on(basis, [&](bb_basis& b) { b.give(vector); });
}

bb_status bb_basis_fill(bb_basis* basis, double* vector, double value) {
    return on(basis, [&](bb_basis& b) { b.fill(vector, value); });
}

bb_status bb_basis_apply(bb_basis* basis, bb_operator op, const double* from, double* to) {
    return on(basis, [&](bb_basis& b) { b.apply(op, from, to); });
}

bb_status bb_basis_orthogonalise(bb_basis* basis, const double* from, const double* const* vectors,
                                 int32_t count, double* to, double* length) {
    return on(basis, [&](bb_basis& b) {
        expect(count >= 0 && count <= BB_BASIS_VECTORS, "vectors: expected at most 64");
        *length = b.orthogonalise(from, vectors, count, to);
    });
}

bb_status bb_basis_combine(bb_basis* basis, const double* const* vectors, const double* factors,
                           int32_t count, double* to) {
    return on(basis, [&](bb_basis& b) {
        expect(count >= 1 && count <= BB_BASIS_VECTORS, "vectors: expected 1 to 64");
        b.combine(vectors, factors, count, to);
    });
}

bb_status bb_basis_distance(bb_basis* basis, const double* vector, double factor, const double* other,
                            double* length) {
    return on(basis, [&](bb_basis& b) { *length = b.distance(vector, factor, other); });
}

bb_status bb_basis_distribution(bb_basis* basis, const double* vector, double* to) {
    return on(basis, [&](bb_basis& b) { b.make_distribution(vector, to); });
}

bb_status bb_basis_get(bb_basis* basis, const double* vector, double* values) {
    return on(basis, [&](bb_basis& b) { b.get(vector, values); });
}

}  // extern "C"
