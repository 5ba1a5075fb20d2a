// Sums of functions of the distance on a device; api/densities.h.
#include <algorithm>
#include <vector>

#include "api/densities.h"
#include "pairs/kernels/density.cuh"
#include "runtime/chain.cuh"
#include "runtime/handle.h"

using namespace bmrm;

namespace {

// Sums of chunks that a launch writes.
constexpr int64_t kPassSums = int64_t(1) << 24;

int64_t chunks_of(int64_t m) { return (m + kDensityChunk - 1) / kDensityChunk; }

// Numbers by rows of m, each padded by copies of its last one, or by zeros.
template <class T>
Array<T> padded(Memory& memory, const double* from, int64_t m, int rows, bool zeros) {
    const int64_t whole = (m + kLightStep - 1) / kLightStep * kLightStep;
    std::vector<T> out(size_t(whole * rows));
    for (int64_t row = 0; row < rows; row++)
        for (int64_t j = 0; j < whole; j++)
            out[size_t(row * whole + j)] = j < m   ? T(from[row * m + j])
                                           : zeros ? T(0)
                                                   : T(from[row * m + m - 1]);
    return on_device(memory, out);
}

}  // namespace

struct bb_density : Handle {
    bb_density(const bb_device& device, const bb_density_points& points)
        : Handle(device.id), m_(points.m), axes_(points.axes) {
        if (m_ < 1 || m_ >= int64_t(1) << 29 || axes_ < 1)
            throw Failure(BB_INVALID, "points: expected fewer than 2^29, of at least one coordinate");
        y_ = padded<double>(memory, points.y, m_, axes_, false);
        weights_ = padded<double>(memory, points.weights, m_, 1, true);
        if (!points.light) return;
        light_y_ = padded<float>(memory, points.y, m_, axes_, false);
        light_weights_ = padded<float>(memory, points.weights, m_, 1, true);
    }

    void nearest(const double* x, int64_t n, double* squares);
    void sums(const double* x, int64_t n, const bb_smoothing& smoothing, double* sums, double* inside);
    void light_sums(const double* x, int64_t n, float rate, float most, double* sums, double* moments);

  private:
    template <Shape shape>
    void add(const double* x, int64_t n, const bb_smoothing& smoothing, double* sums, double* inside);
    // Calls run(set, first, a, b) for some points x after the others, which fills sums of chunks a and b.
    template <bool LEAST, class T, class Run>
    void in_passes(const double* x, int64_t n, const Array<T>& y, const Array<T>& weights, double* a,
                   double* b, const Run& run);
    template <bool LEAST>
    void combine(Array<double>& values, int64_t n, double* out);
    NextLaunch launch(int64_t n) const {
        const dim3 blocks(blocks_for(n, kDensityThreads), unsigned(chunks_of(m_)));
        return {blocks, kDensityThreads, 0, memory.stream, false};
    }

    const int64_t m_;
    const int axes_;
    Array<double> y_, weights_;
    Array<float> light_y_, light_weights_;
};

template <bool LEAST>
void bb_density::combine(Array<double>& values, int64_t n, double* out) {
    const NextLaunch launch(blocks_for(n), 256, 0, memory.stream, false);
    launch(combine_chunks<LEAST>, values.data(), n, chunks_of(m_));
    BB_CHECK(
        cudaMemcpyAsync(out, values.data(), size_t(n) * sizeof(double), cudaMemcpyDefault, memory.stream));
    BB_CHECK(cudaStreamSynchronize(memory.stream));
}

template <bool LEAST, class T, class Run>
void bb_density::in_passes(const double* x, int64_t n, const Array<T>& y, const Array<T>& weights, double* a,
                           double* b, const Run& run) {
    const int64_t rows = std::max<int64_t>(kDensityThreads, kPassSums / chunks_of(m_));
    const int64_t most = std::min(n, rows) * chunks_of(m_);
    Array<double> of_a(memory, most), of_b(memory, b ? most : 0);
    for (int64_t first = 0; first < n; first += rows) {
        const int64_t count = std::min(rows, n - first);
        std::vector<T> some(size_t(count * axes_));
        for (int64_t k = 0; k < axes_; k++)
            for (int64_t i = 0; i < count; i++) some[size_t(k * count + i)] = T(x[k * n + first + i]);
        const Array<T> here = on_device(memory, some);
        run(DensitySet<T>{here.data(), y.data(), weights.data(), count, weights.size(), axes_}, first,
            of_a.data(), of_b.data());
        combine<LEAST>(of_a, count, a + first);
        if (b) combine<LEAST>(of_b, count, b + first);
    }
}

