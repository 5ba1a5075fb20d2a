// Points on a device; api/pairs.h.
#include <algorithm>
#include <cmath>

#include "pairs/kernels/place.cuh"
#include "pairs/points.h"
#include "runtime/chain.cuh"
#include "runtime/device_sort.cuh"
#include "runtime/upload.h"

using namespace bmrm;

bb_points::bb_points(const bb_device& device, const bb_point_data& data)
    : Handle(device.id), device(device), n(data.n), axes(data.axes), length(data.box, data.box + data.axes) {
    if (n < 0 || n >= int64_t(1) << 31 || axes < 1)
        throw Failure(BB_INVALID, "points: expected fewer than 2^31, of at least one coordinate");
    if (data.type != BB_FLOAT32 && data.type != BB_FLOAT64)
        throw Failure(BB_INVALID, "points: expected float32 or float64");
    std::vector<double> box(length);
    for (const double L : length) {
        box.push_back(L > 0 ? 1 / L : 0);
        periodic_ |= L > 0;
    }
    box_ = on_device(memory, box);
    low.assign(size_t(axes), 0);
    high.assign(size_t(axes), 0);
    if (n > 0) take(data);
    BB_CHECK(cudaStreamSynchronize(memory.stream));  // the caller's coordinates have been read
    memory.trim();
}

void bb_points::take(const bb_point_data& data) {
    Array<double> given(memory, n * axes);
    const auto turn = [&](auto type) {
        using T = decltype(type);
        const int64_t bytes = n * axes * int64_t(sizeof(T));
        cudaPointerAttributes where = {};
        if (cudaPointerGetAttributes(&where, data.at) != cudaSuccess) cudaGetLastError();
        const bool is_here = where.type == cudaMemoryTypeDevice && where.device == memory.device;
        Array<unsigned char> staged;
        if (!is_here) {
            staged = Array<unsigned char>(memory, bytes);
            Uploader(std::max(1, data.threads)).copy(memory, staged.data(), data.at, bytes);
        }
        const T* const from = static_cast<const T*>(is_here ? data.at : staged.data());
        const NextLaunch launch(blocks_for(n * axes), 256, 0, memory.stream, false);
        launch(turn_points<T>, from, n, axes, data.point, data.axis, given.data());
        BB_CHECK(cudaStreamSynchronize(memory.stream));  // the staged bytes have been read
    };
    data.type == BB_FLOAT64 ? turn(double{}) : turn(float{});
    bound({given.data(), n, axes}, false, boxes_);
    find_extremes();
    sort(given);
    bound(exact(), false, boxes_);
    if (is_periodic()) bound(exact(), true, boxes_in_box_);
}

void bb_points::bound(const ExactPoints& points, bool moved, Array<double>& to) {
    const int64_t tiles = tiles_of(n), size = tiles * axes;
    reserve(memory, to, 2 * size);
    const NextLaunch launch(unsigned(tiles), kTileThreads, 0, memory.stream, false);
    launch(bound_tiles, points, box(), moved, to.data(), to.data() + size);
}

void bb_points::find_extremes() {
    const std::vector<double> found = boxes_.to_host();
    const int64_t tiles = tiles_of(n);
    for (int k = 0; k < axes; k++) {
        low[size_t(k)] = found[size_t(k)];
        high[size_t(k)] = found[size_t(tiles * axes + k)];
        for (int64_t t = 1; t < tiles; t++) {
            low[size_t(k)] = std::min(low[size_t(k)], found[size_t(t * axes + k)]);
            high[size_t(k)] = std::max(high[size_t(k)], found[size_t((tiles + t) * axes + k)]);
        }
    }
}

void bb_points::sort(const Array<double>& given) {
    const CurveRange range(axes, low.data(), high.data(), length.data());
    const Array<uint32_t> position = along_curve(memory, {given.data(), n, axes}, box(), range);
    exact_ = Array<double>(memory, n * axes);
    const NextLaunch gather(blocks_for(n * axes), 256, 0, memory.stream, false);
    gather(gather_points<double>, given.data(), position.data(), n, axes, exact_.data());
}

CurveRange::CurveRange(int all_axes, const double* from, const double* to, const double* length)
    : axes(std::min(all_axes, kCurveAxes)), bits(kCurveBits / axes) {
    for (int k = 0; k < axes; k++) {
        const double L = length[k], extent = L > 0 ? L : to[k] - from[k];
        low[k] = L > 0 ? 0 : from[k];
        scale[k] = extent > 0 && std::isfinite(extent) ? std::ldexp(1.0, bits) / extent : 0;
    }
}

Array<uint32_t> bmrm::along_curve(Memory& memory, const ExactPoints& points, const Box& box,
                                  const CurveRange& range) {
    Array<uint32_t> place(memory, points.n);
    const NextLaunch launch(blocks_for(points.n), 256, 0, memory.stream, false);
    launch(place_on_curve, points, box, range, place.data());
    return sort_with_positions(memory, place, uint64_t(1) << (range.bits * range.axes));
}

extern "C" {

bb_status bb_points_create(const bb_device* device, const bb_point_data* data, bb_points** out) {
    return guarded([&] {
        const OnDevice scope(device->id);
        *out = new bb_points(*device, *data);
    });
}

void bb_points_destroy(bb_points* points) { destroy_handle(points); }

bb_status bb_points_used(bb_points* points, int64_t* bytes) {
    return on_handle(points, [&](bb_points& held) { *bytes = held.memory.used(); });
}

bb_status bb_points_extents(bb_points* points, double* low, double* high) {
    return on_handle(points, [&](bb_points& held) {
        std::copy(held.low.begin(), held.low.end(), low);
        std::copy(held.high.begin(), held.high.end(), high);
    });
}

}  // extern "C"
