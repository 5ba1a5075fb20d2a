// Cutting planes: made from derivatives, combined, moved and merged.
#include <algorithm>
#include <utility>

#include "training/problem.h"

using namespace bmrm;

template <class T>
void bb_problem::gradients(int64_t size, const int64_t* starts, int count, const double* block_sums) {
    T* fresh = cut<T>(size);
    if (in_rows()) {
        T* weights = reinterpret_cast<T*>(rounded.data());
        timed([&] { matrix->apply(BB_TRANSPOSED, derivatives[0].data(), weights, 1); });
        if (constant != 0) constant_gradient<<<1, 1, 0, stream()>>>(constant, block_sums, 0, weights, cols);
        product(weights, weights + cols, fresh + space.half);
        BB_CHECK(cudaMemcpyAsync(fresh, derivatives[0].data(), size_t(rows * bytes()), cudaMemcpyDefault,
                                 stream()));
        if (start.size())
            along_start<<<1, kDotThreads, 0, stream()>>>(fresh, space, stride, rows,
                                                         reinterpret_cast<const T*>(start_margins.data()));
        return;
    }
    if (count == 1) {
        timed([&] { matrix->apply(BB_TRANSPOSED, derivatives[0].data(), fresh, 1); });
    } else {
        const int64_t size_of_all = count * cols * bytes();
        if (block_gradients.size() < size_of_all) block_gradients = Array<unsigned char>(memory, size_of_all);
        timed([&] { matrix->apply_blocks(derivatives[0].data(), starts, count, block_gradients.data()); });
        BB_CHECK(cudaMemcpy2DAsync(fresh, size_t(stride * bytes()), block_gradients.data(),
                                   size_t(cols * bytes()), size_t(cols * bytes()), size_t(count),
                                   cudaMemcpyDefault, stream()));
    }
    if (constant != 0)
        constant_gradient<<<1, unsigned(count), 0, stream()>>>(constant, block_sums, stride, fresh, cols);
    ranks.add_up(memory, type, fresh, (count - 1) * stride + width);
}

void bb_problem::queue_cut(int64_t size, const int64_t* starts, int count, const void* w, const void* end,
                           Step step, const double* block_sums, Mailbox& box) {
    const int64_t all = size + count, each = all + 1;
    const int64_t share = std::max<int64_t>(kMinShare, (space.span + kDotShares - 1) / kDotShares);
    const unsigned shares = unsigned((space.span + share - 1) / share);
    constexpr int64_t kRows = kDotThreads / 32;
    box.reserve(count * each + 2 * count, stream());
    const Letter letter = box.next();
    if (dots.size() < each * shares) dots = Array<double>(memory, 2 * each * shares);
    by_type(type, [&](auto t) {
        using T = decltype(t);
        gradients<T>(size, starts, count, block_sums);
        for (int block = 0; block < count; block++) {
            Letter part = letter;
            if (block < count - 1) part.arrived = nullptr;
            dot_cuts<T><<<dim3(shares, unsigned((each + kRows - 1) / kRows)), kDotThreads, 0, stream()>>>(
                cut<T>(0), space, stride, size + block, int(all), static_cast<const double*>(w),
                static_cast<const double*>(end), step, share, dots.data(), ticket.data(), part, block * each,
                block_sums, count);
            BB_CHECK(cudaGetLastError());
        }
    });
}

