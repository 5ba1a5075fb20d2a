#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>

#include "kernels/blocks.cuh"
#include "matrix.h"
#include "select.h"
#include "tuning.h"

using namespace bmrm;

namespace {

// Seconds of one of `repeats` launches, replayed as a graph so that the host's share does not count.
template <class Launch>
double graph_seconds(cudaStream_t stream, int repeats, Launch&& launch) {
    launch();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    cudaEvent_t begin = nullptr, end = nullptr;
    float best = 0;
    const auto release = [&] {
        if (begin) cudaEventDestroy(begin);
        if (end) cudaEventDestroy(end);
        if (executable) cudaGraphExecDestroy(executable);
        if (graph) cudaGraphDestroy(graph);
    };
    try {
        BB_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        try {
            for (int i = 0; i < repeats; i++) launch();
        } catch (...) {
            cudaStreamEndCapture(stream, &graph);
            throw;
        }
        BB_CHECK(cudaStreamEndCapture(stream, &graph));
        BB_CHECK(cudaGraphInstantiate(&executable, graph, 0));
        BB_CHECK(cudaEventCreate(&begin));
        BB_CHECK(cudaEventCreate(&end));
        for (int round = 0; round < 2; round++) {
            float milliseconds = 0;
            BB_CHECK(cudaEventRecord(begin, stream));
            BB_CHECK(cudaGraphLaunch(executable, stream));
            BB_CHECK(cudaEventRecord(end, stream));
            BB_CHECK(cudaEventSynchronize(end));
            BB_CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
            if (round == 0 || milliseconds < best) best = milliseconds;
        }
    } catch (...) {
        release();
        throw;
    }
    release();
    return double(best) / repeats / 1000.0;
}

}  // namespace

