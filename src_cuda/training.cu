// A problem: what a solve keeps on the device beside its matrix, and the launches of its steps.
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "collective.h"
#include "handle.h"
#include "kernels/cuts.cuh"
#include "problem.h"
#include "training.h"

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

// The gradient of the constant feature, from the sum of the derivatives.
template <class T>
__global__ void constant_gradient(double factor, const double* sums, int64_t stride, T* cuts, int64_t at) {
    cuts[int64_t(threadIdx.x) * stride + at] = T(factor * sums[2 * threadIdx.x + 1]);
}

// share of the first, the rest of the second
template <class T>
__global__ void mix(T* first, const T* second, double share, int64_t n) {
    BB_FOR (i, n) first[i] = T(share * double(first[i]) + (1.0 - share) * double(second[i]));
}

// The kernels of a loss.
struct RiskKernels {
    const void *slope, *value, *derivatives, *search, *points, *end;
};

template <class T>
RiskKernels kernels_of(int32_t loss) {
    int number = 0;
#define BMRM_KERNELS(name, Loss)                                              \
    if (loss == number++)                                                     \
        return {reinterpret_cast<const void*>(&slope_of_line<T, Loss>),       \
                reinterpret_cast<const void*>(&risk_of_line<T, Loss, false>), \
                reinterpret_cast<const void*>(&risk_of_line<T, Loss, true>),  \
                reinterpret_cast<const void*>(&search_line<T, Loss>),         \
                reinterpret_cast<const void*>(&slopes_at_points<T, Loss>),    \
                reinterpret_cast<const void*>(&end_search<T, Loss>)};
    BMRM_LOSSES(BMRM_KERNELS)
#undef BMRM_KERNELS
    throw Failure(BB_INVALID, "no loss has number " + std::to_string(loss));
}

template <class N>
bool fits(const double* numbers, int64_t count) {
    return std::all_of(numbers, numbers + count, [](double x) {
        return x >= double(std::numeric_limits<N>::lowest()) && x <= double(std::numeric_limits<N>::max()) &&
               double(N(x)) == x;
    });
}

constexpr int64_t kMostBlocks = 1024;  // of rows

// Where one cut is taken, and its number.
struct CutPlace {
    int64_t size = -1;
    const void *z, *dz, *w, *end;
    double t;
    bool operator==(const CutPlace& other) const {
        return size == other.size && z == other.z && dz == other.dz && w == other.w && end == other.end &&
               t == other.t;
    }
};

}  // namespace