void bb_density::nearest(const double* x, int64_t n, double* squares) {
    in_passes<true>(x, n, y_, weights_, squares, nullptr,
                    [&](const DensitySet<double>& set, int64_t, double* least, double*) {
                        launch(set.n)(find_nearest, set, least);
                    });
}

template <Shape shape>
void bb_density::add(const double* x, int64_t n, const bb_smoothing& smoothing, double* sums,
                     double* inside) {
    const std::vector<double> offsets = smoothing.offsets
                                            ? std::vector<double>(smoothing.offsets, smoothing.offsets + n)
                                            : std::vector<double>(size_t(n));
    const Array<double> of_x = on_device(memory, offsets);
    in_passes<false>(x, n, y_, weights_, sums, inside,
                     [&](const DensitySet<double>& set, int64_t first, double* a, double* b) {
                         launch(set.n)(add_terms<shape>, set,
                                       Smoothing{shape, smoothing.scale, smoothing.end}, of_x.data() + first,
                                       a, b);
                     });
}

void bb_density::sums(const double* x, int64_t n, const bb_smoothing& smoothing, double* sums,
                      double* inside) {
    using Add = void (bb_density::*)(const double*, int64_t, const bb_smoothing&, double*, double*);
    constexpr Add kAdd[kShapes] = {
        &bb_density::add<Shape::gaussian>,     &bb_density::add<Shape::tophat>,
        &bb_density::add<Shape::epanechnikov>, &bb_density::add<Shape::exponential>,
        &bb_density::add<Shape::linear>,       &bb_density::add<Shape::cosine>};
    if (smoothing.shape < 0 || smoothing.shape >= kShapes) throw Failure(BB_INVALID, "shape: out of range");
    (this->*kAdd[smoothing.shape])(x, n, smoothing, sums, inside);
}

void bb_density::light_sums(const double* x, int64_t n, float rate, float most, double* sums,
                            double* moments) {
    if (light_y_.size() == 0) throw Failure(BB_INVALID, "light: expected True for sums in float32");
    const auto kernel = axes_ == 1   ? add_light_terms<1>
                        : axes_ == 2 ? add_light_terms<2>
                        : axes_ == 3 ? add_light_terms<3>
                                     : add_light_terms<0>;
    in_passes<false>(x, n, light_y_, light_weights_, sums, moments,
                     [&](const DensitySet<float>& set, int64_t, double* a, double* b) {
                         launch((set.n + kLightRows - 1) / kLightRows)(kernel, set, rate, most, a, b);
                     });
}

extern "C" {

const char* bb_shape_name(int32_t shape) {
    return shape >= 0 && shape < kShapes ? kShapeNames[shape] : nullptr;
}

bb_status bb_density_create(const bb_device* device, const bb_density_points* points, bb_density** out) {
    return guarded([&] {
        const OnDevice scope(device->id);
        *out = new bb_density(*device, *points);
    });
}

void bb_density_destroy(bb_density* density) { destroy_handle(density); }

bb_status bb_density_nearest(bb_density* density, const double* x, int64_t n, double* squares) {
    return on_handle(density, [&](bb_density& held) { held.nearest(x, n, squares); });
}

bb_status bb_density_sums(bb_density* density, const double* x, int64_t n, const bb_smoothing* smoothing,
                          double* sums, double* inside) {
    return on_handle(density, [&](bb_density& held) { held.sums(x, n, *smoothing, sums, inside); });
}

bb_status bb_density_light_sums(bb_density* density, const double* x, int64_t n, float rate, float most,
                                double* sums, double* moments) {
    return on_handle(density, [&](bb_density& held) { held.light_sums(x, n, rate, most, sums, moments); });
}

}  // extern "C"