void bb_matrix::finish(const bb_options& options) {
    const auto start = std::chrono::steady_clock::now();
    if (filled_rows != csr[0].rows || filled != csr[0].nnz)
        throw Failure(BB_INVALID, "rows: found " + std::to_string(filled_rows) + " with " +
                                      std::to_string(filled) + " nonzeros, expected " +
                                      std::to_string(csr[0].rows) + " with " + std::to_string(csr[0].nnz));
    const int given = coding.value_bytes();
    validate(memory, csr[0], given);
    if (options.coding) encode(memory, csr[0], coding);
    columns_[0] = popularity_of(memory, csr[0]);
    state[0].stats = statistics(memory, csr[0], coding, columns_[0]);
    if (options.transpose) {
        csr[1] = transpose(memory, csr[0], coding.value_bytes());
        columns_[1] = popularity_of(memory, csr[1]);
        state[1].stats = statistics(memory, csr[1], coding, columns_[1]);
    }
    choose(BB_NORMAL, options);
    if (options.transpose) choose(BB_TRANSPOSED, options);
    for (int op = 0; op < 2; op++) {
        columns_[op] = Popularity();
        if (!state[op].product.needs_csr()) {  // the formats hold all that products need
            csr[op].col.reset();
            csr[op].values.reset();
            csr[op].ptr.reset();
        }
    }
    memory.trim();
    finished = true;
    prepare_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class Launch>
double bb_matrix::time_of(bb_operator op, int columns, int repeats, Launch&& launch) {
    Array<unsigned char> x(memory, inputs(op) * columns * coding.vector_bytes());
    Array<unsigned char> y(memory, outputs(op) * columns * coding.vector_bytes());
    fill_random(memory, coding.type, x.data(), inputs(op) * columns);
    return graph_seconds(memory.stream, repeats, [&] { launch(x.data(), y.data()); });
}

double bb_matrix::try_plan(bb_operator op, const bb_plan& plan, const Array<uint32_t>* order, bool timed,
                           bb_candidate& candidate, Product& product) {
    if (plan.kernel == BB_NARROW) {
        if (!narrow_rows) {
            if (!Narrow::fits(csr[0].cols, coding, device))
                throw Failure(BB_INVALID, "plan: X has too many columns for the narrow form");
            narrow_rows = Product(memory, csr[0], coding, plan, device, nullptr);
            narrow = Narrow(memory, narrow_rows.sliced(), coding, device);
        }
        candidate.bytes = narrow_rows.format_bytes(csr[0], coding);
    } else {
        product = Product(memory, csr[op], coding, plan, device, order);
        candidate.bytes = product.format_bytes(csr[op], coding);
    }
    if (!timed) return candidate.predicted;
    candidate.measured = time_of(op, 1, tuning::kTimedProducts,
                                 [&](const void* x, void* y) { apply_by(op, plan, product, x, y); });
    return candidate.measured;
}

void bb_matrix::choose(bb_operator op, const bb_options& options) {
    bb_operator_state& s = state[op];
    std::vector<bb_plan> plans(1, options.plan[op]);
    if (!options.forced) {
        plans.resize(256);
        plans.resize(size_t(std::min(256, bb_candidates(&device, &s.stats, plans.data(), 256))));
        // Statistics of X' alone cannot tell a narrow X from a short one.
        if (csr[0].repeated || !Narrow::fits(csr[0].cols, coding, device))
            plans.erase(std::remove_if(plans.begin(), plans.end(),
                                       [](const bb_plan& plan) { return plan.kernel == BB_NARROW; }),
                        plans.end());
    }
    std::vector<bb_candidate> list;
    std::vector<double> predicted;
    for (const bb_plan& plan : plans) {
        list.push_back({plan, bb_predict(&device, &options.constants, &s.stats, &plan), 0, 0});
        predicted.push_back(list.back().predicted);
    }
    std::vector<int32_t> trials =
        worth_timing(options.constants, s.stats, plans.data(), predicted.data(), int32_t(plans.size()));
    if (options.tuning == BB_TUNE_ALL)
        for (size_t i = 0; i < plans.size(); i++)
            if (std::find(trials.begin(), trials.end(), int32_t(i)) == trials.end())
                trials.push_back(int32_t(i));
    if (options.tuning == BB_TUNE_PREDICT) trials.resize(1);
    const bool timed = trials.size() > 1 || options.tuning == BB_TUNE_ALL;
    // A narrow X is worth having in the form that the fused pass reads, also where another is a little
    // faster.
    const auto narrow_plan = std::find_if(plans.begin(), plans.end(),
                                          [](const bb_plan& plan) { return plan.kernel == BB_NARROW; });
    if (op == BB_NORMAL && narrow_plan != plans.end()) {
        const int32_t at = int32_t(narrow_plan - plans.begin());
        if (std::find(trials.begin(), trials.end(), at) == trials.end()) trials.insert(trials.begin(), at);
    }
    double best = INFINITY;
    std::exception_ptr refused;
    for (const int32_t i : trials) {
        Product product;
        double seconds;
        try {
            seconds = try_plan(op, plans[size_t(i)], &columns_[op].order, timed, list[size_t(i)], product);
        } catch (const Failure& failure) {
            // A plan that does not suit, or finds no room, is no candidate, as long as another is.
            if (failure.status != BB_MEMORY && failure.status != BB_INVALID) throw;
            refused = std::current_exception();
            continue;
        }
        if (op == BB_NORMAL && plans[size_t(i)].kernel == BB_NARROW) seconds *= tuning::kFusedWorth;
        if (seconds < best) {
            best = seconds;
            s.chosen = i;
            s.product = std::move(product);
        }
    }
    if (best == INFINITY) std::rethrow_exception(refused);
    s.candidates = std::move(list);
}

// By a plan: with its own storage, or with the narrow format, which both operators share.
void bb_matrix::apply_by(bb_operator op, const bb_plan& plan, Product& product, const void* x, void* y) {
    if (plan.kernel != BB_NARROW) return product.apply(x, y, 1, csr[op], coding);
    if (op == BB_NORMAL) return narrow_rows.apply(x, y, 1, csr[0], coding);
    narrow.transposed(narrow_rows.sliced(), coding, x, y);
}

void bb_matrix::apply_one(bb_operator op, const void* x, void* y) {
    if (dense) return op == BB_NORMAL ? dense.normal(x, y) : dense.transposed(x, y);
    apply_by(op, state[op].plan(), state[op].product, x, y);
}

void bb_matrix::apply(bb_operator op, const void* x, void* y, int columns) {
    if (state[op].chosen < 0) throw Failure(BB_INVALID, "the matrix was built without this product");
    if (columns == 1) return apply_one(op, x, y);
    Product* all = dense ? nullptr : &state[op].product;
    if (all && state[op].plan().kernel == BB_NARROW) all = op == BB_NORMAL ? &narrow_rows : nullptr;
    if (all && all->takes_columns()) return all->apply(x, y, columns, csr[op], coding);
    const int bytes = coding.vector_bytes();
    const int64_t in = inputs(op), out = outputs(op);
    if (block_input.size() < in * columns * bytes)
        block_input = Array<unsigned char>(memory, in * columns * bytes);
    if (block_output.size() < out * columns * bytes)
        block_output = Array<unsigned char>(memory, out * columns * bytes);
    swap_axes(memory, coding.type, x, in, columns, block_input.data());
    for (int c = 0; c < columns; c++)
        apply_one(op, block_input.data() + c * in * bytes, block_output.data() + c * out * bytes);
    swap_axes(memory, coding.type, block_output.data(), columns, out, y);
}

void bb_matrix::apply_blocks(const void* r, const int64_t* starts, int blocks, void* y) {
    if (blocks == 1 && starts[0] == 0 && starts[1] == rows()) return apply(BB_TRANSPOSED, r, y, 1);
    const int bytes = coding.vector_bytes();
    Array<unsigned char> spread(memory, rows() * std::min(blocks, 32) * bytes);
    Array<unsigned char> product(memory, cols() * std::min(blocks, 32) * bytes);
    for (int first = 0; first < blocks; first += 32) {
        const int some = std::min(32, blocks - first);
        spread_blocks(memory, coding.type, r, rows(), starts + first, some, spread.data());
        apply(BB_TRANSPOSED, spread.data(), product.data(), some);
        swap_axes(memory, coding.type, product.data(), cols(), some,
                  static_cast<unsigned char*>(y) + first * cols() * bytes);
    }
}

void bb_matrix::fused(int loss, double parameter, double scale, const void* w, const double* labels,
                      const double* weights, void* margins, void* gradient, double* risk) {
    if (dense) return dense.fused(loss, parameter, scale, w, labels, weights, margins, gradient, risk);
    if (!narrow) throw Failure(BB_INVALID, "the matrix has no fused pass: it is neither narrow nor dense");
    narrow.fused(narrow_rows.sliced(), coding, loss, parameter, scale, w, labels, weights, margins, gradient,
                 risk);
}

double bb_matrix::time(bb_operator op, int columns, int repeats) {
    return time_of(op, columns, repeats, [&](const void* x, void* y) { apply(op, x, y, columns); });
}