extern "C" {

bb_status bb_cuts_reserve(bb_problem* problem, int64_t capacity) {
    return on(problem, [&](bb_problem& p) {
        if (capacity <= p.capacity) return;
        Array<unsigned char> more(p.memory, capacity * p.stride * p.bytes());
        more.fill_bytes(0);  // the padding of a row is copied with it
        if (p.capacity)
            BB_CHECK(cudaMemcpyAsync(more.data(), p.cuts.data(), size_t(p.cuts.bytes()), cudaMemcpyDefault,
                                     p.stream()));
        p.cuts = std::move(more);
        p.capacity = capacity;
    });
}

bb_status bb_cut(bb_problem* problem, int64_t size, const int64_t* starts, int32_t blocks, const void* z,
                 const void* dz, const void* w, const void* end, double t, double* sums, double* dots) {
    return on(problem, [&](bb_problem& p) {
        const int64_t all = size + blocks, each = all + 1;
        if (size < 0 || blocks < 1 || blocks > (p.in_rows() ? 1 : kMaxBlocks) || all > p.capacity)
            throw Failure(BB_INVALID, "cuts: more than the reserved number");
        const bool made = blocks == 1 && z && p.ahead == CutPlace{size, z, dz, w, end, t};
        Mailbox& box = made ? p.ahead_mailbox : p.mailbox;
        if (!made) {
            if (z) p.take_derivatives(z, dz, t, 0.0, 0, starts, blocks, {});
            p.queue_cut(size, starts, blocks, w, end, Step{t, nullptr}, p.sums.data(), box);
        }
        p.ahead = {};
        const double* values = p.answer(box);
        std::copy_n(values, blocks * each, dots);
        std::copy_n(values + blocks * each, 2 * blocks, sums);
        p.ranks.total(sums, 2 * blocks);
    });
}

bb_status bb_cuts_combine(bb_problem* problem, int64_t count, const double* weights, double factor,
                          const void* from, void* w, void* z, double sums[3]) {
    return on(problem, [&](bb_problem& p) {
        by_type(p.type, [&](auto type) {
            using T = decltype(type);
            const Letter letter = p.mailbox.next();
            T* narrow = p.in_rows() ? static_cast<T*>(z) : reinterpret_cast<T*>(p.rounded.data());
            int64_t next = 0;
            bool first = true, last = false;
            while (!last) {
                Mix mix;
                for (mix.count = 0; next < count && mix.count < kMixRows; next++)
                    if (weights[next] != 0) {
                        mix.number[mix.count] = int32_t(next);
                        mix.weight[mix.count++] = factor * weights[next];
                    }
                last = next == count;
                combine_cuts<T><<<unsigned(p.mix_blocks), kMixAcross * kMixDown, 0, p.stream()>>>(
                    p.cut<T>(0), p.space, p.stride, mix, first, static_cast<const double*>(from),
                    static_cast<double*>(w), narrow, p.in_rows() ? p.rows : p.width, p.partial.data(),
                    p.ticket.data(), last ? letter : Letter{});
                BB_CHECK(cudaGetLastError());
                first = false;
            }
        });
        if (p.in_rows()) {
            p.add_offsets_to(z, 1.0);
        } else {
            p.rounded_of = w;
            // The solver will need it, unless it stops here.
            p.margins(static_cast<const double*>(w), z);
        }
        std::copy_n(p.answer(), 3, sums);
    });
}

bb_status bb_cuts_move(bb_problem* problem, int64_t to, int64_t from) {
    return on(problem, [&](bb_problem& p) {
        const size_t bytes = size_t(p.stride * p.bytes());
        BB_CHECK(cudaMemcpyAsync(p.cuts.data() + to * int64_t(bytes), p.cuts.data() + from * int64_t(bytes),
                                 bytes, cudaMemcpyDefault, p.stream()));
    });
}

bb_status bb_cuts_merge(bb_problem* problem, int64_t i, int64_t j, double share) {
    return on(problem, [&](bb_problem& p) {
        by_type(p.type, [&](auto type) {
            using T = decltype(type);
            mix<<<blocks_for(p.length), 256, 0, p.stream()>>>(p.cut<T>(i), p.cut<T>(j), share, p.length);
        });
    });
}

bb_status bb_cuts_get(bb_problem* problem, int64_t first, int64_t count, double* target) {
    return on(problem, [&](bb_problem& p) {
        Array<double> wide(p.memory, p.stride);
        for (int64_t k = 0; k < count; k++) {
            by_type(p.type, [&](auto type) {
                using T = decltype(type);
                widen<<<blocks_for(p.length), 256, 0, p.stream()>>>(p.cut<T>(first + k), p.length,
                                                                    wide.data());
            });
            BB_CHECK(cudaMemcpyAsync(target + k * p.length, wide.data(), size_t(p.length) * 8,
                                     cudaMemcpyDefault, p.stream()));
        }
        BB_CHECK(cudaStreamSynchronize(p.stream()));
    });
}

bb_status bb_cuts_set(bb_problem* problem, int64_t first, int64_t count, const double* source) {
    return on(problem, [&](bb_problem& p) {
        if (p.in_rows()) throw Failure(BB_INVALID, "cuts: cannot be set in the space of rows");
        Array<double> wide(p.memory, p.stride);
        for (int64_t k = 0; k < count; k++) {
            BB_CHECK(cudaMemcpyAsync(wide.data(), source + k * p.width, size_t(p.width) * 8,
                                     cudaMemcpyDefault, p.stream()));
            by_type(p.type, [&](auto type) {
                using T = decltype(type);
                narrow_numbers<<<blocks_for(p.width), 256, 0, p.stream()>>>(wide.data(), p.width,
                                                                            p.cut<T>(first + k));
            });
        }
        BB_CHECK(cudaStreamSynchronize(p.stream()));
    });
}

}  // extern "C"