struct bb_problem {
    bb_problem(bb_matrix* matrix, int32_t loss, double parameter, double scale, double constant, bool in_rows)
        : matrix(matrix),
          memory(matrix->memory),
          type(matrix->type),
          rows(matrix->rows()),
          cols(matrix->cols()),
          width(cols + (constant != 0)),
          space(in_rows ? Space{(rows + 4) / 4 * 4, (rows + 4) / 4 * 4} : Space{width, 0}),
          length(space.span + space.half),
          stride((length + 3) / 4 * 4),
          constant(constant) {
        risk.begin = 0;
        risk.end = rows;
        risk.scale = scale;
        risk.parameter.value = parameter;
        int resident = kRowBlocks;
        if (loss != BB_OWN_LOSS) {
            by_type(type, [&](auto t) { kernels = kernels_of<decltype(t)>(loss); });
            BB_CHECK(
                cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernels.search, kRowThreads, 0));
        }
        const int64_t most = int64_t(matrix->device.multiprocessors) * std::clamp(resident, 1, kRowBlocks);
        // A thread has some rows, so that few blocks have to wait for one another where rows are few.
        blocks = int(std::clamp<int64_t>((rows + 4 * kRowThreads - 1) / (4 * kRowThreads), 1, most));
        const int64_t columns_at_once = int64_t(matrix->device.multiprocessors) * 8;
        partial = Array<double>(memory, std::max(blocks * (2 * kPoints + kTotals), int(4 * columns_at_once)));
        mix_blocks = int(std::clamp<int64_t>((space.span + kMixAcross - 1) / kMixAcross, 1, columns_at_once));
        sums = Array<double>(memory, 2 * kMostBlocks);
        ahead_sums = Array<double>(memory, 3);
        ticket = Array<uint32_t>(memory, 1);
        ticket.fill_bytes(0);
        for (Array<unsigned char>& r : derivatives) r = Array<unsigned char>(memory, rows * bytes());
        rounded = Array<unsigned char>(memory, width * bytes());
        mailbox.reserve(1024, stream());
        ahead_mailbox.reserve(1024, stream());
        for (cudaEvent_t& event : events_) BB_CHECK(cudaEventCreate(&event));
    }
    ~bb_problem() {
        for (cudaEvent_t event : events_)
            if (event) cudaEventDestroy(event);
    }

    int64_t bytes() const { return type == BB_FLOAT64 ? 8 : 4; }
    cudaStream_t stream() const { return memory.stream; }
    int64_t vector_bytes(bb_vector kind) const { return kind == BB_WEIGHTS ? length * 8 : rows * bytes(); }
    bool in_rows() const { return space.half != 0; }

    // In the smallest type that loses nothing: a pass over the rows is bound by the bytes that it reads.
    RowNumbers upload(const double* numbers, Array<unsigned char>& to) {
        if (fits<int8_t>(numbers, rows)) return upload_as<int8_t>(numbers, to);
        return fits<float>(numbers, rows) ? upload_as<float>(numbers, to) : upload_as<double>(numbers, to);
    }
    // In the type of the margins where that holds them, to be lent with these.
    RowNumbers upload_to_lend(const double* numbers, Array<unsigned char>& to) {
        const bool narrow = type == BB_FLOAT32 && fits<float>(numbers, rows);
        return narrow ? upload_as<float>(numbers, to) : upload_as<double>(numbers, to);
    }
    template <class N>
    RowNumbers upload_as(const double* numbers, Array<unsigned char>& to) {
        const std::vector<N> shorter(numbers, numbers + rows);
        const int64_t bytes = rows * int64_t(sizeof(N));
        to = Array<unsigned char>(memory, bytes);
        to.from_host(reinterpret_cast<const unsigned char*>(shorter.data()), bytes);
        BB_CHECK(cudaStreamSynchronize(stream()));
        return {to.data(), int32_t(sizeof(N))};
    }

    void launch(const void* kernel, int count, void** arguments, bool together = false) {
        BB_CHECK(together ? cudaLaunchCooperativeKernel(kernel, dim3(unsigned(count)), dim3(kRowThreads),
                                                        arguments, 0, stream())
                          : cudaLaunchKernel(kernel, dim3(unsigned(count)), dim3(kRowThreads), arguments, 0,
                                             stream()));
    }

    void* take(bb_vector kind) {
        std::vector<void*>& idle = idle_[kind];
        if (idle.empty()) {
            owned_.emplace_back(memory, vector_bytes(kind));
            return owned_.back().data();
        }
        void* out = idle.back();
        idle.pop_back();
        return out;
    }
    void give(bb_vector kind, void* vector) {
        if (rounded_of == vector) rounded_of = nullptr;
        idle_[kind].push_back(vector);
    }

    // z = [X, constant] weights
    template <class T, class W>
    void product(const T* weights, const W* constant_weight, T* z) {
        timed(BB_NORMAL, [&] { matrix->apply(BB_NORMAL, weights, z, 1); });
        if (constant != 0)
            add_constant<<<blocks_for(rows), 256, 0, stream()>>>(z, rows, constant, constant_weight);
    }

    // Makes the weights of a point in the space of rows, in the matrix's type, and leaves them in `rounded`.
    template <class T>
    T* assemble(const double* point) {
        T *coefficients = reinterpret_cast<T*>(derivatives[1].data()),
          *weights = reinterpret_cast<T*>(rounded.data());
        round_weights<<<blocks_for(rows), 256, 0, stream()>>>(point, rows, coefficients);
        timed(BB_TRANSPOSED, [&] { matrix->apply(BB_TRANSPOSED, coefficients, weights, 1); });
        if (constant != 0)
            constant_weight<<<1, kRowThreads, 0, stream()>>>(coefficients, rows, constant, weights + cols);
        if (start.size())
            add_start<<<blocks_for(width), 256, 0, stream()>>>(weights, start.data(), point + rows, width);
        BB_CHECK(cudaGetLastError());
        return weights;
    }

    // Puts a point into the space of rows: the start, of which others are multiples.
    template <class T>
    void begin(const double* source, double* point) {
        BB_CHECK(cudaMemsetAsync(point, 0, size_t(length) * 8, stream()));
        start = {};
        if (std::all_of(source, source + width, [](double x) { return x == 0; })) return;
        start = Array<double>(memory, width);
        start.from_host(source, width);
        start_margins = Array<unsigned char>(memory, rows * bytes());
        T *weights = reinterpret_cast<T*>(rounded.data()), *z = reinterpret_cast<T*>(start_margins.data());
        round_weights<<<blocks_for(width), 256, 0, stream()>>>(start.data(), width, weights);
        product(weights, weights + cols, z);
        finish(weights, z, point, mailbox.next());
        const double one = 1;
        BB_CHECK(cudaMemcpyAsync(point + rows, &one, 8, cudaMemcpyDefault, stream()));
        if (capacity)
            along_start<<<unsigned(capacity), kDotThreads, 0, stream()>>>(cut<T>(0), space, stride, rows, z);
        answer();
    }

    // The products of a point in the space of rows, from its weights and margins.
    template <class T>
    void finish(const T* weights, const T* z, double* point, Letter letter) {
        widen<<<blocks_for(rows), 256, 0, stream()>>>(z, rows, point + space.half);
        measure_weights<<<1, kRowThreads, 0, stream()>>>(weights, start.data(), width,
                                                         point + space.half + rows, letter);
        BB_CHECK(cudaGetLastError());
    }

    void margins(const double* w, void* z) {
        by_type(type, [&](auto t) {
            using T = decltype(t);
            T* narrow = reinterpret_cast<T*>(rounded.data());
            if (rounded_of != w) round_weights<<<blocks_for(width), 256, 0, stream()>>>(w, width, narrow);
            rounded_of = w;
            product(narrow, w + cols, static_cast<T*>(z));
        });
    }

    void take_derivatives(const void* z, const void* dz, double t, double b, int which, const int64_t* starts,
                          int count, Letter letter) {
        void* out = derivatives[which].data();
        for (int p = 0; p < count; p++) {
            RiskRows part = risk;
            part.begin = starts[p];
            part.end = starts[p + 1];
            double *to = partial.data(), *at = sums.data() + 2 * p;
            uint32_t* turn = ticket.data();
            void* arguments[] = {&part, &z, &dz, &t, &b, &out, &to, &turn, &at, &letter};
            launch(kernels.derivatives, blocks, arguments);
        }
    }

    // Queues the gradients of the derivatives as cuts number `size` and on, and a letter with their products.
    void queue_cut(int64_t size, const int64_t* starts, int count, const void* w, const void* end, Step step,
                   const double* block_sums, Mailbox& box) {
        const int64_t all = size + count, each = all + 1;
        const int64_t share = std::max<int64_t>(kLeastShare, (space.span + kDotShares - 1) / kDotShares);
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
                    static_cast<const double*>(end), step, share, dots.data(), ticket.data(), part,
                    block * each, block_sums, count);
                BB_CHECK(cudaGetLastError());
            }
        });
    }

    // From the first derivatives, into the cuts number `size` and on.
    template <class T>
    void gradients(int64_t size, const int64_t* starts, int count, const double* block_sums) {
        T* fresh = cut<T>(size);
        if (in_rows()) {
            T* weights = reinterpret_cast<T*>(rounded.data());
            timed(BB_TRANSPOSED, [&] { matrix->apply(BB_TRANSPOSED, derivatives[0].data(), weights, 1); });
            if (constant != 0)
                constant_gradient<<<1, 1, 0, stream()>>>(constant, block_sums, 0, weights, cols);
            product(weights, weights + cols, fresh + space.half);
            BB_CHECK(cudaMemcpyAsync(fresh, derivatives[0].data(), size_t(rows * bytes()), cudaMemcpyDefault,
                                     stream()));
            if (start.size())
                along_start<<<1, kDotThreads, 0, stream()>>>(
                    fresh, space, stride, rows, reinterpret_cast<const T*>(start_margins.data()));
            return;
        }
        if (count == 1) {
            timed(BB_TRANSPOSED, [&] { matrix->apply(BB_TRANSPOSED, derivatives[0].data(), fresh, 1); });
        } else {
            const int64_t size_of_all = count * cols * bytes();
            if (block_gradients.size() < size_of_all)
                block_gradients = Array<unsigned char>(memory, size_of_all);
            timed(BB_TRANSPOSED, [&] {
                matrix->apply_blocks(derivatives[0].data(), starts, count, block_gradients.data());
            });
            BB_CHECK(cudaMemcpy2DAsync(fresh, size_t(stride * bytes()), block_gradients.data(),
                                       size_t(cols * bytes()), size_t(cols * bytes()), size_t(count),
                                       cudaMemcpyDefault, stream()));
        }
        if (constant != 0)
            constant_gradient<<<1, unsigned(count), 0, stream()>>>(constant, block_sums, stride, fresh, cols);
        ranks.add_up(memory, type, fresh, (count - 1) * stride + width);
    }

    template <class T>
    T* cut(int64_t number) {
        return reinterpret_cast<T*>(cuts.data()) + number * stride;
    }

    // The search, where each pass waits for the rows of other ranks; all of them take the same decisions.
    bb_search_answer search_over_ranks(const void* z, void* end, void* moved, const void* w,
                                       const void* w_end, const bb_search_request& request) {
        LineBracket bracket = {0.0, 0.0, 0.0, 0.0, false};
        LinePoints points;
        double slope[kPoints];
        first_points(request.first, request.longest, points.t);
        int pass = 0;
        do {
            Letter letter = mailbox.next();
            bool first = pass == 0;
            double* to = partial.data();
            uint32_t* turn = ticket.data();
            void* arguments[] = {&risk, &z, &end, &points, &first, &to, &turn, &letter};
            launch(kernels.points, blocks, arguments);
            numbers(slope, kPoints);
            for (int k = 0; k < kPoints; k++) slope[k] += request.p + request.q * points.t[k];
        } while (!ends(bracket, pass, request.longest, request.accuracy, points.t, slope));
        double step = nearest(bracket), beyond = step + std::min(request.farthest, request.reach * step);
        const bool made = request.cut >= 0 && request.cut < capacity;
        Letter letter = mailbox.next();
        double *to = partial.data(), *of_cut = ahead_sums.data(), found = 0;
        uint32_t* turn = ticket.data();
        void* out = made ? derivatives[0].data() : nullptr;
        void* arguments[] = {&risk, &z, &end, &step, &beyond, &moved, &to, &turn, &out, &of_cut, &letter};
        launch(kernels.end, blocks, arguments);
        if (made) {
            const int64_t starts[2] = {0, rows};
            queue_cut(request.cut, starts, 1, w, w_end, Step{beyond, nullptr}, of_cut, ahead_mailbox);
        }
        numbers(&found, 1);
        ahead = made ? CutPlace{request.cut, z, end, w, w_end, beyond} : CutPlace{};
        return {step, found, pass};
    }

    double risk_at(const void* z, const void* dz, double t, double b, void* moved) {
        Letter letter = mailbox.next();
        double *to = partial.data(), *at = sums.data(), found = 0;
        uint32_t* turn = ticket.data();
        void* arguments[] = {&risk, &z, &dz, &t, &b, &moved, &to, &turn, &at, &letter};
        launch(kernels.value, blocks, arguments);
        numbers(&found, 1);
        return found;
    }

    // Queues a product between two events.
    template <class Launch>
    void timed(bb_operator op, Launch&& launch) {
        collect(op);
        BB_CHECK(cudaEventRecord(events_[2 * op], stream()));
        launch();
        BB_CHECK(cudaEventRecord(events_[2 * op + 1], stream()));
        pending_[op] = true;
    }
    // The numbers of the last letter.  Products that were queued before it are over by then.
    const double* answer() { return answer(mailbox); }
    const double* answer(Mailbox& box) {
        const double* values = box.wait(stream());
        collect(BB_NORMAL);
        collect(BB_TRANSPOSED);
        return values;
    }

    // The first numbers of the last letter, summed over the ranks.
    void numbers(double* out, int64_t count) {
        std::copy_n(answer(), count, out);
        ranks.total(out, count);
    }

    bb_matrix* matrix;
    Memory& memory;
    const bb_type type;
    const int64_t rows, cols, width;  // width: columns and the constant
    const Space space;
    const int64_t length, stride;  // numbers of a cut or of weights, and from cut to cut
    const double constant;
    RiskRows risk = {};
    RiskKernels kernels = {};
    int blocks = 1, mix_blocks = 1;
    Array<unsigned char> labels, weights, derivatives[2], rounded, cuts, block_gradients;
    Array<double> partial, sums, dots;
    Array<double> ahead_sums;  // risk, sum of derivatives and step of the cut made ahead
    Array<double> start;       // the point where the solve started, and its margins, in the space of rows
    Array<unsigned char> start_margins;
    Array<uint32_t> ticket;
    const void* rounded_of = nullptr;  // the weights that `rounded` holds
    int64_t capacity = 0;
    double product_seconds = 0;
    Mailbox mailbox, ahead_mailbox;
    CutPlace ahead = {};  // of the cut that a search has made ahead; none where size is negative
    Collective ranks;

  private:
    void collect(bb_operator op) {
        float milliseconds = 0;
        if (!pending_[op] || cudaEventQuery(events_[2 * op + 1]) != cudaSuccess) return;
        BB_CHECK(cudaEventElapsedTime(&milliseconds, events_[2 * op], events_[2 * op + 1]));
        product_seconds += 1e-3 * double(milliseconds);
        pending_[op] = false;
    }

    cudaEvent_t events_[4] = {};
    bool pending_[2] = {};
    std::vector<Array<unsigned char>> owned_;
    std::vector<void*> idle_[2];
};

