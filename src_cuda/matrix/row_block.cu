#include <algorithm>
#include <cmath>
#include <exception>
#include <numeric>

#include "choice/length_bin.h"
#include "choice/select.h"
#include "formats/kernels/blocks.cuh"
#include "formats/tuning.h"
#include "matrix/row_block.h"
#include "runtime/cold_time.h"
#include "runtime/graph_time.h"

namespace bmrm {

namespace {

// Statistics of an operator whose every row has every column.
bb_stats dense_statistics(int64_t rows, int64_t cols, int32_t bytes) {
    bb_stats stats = {};
    stats.rows = rows;
    stats.cols = stats.longest = cols;
    stats.nnz = rows * cols;
    stats.length_rows[length_bin(cols)] = rows;
    stats.length_nnz[length_bin(cols)] = stats.nnz;
    for (int k = 0; k < BB_SPREADS; k++) {
        const int64_t group = int64_t(1) << (k + BB_SPREAD_FIRST);
        stats.fragments[k] = rows * ((cols + group - 1) / group);
    }
    for (int k = 0; k < BB_TOPS; k++) stats.top_nnz[k] = rows * std::min(int64_t(1) << k, cols);
    stats.value_bytes = stats.vector_bytes = bytes;
    return stats;
}

}  // namespace

RowBlock::RowBlock(Memory& memory, const bb_device& device, Scratch& scratch, int64_t rows, int64_t cols,
                   int64_t nnz, bb_type type, bool ones)
    : memory_(memory), device_(device), scratch_(scratch) {
    coding_.type = type;
    coding_.coding = ones ? BB_ONES : BB_PLAIN;
    Csr& a = csr_[0];
    a.rows = rows;
    a.cols = cols;
    a.nnz = nnz;
    a.ptr = Array<int64_t>(memory, rows + 1);
    a.col = Array<uint32_t>(memory, nnz);
    a.values = Array<unsigned char>(memory, nnz * coding_.value_bytes());
}

RowBlock::RowBlock(Memory& memory, const bb_device& device, Scratch& scratch, int64_t rows, int64_t cols,
                   bb_type type, Uploader& uploader, const void* values, bool finite)
    : memory_(memory), device_(device), scratch_(scratch) {
    coding_.type = type;
    csr_[0].rows = rows;
    csr_[0].cols = cols;
    dense_ = Dense(memory, rows, cols, type, device);
    dense_.upload(uploader, values);
    if (finite) dense_.expect_finite();
    for (int op = 0; op < 2; op++) {
        Operator& o = operators_[op];
        o.stats = dense_statistics(op ? cols : rows, op ? rows : cols, coding_.vector_bytes());
        o.candidates.push_back({{BB_DENSE, 0, 0, 0, 0}, 0, 0, dense_.bytes()});
        o.chosen = 0;
    }
    BB_CHECK(cudaStreamSynchronize(memory.stream));
}

void RowBlock::append(Uploader& uploader, int64_t rows, const int64_t* indptr, const void* indices,
                      int index_bytes, const void* values) {
    Csr& a = csr_[0];
    if (rows < 0 || filled_rows_ + rows > a.rows) throw Failure(BB_INVALID, "more rows than announced");
    if (rows == 0) return;
    int64_t ends[2];
    BB_CHECK(cudaMemcpy(ends, indptr, 8, cudaMemcpyDefault));
    BB_CHECK(cudaMemcpy(ends + 1, indptr + rows, 8, cudaMemcpyDefault));
    const int64_t count = ends[1] - ends[0];
    if (count < 0 || count > a.nnz - filled_)
        throw Failure(BB_INVALID, "row pointers: more nonzeros than announced");
    append_rows(memory_, uploader, a, filled_rows_, filled_, rows, indptr, ends[0], count, indices,
                index_bytes, values, coding_.value_bytes());
    filled_rows_ += rows;
    filled_ += count;
}

void RowBlock::finish(const bb_options& options, const RowBlock* like, double* squares, double* row_squares) {
    if (filled_rows_ != csr_[0].rows || filled_ != csr_[0].nnz)
        throw Failure(BB_INVALID, "rows: found " + std::to_string(filled_rows_) + " with " +
                                      std::to_string(filled_) + " nonzeros, expected " +
                                      std::to_string(csr_[0].rows) + " with " + std::to_string(csr_[0].nnz));
    const int given = coding_.value_bytes();
    validate(memory_, csr_[0], given);
    if (given && options.finite) expect_finite(memory_, coding_.type, csr_[0].values.data(), csr_[0].nnz);
    if (options.coding) encode(memory_, csr_[0], coding_);
    if (row_squares) add_squares(memory_, csr_[0], coding_, row_squares);
    columns_[0] = popularity_of(memory_, csr_[0]);
    operators_[0].stats = statistics(memory_, csr_[0], coding_, columns_[0]);
    if (options.transpose) {
        csr_[1] = transpose(memory_, csr_[0], coding_.value_bytes());
        add_squares(memory_, csr_[1], coding_, squares);
        columns_[1] = popularity_of(memory_, csr_[1]);
        operators_[1].stats = statistics(memory_, csr_[1], coding_, columns_[1]);
    }
    for (int op = 0; op <= (options.transpose ? 1 : 0); op++)
        if (!like || !follow(bb_operator(op), options, *like)) choose(bb_operator(op), options);
    if (storage_of(BB_NORMAL) != 2 && !(options.transpose && storage_of(BB_TRANSPOSED) == 2))
        narrow_.reset();  // tried, but other kernels are faster
    for (int op = 0; op < 2; op++) {
        columns_[op] = Popularity();
        const Product* product = operators_[op].product.get();
        if (!product || !product->needs_csr()) {  // the formats hold all that products need
            csr_[op].col.reset();
            csr_[op].values.reset();
            csr_[op].ptr.reset();
        }
    }
    memory_.trim();
}

int64_t RowBlock::append_bytes(int value_bytes) const {
    if (nnz() == 0) return 0;
    const int64_t element = 2 * (8 + 4) + value_bytes, row = 4;  // keys and their places are sorted in pairs
    return normal().elements() * element + nnz() * row + normal().listing_bytes();
}

void RowBlock::append_to(Csr& to, int64_t filled_rows, int64_t filled) const {
    Product* from = nnz() ? &normal() : nullptr;
    const int64_t count = from ? from->elements() : 0;
    if (count >= 0xFFFFFFFF) throw Failure(BB_INVALID, "a block of rows has too much padding to list it");
    const int bytes = to.values.size() ? coding_.vector_bytes() : 0;
    Array<uint64_t> keys(memory_, count);
    Array<unsigned char> values(memory_, count * bytes);
    if (from) from->list({keys.data(), bytes ? values.data() : nullptr});
    append_listed(memory_, to, filled_rows, filled, rows(), nnz(), keys, values, bytes);
}

double RowBlock::time_of(bb_operator op, const bb_plan& plan, Product* product, bool cold) {
    Array<unsigned char> x(memory_, inputs(op) * coding_.vector_bytes());
    Array<unsigned char> y(memory_, outputs(op) * coding_.vector_bytes());
    fill_random(memory_, coding_.type, x.data(), inputs(op));
    const auto multiply = [&] { apply_by(op, plan, product, x.data(), y.data()); };
    const auto seconds = [&](auto&& launch) {
        return graph_seconds(memory_.stream, tuning::kTimedProducts, launch);
    };
    if (!cold) return seconds(multiply);
    Array<unsigned char> other(memory_, 2 * device_.l2_bytes);  // fills the level-two cache
    const auto fill = [&] { other.fill_bytes(0); };
    const auto both = [&] {
        fill();
        multiply();
    };
    return cold_seconds([&] { return seconds(both); }, [&] { return seconds(fill); },
                        [&] { return seconds(multiply); });
}

double RowBlock::try_plan(bb_operator op, const bb_plan& plan, Timing timing, bb_candidate& candidate,
                          std::unique_ptr<Product>& product) {
    if (plan.kernel == BB_NARROW) {
        if (!narrow_)
            narrow_ = std::make_unique<Narrow>(Source{memory_, csr_[0], coding_, plan, device_, nullptr});
        candidate.bytes = narrow_->rows().format_bytes();
    } else {
        product = make_product({memory_, csr_[op], coding_, plan, device_, &columns_[op].order});
        candidate.bytes = product->format_bytes();
    }
    if (timing == Timing::kNone) return candidate.predicted;
    candidate.measured = time_of(op, plan, product.get(), timing == Timing::kCold);
    return candidate.measured;
}

// Uses the plan of another block of the matrix, if it suits.
bool RowBlock::follow(bb_operator op, const bb_options& options, const RowBlock& like) {
    const bb_plan& plan = like.of(op).plan();
    const double seconds = predict(device_, options.constants, operators_[op].stats, plan).seconds;
    bb_candidate candidate = {plan, seconds, 0, 0};
    try {
        try_plan(op, plan, Timing::kNone, candidate, operators_[op].product);
    } catch (const Failure& failure) {
        if (failure.status != BB_INVALID) throw;
        return false;
    }
    operators_[op].candidates.assign(1, candidate);
    operators_[op].chosen = 0;
    return true;
}

// Returns the predicted seconds per product, with the transfer of the format if it crosses the bus each time.
double RowBlock::predicted_seconds(bb_operator op, const bb_options& options, const bb_plan& plan) const {
    const Prediction found = predict(device_, options.constants, operators_[op].stats, plan);
    return found.seconds + (options.tuning == BB_TUNE_BUS ? found.bytes / tuning::kBusBytes : 0.0);
}

void RowBlock::choose(bb_operator op, const bb_options& options) {
    Operator& s = operators_[op];
    std::vector<bb_plan> plans(1, options.plan[op]);
    if (!options.forced) {
        plans.resize(256);
        plans.resize(size_t(std::min(256, bb_candidates(&device_, &s.stats, plans.data(), 256))));
        // Statistics of X' alone cannot distinguish a narrow X from a short one.
        if (csr_[0].repeated || !Narrow::fits(csr_[0].cols, coding_, device_))
            plans.erase(std::remove_if(plans.begin(), plans.end(),
                                       [](const bb_plan& plan) { return plan.kernel == BB_NARROW; }),
                        plans.end());
    }
    std::vector<bb_candidate> list;
    std::vector<double> predicted;
    for (const bb_plan& plan : plans) {
        predicted.push_back(predicted_seconds(op, options, plan));
        list.push_back({plan, predicted.back(), 0, 0});
    }
    std::vector<int32_t> trials =
        worth_timing(options.constants, s.stats, plans.data(), predicted.data(), int32_t(plans.size()));
    if (options.tuning == BB_TUNE_ALL)
        for (size_t i = 0; i < plans.size(); i++)
            if (std::find(trials.begin(), trials.end(), int32_t(i)) == trials.end())
                trials.push_back(int32_t(i));
    if (options.tuning == BB_TUNE_PREDICT) trials.resize(1);
    const bool by_bus = options.tuning == BB_TUNE_BUS;
    if (by_bus) {  // the first plan that suits; timing would say nothing about the bus
        trials.resize(plans.size());
        std::iota(trials.begin(), trials.end(), 0);
        std::stable_sort(trials.begin(), trials.end(),
                         [&](int32_t a, int32_t b) { return predicted[size_t(a)] < predicted[size_t(b)]; });
    }
    const bool timed = !by_bus && (trials.size() > 1 || options.tuning == BB_TUNE_ALL);
    const Timing timing = !timed                           ? Timing::kNone
                          : options.tuning == BB_TUNE_COLD ? Timing::kCold
                                                           : Timing::kWarm;
    double best = INFINITY;
    std::exception_ptr refused;
    for (const int32_t i : trials) {
        std::unique_ptr<Product> product;
        double seconds;
        try {
            seconds = try_plan(op, plans[size_t(i)], timing, list[size_t(i)], product);
        } catch (const Failure& failure) {
            // A plan that does not suit, or does not fit, is not a candidate as long as another one is.
            if (failure.status != BB_MEMORY && failure.status != BB_INVALID) throw;
            refused = std::current_exception();
            continue;
        }
        if (seconds < best) {
            best = seconds;
            s.chosen = i;
            s.product = std::move(product);
        }
        if (by_bus) break;
    }
    if (best == INFINITY) std::rethrow_exception(refused);
    s.candidates = std::move(list);
}

// Multiplies by a plan: with its own storage, or with the narrow format, which both operators share.
void RowBlock::apply_by(bb_operator op, const bb_plan& plan, Product* product, const void* x, void* y) {
    if (plan.kernel != BB_NARROW)
        product->apply(x, y, 1, scratch_.partial);
    else if (op == BB_NORMAL)
        narrow_->normal(x, y);
    else
        narrow_->transposed(x, y);
}

void RowBlock::apply_one(bb_operator op, const void* x, void* y) {
    if (dense_) return op == BB_NORMAL ? dense_.normal(x, y) : dense_.transposed(x, y);
    apply_by(op, operators_[op].plan(), operators_[op].product.get(), x, y);
}

void RowBlock::apply(bb_operator op, const void* x, void* y, int columns) {
    if (operators_[op].chosen < 0) throw Failure(BB_INVALID, "the matrix was built without this product");
    if (columns == 1) return apply_one(op, x, y);
    Product* all = operators_[op].product.get();
    if (storage_of(op) == 2 && op == BB_NORMAL) all = &narrow_->rows();
    if (all && all->apply(x, y, columns, scratch_.partial)) return;
    const int bytes = coding_.vector_bytes();
    const int64_t in = inputs(op), out = outputs(op);
    reserve(memory_, scratch_.input, in * columns * bytes);
    reserve(memory_, scratch_.output, out * columns * bytes);
    swap_axes(memory_, coding_.type, x, in, columns, scratch_.input.data());
    for (int c = 0; c < columns; c++)
        apply_one(op, scratch_.input.data() + c * in * bytes, scratch_.output.data() + c * out * bytes);
    swap_axes(memory_, coding_.type, scratch_.output.data(), columns, out, y);
}

void RowBlock::apply_blocks(const void* r, const int64_t* starts, int blocks, void* y) {
    if (blocks == 1 && starts[0] == 0 && starts[1] == rows()) return apply(BB_TRANSPOSED, r, y, 1);
    const int bytes = coding_.vector_bytes();
    Array<unsigned char> spread(memory_, rows() * std::min(blocks, 32) * bytes);
    Array<unsigned char> product(memory_, cols() * std::min(blocks, 32) * bytes);
    for (int first = 0; first < blocks; first += 32) {
        const int some = std::min(32, blocks - first);
        spread_blocks(memory_, coding_.type, r, rows(), starts + first, some, spread.data());
        apply(BB_TRANSPOSED, spread.data(), product.data(), some);
        swap_axes(memory_, coding_.type, product.data(), cols(), some,
                  static_cast<unsigned char*>(y) + first * cols() * bytes);
    }
}

}  // namespace bmrm
