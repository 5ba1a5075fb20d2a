#include <algorithm>
#include <cmath>

#include "formats/dense.h"
#include "formats/kernels/dense.cuh"
#include "formats/prepare.h"
#include "formats/tuning.h"

namespace bmrm {

namespace {

int power_of_two(int64_t at_least, int most) {
    int out = 1;
    while (out < most && out < at_least) out *= 2;
    return out;
}

// Returns how much longer a product takes than its bytes, for rows of `packs` packs in groups of `lanes`
// threads each.  It counts threads without a load in the last step, and the last round of blocks, if it is
// not full.  The weights are measured; the last of many rounds hardly matters.
double row_loss(int64_t packs, int64_t groups, int lanes, int64_t slots) {
    const double idle = double((packs + lanes - 1) / lanes * lanes) / double(packs) - 1;
    const double rounds = double(groups * lanes) / double(slots * kDenseThreads);
    return 0.12 * idle +
           (rounds < 1 ? 0.05 * (1 - rounds) : 0.12 * (std::ceil(rounds) - rounds) / (rounds * rounds));
}

// Returns the threads for a group of rows: a power of two, no more than there are packs.
int row_lanes(int64_t packs, int64_t groups, int64_t slots) {
    int best = power_of_two(packs, 32);
    for (int lanes = 2 * best; best >= 32 && lanes <= std::min<int64_t>(packs, kDenseThreads); lanes *= 2)
        if (row_loss(packs, groups, lanes, slots) <= row_loss(packs, groups, best, slots)) best = lanes;
    return best;
}

// Returns the threads of a block over the columns, in packs of `bytes` bytes.  Few threads make narrow strips
// and long runs of rows, and every run leaves sums of all its columns, so this takes as few as leave a strip
// for each slot, but at least 512 bytes of a row.
int threads_across(int64_t packs, int bytes, int64_t slots) {
    int across = power_of_two(packs, 32 * kLoadBytes / bytes);
    while (across < kColumnThreads && (packs + across - 1) / across > slots) across *= 2;
    return across;
}

}  // namespace

Dense::Dense(Memory& memory, int64_t rows, int64_t cols, bb_type type, const bb_device& device)
    : memory_(&memory),
      rows_(rows),
      cols_(cols),
      type_(type),
      device_(device),
      values_(memory, rows * cols * bytes_of(type) + kLoadBytes) {
    // A load of the last row reads past its end.
    BB_CHECK(cudaMemsetAsync(values_.data() + bytes(), 0, kLoadBytes, memory.stream));
}

void Dense::upload(Uploader& uploader, const void* values) {
    uploader.copy(*memory_, values_.data(), values, bytes());
}

void Dense::expect_finite() { bmrm::expect_finite(*memory_, type_, values_.data(), rows_ * cols_); }

template <class T, int VEC, bool SHIFTED>
void Dense::normal_by(const T* x, int64_t padded, T* y) {
    // Shifted rows are longer by what is read before them.
    const int64_t width = SHIFTED ? padded : cols_, packs = (width + VEC - 1) / VEC;
    const int64_t apart = SHIFTED ? VEC : 1;
    const int64_t groups = (rows_ + apart * kDenseRows - 1) / (apart * kDenseRows) * apart;
    const int64_t slots = int64_t(device_.multiprocessors) * kRowBlocks<SHIFTED>;
    const int lanes = row_lanes(packs, groups, slots);
    // Segments, if there are too few rows to keep every multiprocessor busy.
    const int64_t steps = (packs + lanes - 1) / lanes, blocks = (groups * lanes - 1) / kDenseThreads + 1;
    int64_t segments = std::clamp<int64_t>(slots / blocks, 1, (steps + 1) / 2);
    const int64_t segment = (steps + segments - 1) / segments * lanes * VEC;
    segments = (width + segment - 1) / segment;
    if (segments > 1) reserve(*memory_, sums_, rows_ * segments);
    T* sums = segments > 1 ? reinterpret_cast<T*>(sums_.data()) : y;
    const auto launch = [&](auto warps) {
        dense_rows<T, VEC, decltype(warps)::value, SHIFTED>
            <<<blocks_for(groups * segments * lanes, kDenseThreads), kDenseThreads, 0, memory_->stream>>>(
                reinterpret_cast<const T*>(values_.data()), rows_, cols_, x, padded, lanes, int(segments),
                segment, sums);
    };
    switch (lanes) {
        case 256:
            launch(std::integral_constant<int, 8>());
            break;
        case 128:
            launch(std::integral_constant<int, 4>());
            break;
        case 64:
            launch(std::integral_constant<int, 2>());
            break;
        default:
            launch(std::integral_constant<int, 1>());
    }
    BB_CHECK(cudaGetLastError());
    if (segments > 1) add_up(sums, segments, rows_, rows_, y, memory_->stream, memory_->chains);
}

void Dense::normal(const void* x, void* y) {
    by_type(type_, [&](auto t) {
        using T = decltype(t);
        constexpr int WIDEST = kLoadBytes / int(sizeof(T));
        if (pack_size<T>(cols_) == WIDEST || cols_ < tuning::kShiftedColumns ||
            rows_ < tuning::kShiftedRows || bytes() < tuning::kShiftedBytes) {
            with_pack<T>(cols_, [&](auto v) {
                normal_by<T, decltype(v)::value, false>(static_cast<const T*>(x), 0, static_cast<T*>(y));
            });
            return;
        }
        const int64_t padded = (cols_ + 2 * WIDEST - 2) / WIDEST * WIDEST;
        if (!shifted_) shifted_ = Array<unsigned char>(*memory_, padded * kLoadBytes);
        T* inputs = reinterpret_cast<T*>(shifted_.data());
        shift_inputs<T, WIDEST><<<blocks_for(WIDEST * padded), 256, 0, memory_->stream>>>(
            static_cast<const T*>(x), cols_, padded, inputs);
        BB_CHECK(cudaGetLastError());
        normal_by<T, WIDEST, true>(inputs, padded, static_cast<T*>(y));
    });
}

void Dense::transposed(const void* r, void* y) {
    by_type(type_, [&](auto t) {
        using T = decltype(t);
        with_pack<T>(cols_, [&](auto v) {
            constexpr int VEC = decltype(v)::value;
            const int64_t slots = int64_t(device_.multiprocessors) * kColumnBlocks<T, VEC>;
            const int across = threads_across((cols_ + VEC - 1) / VEC, VEC * int(sizeof(T)), slots),
                      down = kColumnThreads / across;
            const int64_t strips = (cols_ + across * VEC - 1) / (across * VEC);
            // One round of blocks.
            const int64_t parts = std::clamp<int64_t>(
                slots / strips, 1, (rows_ + kColumnLoads * down - 1) / (kColumnLoads * down));
            const int64_t segment = (rows_ + parts - 1) / parts;
            const int64_t used = (rows_ + segment - 1) / segment;
            if (strips > 65535) throw Failure(BB_INVALID, "the matrix has too many columns");
            reserve(*memory_, sums_, used * cols_);
            dense_columns<T, VEC>
                <<<dim3(unsigned(used), unsigned(strips)), kColumnThreads, 0, memory_->stream>>>(
                    reinterpret_cast<const T*>(values_.data()), rows_, cols_, static_cast<const T*>(r),
                    across, segment, reinterpret_cast<T*>(sums_.data()));
            BB_CHECK(cudaGetLastError());
            add_up(reinterpret_cast<const T*>(sums_.data()), used, cols_, cols_, static_cast<T*>(y),
                   memory_->stream, memory_->chains);
        });
    });
}

}  // namespace bmrm