ProblemParts parts_of(bb_problem& p) {
    return {p.matrix,
            p.risk,
            p.blocks,
            p.partial.data(),
            p.sums.data(),
            p.ticket.data(),
            {p.derivatives[0].data(), p.derivatives[1].data()},
            &p.mailbox};
}

namespace {

template <class Body>
bb_status on(bb_problem* problem, Body&& body) noexcept {
    return on_matrix(problem ? problem->matrix : nullptr, [&] { body(*problem); });
}

}  // namespace

extern "C" {

bb_status bb_problem_create(bb_matrix* matrix, int32_t loss, double parameter, double scale,
                            const double* labels, const double* weights, double constant, int32_t in_rows,
                            bb_problem** out) {
    return on_matrix(matrix, [&] {
        auto made = std::make_unique<bb_problem>(matrix, loss, parameter, scale, constant, in_rows != 0);
        made->risk.labels = loss == BB_OWN_LOSS ? made->upload_to_lend(labels, made->labels)
                                                : made->upload(labels, made->labels);
        if (weights) made->risk.weights = made->upload(weights, made->weights);
        *out = made.release();
    });
}

void bb_problem_destroy(bb_problem* problem) {
    if (problem)
        on(problem, [&](bb_problem& p) {
            BB_CHECK(cudaStreamSynchronize(p.stream()));
            delete problem;
        });
}

bb_status bb_problem_share(bb_problem* problem, const bb_ranks* ranks, bb_nccl* nccl) {
    return on(problem, [&](bb_problem& p) { p.ranks = Collective(*ranks, nccl); });
}

double bb_problem_product_seconds(bb_problem* problem) { return problem->product_seconds; }

bb_status bb_vector_take(bb_problem* problem, bb_vector kind, void** out) {
    return on(problem, [&](bb_problem& p) { *out = p.take(kind); });
}

void bb_vector_give(bb_problem* problem, bb_vector kind, void* vector) {
    on(problem, [&](bb_problem& p) { p.give(kind, vector); });
}

bb_status bb_weights_set(bb_problem* problem, void* w, const double* source) {
    return on(problem, [&](bb_problem& p) {
        if (p.in_rows()) {
            by_type(p.type, [&](auto t) { p.begin<decltype(t)>(source, static_cast<double*>(w)); });
            return;
        }
        if (p.rounded_of == w) p.rounded_of = nullptr;
        BB_CHECK(cudaMemcpyAsync(w, source, size_t(p.width) * 8, cudaMemcpyDefault, p.stream()));
        BB_CHECK(cudaStreamSynchronize(p.stream()));
    });
}

bb_status bb_weights_get(bb_problem* problem, const void* w, double* target) {
    return on(problem, [&](bb_problem& p) {
        Array<double> wide;
        if (p.in_rows()) {
            wide = Array<double>(p.memory, p.width);
            by_type(p.type, [&](auto t) {
                widen<<<blocks_for(p.width), 256, 0, p.stream()>>>(
                    p.assemble<decltype(t)>(static_cast<const double*>(w)), p.width, wide.data());
            });
            w = wide.data();
        }
        BB_CHECK(cudaMemcpyAsync(target, w, size_t(p.width) * 8, cudaMemcpyDefault, p.stream()));
        BB_CHECK(cudaStreamSynchronize(p.stream()));
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
            } else {
                p.margins(scaled, z);
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

bb_status bb_search(bb_problem* problem, const void* z, void* end, void* moved, const void* w,
                    const void* w_end, const bb_search_request* request, bb_search_answer* answer) {
    return on(problem, [&](bb_problem& p) {
        if (!p.ranks.alone()) {
            *answer = p.search_over_ranks(z, end, moved, w, w_end, *request);
            return;
        }
        const bool ahead = request->cut >= 0 && request->cut < p.capacity;
        Letter letter = p.mailbox.next();
        bb_search_request wanted = *request;
        double *partial = p.partial.data(), *sums = p.ahead_sums.data();
        void* derivatives = ahead ? p.derivatives[0].data() : nullptr;
        void* arguments[] = {&p.risk, &z, &end, &moved, &wanted, &partial, &derivatives, &sums, &letter};
        p.launch(p.kernels.search, p.blocks, arguments, true);
        if (ahead) {
            const int64_t starts[2] = {0, p.rows};
            p.queue_cut(request->cut, starts, 1, w, w_end, Step{0, sums + 2}, sums, p.ahead_mailbox);
        }
        const double* values = p.answer();
        answer->step = values[0];
        answer->risk = values[1];
        answer->passes = int32_t(values[2]);
        p.ahead = ahead ? CutPlace{request->cut, z, end, w, w_end, values[3]} : CutPlace{};
    });
}

bb_status bb_slope(bb_problem* problem, const void* z, const void* dz, double t, double b, double slopes[2]) {
    return on(problem, [&](bb_problem& p) {
        Letter letter = p.mailbox.next();
        double* partial = p.partial.data();
        uint32_t* ticket = p.ticket.data();
        void* arguments[] = {&p.risk, &z, &dz, &t, &b, &partial, &ticket, &letter};
        p.launch(p.kernels.slope, p.blocks, arguments);
        p.numbers(slopes, 2);
    });
}

bb_status bb_risk_at(bb_problem* problem, const void* z, const void* dz, double t, double b, void* moved,
                     double* risk) {
    return on(problem, [&](bb_problem& p) { *risk = p.risk_at(z, dz, t, b, moved); });
}

bb_status bb_derivatives(bb_problem* problem, const void* z, const void* dz, double t, double b,
                         int32_t which, double sums[2]) {
    return on(problem, [&](bb_problem& p) {
        const int64_t starts[2] = {0, p.rows};
        p.take_derivatives(z, dz, t, b, which, starts, 1, p.mailbox.next());
        p.numbers(sums, 2);
    });
}

bb_status bb_mix_derivatives(bb_problem* problem, double share) {
    return on(problem, [&](bb_problem& p) {
        by_type(p.type, [&](auto t) {
            using T = decltype(t);
            mix<<<blocks_for(p.rows), 256, 0, p.stream()>>>(
                reinterpret_cast<T*>(p.derivatives[0].data()),
                reinterpret_cast<const T*>(p.derivatives[1].data()), share, p.rows);
        });
    });
}

bb_status bb_cuts_reserve(bb_problem* problem, int64_t capacity) {
    return on(problem, [&](bb_problem& p) {
        if (capacity <= p.capacity) return;
        Array<unsigned char> more(p.memory, capacity * p.stride * p.bytes());
        more.fill_bytes(0);  // what fills up a row is copied with it
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
        if (size < 0 || blocks < 1 || blocks > (p.in_rows() ? 1 : kMostBlocks) || all > p.capacity)
            throw Failure(BB_INVALID, "cuts: more than there is room for");
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
        if (!p.in_rows()) {
            p.rounded_of = w;
            // The solver will want it, unless it stops here.
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
        if (p.in_rows()) throw Failure(BB_INVALID, "cuts: in the space of rows none are taken in");
        Array<double> wide(p.memory, p.stride);
        for (int64_t k = 0; k < count; k++) {
            BB_CHECK(cudaMemcpyAsync(wide.data(), source + k * p.width, size_t(p.width) * 8,
                                     cudaMemcpyDefault, p.stream()));
            by_type(p.type, [&](auto type) {
                using T = decltype(type);
                round_weights<<<blocks_for(p.width), 256, 0, p.stream()>>>(wide.data(), p.width,
                                                                           p.cut<T>(first + k));
            });
        }
        BB_CHECK(cudaStreamSynchronize(p.stream()));
    });
}

}  // extern "C"
