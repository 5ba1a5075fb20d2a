// Points: weights set, returned and moved, and their margins, in the space of columns or of rows.
#include "training/problem.h"

using namespace bmrm;

namespace {

__global__ void between(const double* w, const double* end, double t, int64_t n, double* out) {
    BB_FOR (i, n) out[i] = w[i] + t * (end[i] - w[i]);
}

__global__ void scale_weights(const double* w, int64_t n, double scale, double* out) {
    BB_FOR (i, n) out[i] = scale * w[i];
}

template <class T>
__global__ void subtract(const T* z, T* end, int64_t n) {
    BB_FOR (i, n) end[i] = end[i] - z[i];
}

template <class T, class W>
__global__ void add_constant(T* z, int64_t n, double factor, const W* weight) {
    const T more = T(factor * double(*weight));
    BB_FOR (i, n) z[i] += more;
}

template <class T>
__global__ void add_offset(T* z, int64_t n, double factor, const RowNumbers offsets) {
    BB_FOR (i, n) z[i] = T(double(z[i]) + factor * number_at(offsets, i));
}

}  // namespace

template <class T, class W>
void bb_problem::product(const T* weights, const W* constant_weight, T* z) {
    timed([&] { matrix->apply(BB_NORMAL, weights, z, 1); });
    add_constant_to(constant_weight, z);
}

template <class T, class W>
void bb_problem::add_constant_to(const W* constant_weight, T* z) {
    if (constant != 0)
        add_constant<<<blocks_for(rows), 256, 0, stream()>>>(z, rows, constant, constant_weight);
}

// cuts.cu has products of gradients in the space of rows, newton.cu of directions.
template void bb_problem::product(const float*, const float*, float*);
template void bb_problem::product(const double*, const double*, double*);
template void bb_problem::add_constant_to(const double*, float*);
template void bb_problem::add_constant_to(const double*, double*);

void bb_problem::add_offsets_to(void* z, double factor) {
    if (!risk.offsets.data) return;
    by_type(type, [&](auto t) {
        add_offset<<<blocks_for(rows), 256, 0, stream()>>>(static_cast<decltype(t)*>(z), rows, factor,
                                                           risk.offsets);
    });
    BB_CHECK(cudaGetLastError());
}

void bb_problem::margins(const double* w, void* z, double factor) {
    by_type(type, [&](auto t) {
        using T = decltype(t);
        T* narrow = reinterpret_cast<T*>(rounded.data());
        if (rounded_of != w) narrow_numbers<<<blocks_for(width), 256, 0, stream()>>>(w, width, narrow);
        rounded_of = w;
        product(narrow, w + cols, static_cast<T*>(z));
    });
    add_offsets_to(z, factor);
}

template <class T>
T* bb_problem::assemble(const double* point) {
    T *coefficients = reinterpret_cast<T*>(derivatives[1].data()),
      *weights = reinterpret_cast<T*>(rounded.data());
    narrow_numbers<<<blocks_for(rows), 256, 0, stream()>>>(point, rows, coefficients);
    timed([&] { matrix->apply(BB_TRANSPOSED, coefficients, weights, 1); });
    if (constant != 0)
        constant_weight<<<1, kRowThreads, 0, stream()>>>(coefficients, rows, constant, weights + cols);
    if (start.size())
        add_start<<<blocks_for(width), 256, 0, stream()>>>(weights, start.data(), point + rows, width);
    BB_CHECK(cudaGetLastError());
    return weights;
}

template <class T>
void bb_problem::begin(const double* source, double* point) {
    BB_CHECK(cudaMemsetAsync(point, 0, size_t(length) * 8, stream()));
    if (!source) return;  // 0 is a combination of no rows; other points may depend on the current start
    start = Array<double>(memory, width);
    start.from_host(source, width);
    start_margins = Array<unsigned char>(memory, rows * bytes());
    T *weights = reinterpret_cast<T*>(rounded.data()), *z = reinterpret_cast<T*>(start_margins.data());
    narrow_numbers<<<blocks_for(width), 256, 0, stream()>>>(start.data(), width, weights);
    product(weights, weights + cols, z);
    finish(weights, z, point, mailbox.next());
    const double one = 1;
    BB_CHECK(cudaMemcpyAsync(point + rows, &one, 8, cudaMemcpyDefault, stream()));
    if (capacity)
        along_start<<<unsigned(capacity), kDotThreads, 0, stream()>>>(cut<T>(0), space, stride, rows, z);
    answer();
}

template <class T>
void bb_problem::finish(const T* weights, const T* z, double* point, Letter letter) {
    widen<<<blocks_for(rows), 256, 0, stream()>>>(z, rows, point + space.half);
    measure_weights<<<1, kRowThreads, 0, stream()>>>(weights, start.data(), width, point + space.half + rows,
                                                     letter);
    BB_CHECK(cudaGetLastError());
}

extern "C" {

bb_status bb_weights_set(bb_problem* problem, void* w, const double* source) {
    return on(problem, [&](bb_problem& p) {
        if (p.in_rows()) {
            by_type(p.type, [&](auto t) { p.begin<decltype(t)>(source, static_cast<double*>(w)); });
            return;
        }
        if (p.rounded_of == w) p.rounded_of = nullptr;
        if (!source) {
            BB_CHECK(cudaMemsetAsync(w, 0, size_t(p.width) * 8, p.stream()));
            return;
        }
        BB_CHECK(cudaMemcpyAsync(w, source, size_t(p.width) * 8, cudaMemcpyDefault, p.stream()));
        BB_CHECK(cudaStreamSynchronize(p.stream()));
    });
}

bb_status bb_weights_get(bb_problem* problem, const void* w, double* target) {
    return on(problem, [&](bb_problem& p) {
        bb_type type = BB_FLOAT64;
        if (p.in_rows()) {
            by_type(p.type, [&](auto t) { w = p.assemble<decltype(t)>(static_cast<const double*>(w)); });
            type = p.type;
        }
        p.matrix->bridge.fetch(p.memory, type, w, p.width, target);
    });
}

bb_status bb_margins_get(bb_problem* problem, const void* z, double* target) {
    return on(problem, [&](bb_problem& p) {
        Array<double> wide(p.memory, p.rows);
        by_type(p.type, [&](auto t) {
            widen<<<blocks_for(p.rows), 256, 0, p.stream()>>>(static_cast<const decltype(t)*>(z), p.rows,
                                                              wide.data());
        });
        BB_CHECK(cudaMemcpyAsync(target, wide.data(), size_t(p.rows) * 8, cudaMemcpyDefault, p.stream()));
        BB_CHECK(cudaStreamSynchronize(p.stream()));
    });
}

bb_status bb_weights_between(bb_problem* problem, const void* w, const void* end, double t, void* target) {
    return on(problem, [&](bb_problem& p) {
        if (p.rounded_of == target) p.rounded_of = nullptr;
        between<<<blocks_for(p.length), 256, 0, p.stream()>>>(static_cast<const double*>(w),
                                                              static_cast<const double*>(end), t, p.length,
                                                              static_cast<double*>(target));
        BB_CHECK(cudaGetLastError());
    });
}

bb_status bb_margins(bb_problem* problem, const void* w, void* z) {
    return on(problem, [&](bb_problem& p) { p.margins(static_cast<const double*>(w), z); });
}

bb_status bb_renew(bb_problem* problem, void* w, void* z, double* square) {
    return on(problem, [&](bb_problem& p) {
        by_type(p.type, [&](auto t) {
            using T = decltype(t);
            T *weights = p.assemble<T>(static_cast<double*>(w)), *margins = static_cast<T*>(z);
            p.product(weights, weights + p.cols, margins);
            p.finish(weights, margins, static_cast<double*>(w), p.mailbox.next());
        });
        p.add_offsets_to(z, 1.0);
        *square = *p.answer();
    });
}

bb_status bb_rescaled(bb_problem* problem, const void* w, double scale, void* z) {
    return on(problem, [&](bb_problem& p) {
        double* scaled = static_cast<double*>(p.take(BB_WEIGHTS));
        scale_weights<<<blocks_for(p.length), 256, 0, p.stream()>>>(static_cast<const double*>(w), p.length,
                                                                    scale, scaled);
        BB_CHECK(cudaGetLastError());
        by_type(p.type, [&](auto t) {
            using T = decltype(t);
            if (p.in_rows()) {
                T* weights = p.assemble<T>(scaled);
                p.product(weights, weights + p.cols, static_cast<T*>(z));
                p.add_offsets_to(z, scale);
            } else {
                p.margins(scaled, z, scale);
            }
        });
        p.give(BB_WEIGHTS, scaled);
    });
}

bb_status bb_direction(bb_problem* problem, const void* z, void* end) {
    return on(problem, [&](bb_problem& p) {
        by_type(p.type, [&](auto t) {
            using T = decltype(t);
            subtract<<<blocks_for(p.rows), 256, 0, p.stream()>>>(static_cast<const T*>(z),
                                                                 static_cast<T*>(end), p.rows);
        });
    });
}

}  // extern "C"
