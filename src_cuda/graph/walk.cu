#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "graph/device_walk.h"
#include "graph/kernels/top.cuh"
#include "runtime/device_sort.cuh"

using namespace bmrm;

namespace {

constexpr int32_t kSlots = 64;  // maximum number of slots
// Warps per wanted entry from which their largest entries bound those well.
constexpr int64_t kWarpsPerLeader = 8;

template <int VALUE>
struct Constant {
    static constexpr int value = VALUE;
};

// Calls f with the threads that share a row.
template <class F>
void with_width(int columns, F&& f) {
    switch (pass_width(columns)) {
        case 1:
            return f(Constant<1>());
        case 2:
            return f(Constant<2>());
        case 4:
            return f(Constant<4>());
        case 8:
            return f(Constant<8>());
        case 16:
            return f(Constant<16>());
        default:
            return f(Constant<32>());
    }
}

// Calls f with the number of vectors that a kernel reads: those that are too many repeat the first, from the
// cache.
template <class F>
void with_count(int count, F&& f) {
    if (count <= 2) return f(Constant<2>());
    if (count <= 4) return f(Constant<4>());
    if (count <= 6) return f(Constant<6>());
    return f(Constant<8>());
}

template <class To, class From>
Array<To> uploaded(Memory& memory, const From* from, int64_t count) {
    Array<To> out(memory, count);
    if (count) out.from_host(from, count);
    return out;
}

void expect(bool holds, const char* text) {
    if (!holds) throw Failure(BB_INVALID, text);
}

}  // namespace

bb_nodes::bb_nodes(const bb_transitions& matrices, const uint32_t* from_lengths, const double* from_scale,
                   const uint32_t* from_places, const uint32_t* all_places, const bb_graph_ranks* ranks)
    : light(matrices.light),
      rest(matrices.rest),
      exact(matrices.exact),
      rest_overlaps(rest && rest->memory.overlaps),
      n(exact->rows()),
      peers(main()->memory, ranks, n),
      lengths(uploaded<uint32_t>(main()->memory, from_lengths, n)),
      scale(uploaded<double>(main()->memory, from_scale, n)),
      numbering(main()->memory, peers.alone() ? from_places : all_places, peers.nodes()) {
    const std::vector<float> rounded(from_scale, from_scale + n);
    light_scale = on_device(main()->memory, rounded);
    if (from_places && !peers.alone()) own_places_ = uploaded<uint32_t>(main()->memory, from_places, n);
    for (bb_matrix* matrix : {light, rest, exact})
        if (matrix && (matrix != light || !rest)) peers.follow(matrix->memory);
    BB_CHECK(cudaStreamSynchronize(main()->memory.stream));
}

std::unique_ptr<WalkMail> bb_nodes::take_mail() {
    if (!idle_mail_.empty()) {
        std::unique_ptr<WalkMail> found = std::move(idle_mail_.back());
        idle_mail_.pop_back();
        return found;
    }
    auto made = std::make_unique<WalkMail>();
    for (Mailbox* box : {&made->steps[0], &made->steps[1], &made->answers})
        box->reserve(BB_WALK_COLUMNS * BB_WALK_IMAGES * (BB_WALK_IMAGES + 1) / 2, main()->memory.stream);
    return made;
}

bb_walk::bb_walk(bb_nodes* nodes, int32_t columns, const bb_walk_terms& given)
    : nodes(nodes),
      memory(nodes->main()->memory),
      has_window(nodes->peers.open_window(columns * int64_t(sizeof(float)))),
      n_(nodes->n),
      columns_(columns) {
    terms_.damping = given.damping;
    terms_.v0 = given.v0;
    if (given.v) v_ = uploaded<double>(memory, given.v, n_);
    if (given.u) u_ = uploaded<double>(memory, given.u, n_);
    terms_.v = v_.data();
    terms_.u = u_.data();
    if (given.entries) upload_entries(given);
    terms_.lengths = nodes->lengths.data();
    terms_.most = given.most;
    terms_.per_entry = given.per_entry;
    base_ = Array<double>(memory, size());
    base_.fill_bytes(0);
    if (!has_window) messages_ = Array<float>(memory, nodes->peers.nodes() * columns);
    product_ = Array<float>(memory, size());
    if (nodes->rest) rest_product_ = Array<float>(memory, size());
    lost_ = Array<double>(memory, columns);
    point_ = Array<double>(memory, 2 * columns);
    mail_ = nodes->take_mail();
    BB_CHECK(cudaStreamSynchronize(stream()));  // the caller's arrays have been read
}

bb_walk::~bb_walk() {
    nodes->peers.forget(this);
    cudaStreamSynchronize(nodes->peers.letters());  // letters may still be on their way
    cudaStreamSynchronize(stream());
    if (mail_) nodes->give_mail(std::move(mail_));
}

void bb_walk::upload_entries(const bb_walk_terms& given) {
    std::vector<uint32_t> bits(size_t((n_ + 31) / 32), 0);
    std::vector<int64_t> keys(static_cast<size_t>(given.entries));
    for (int64_t e = 0; e < given.entries; e++) {
        const int64_t row = given.rows[e], owner = given.owners[e];
        expect(row >= 0 && row < n_ && owner >= 0 && owner < columns_,
               "restarts: a node or a walk is out of range");
        keys[size_t(e)] = row * BB_WALK_COLUMNS + owner;
        expect(e == 0 || keys[size_t(e) - 1] < keys[size_t(e)],
               "restarts: expected ascending nodes and walks");
        bits[size_t(row / 32)] |= 1u << (row % 32);
    }
    rows_ = on_device(memory, bits);
    keys_ = on_device(memory, keys);
    shares_ = uploaded<double>(memory, given.shares, given.entries);
    terms_.entries = {rows_.data(), keys_.data(), shares_.data(), given.entries};
}

// --- vectors

float* bb_walk::own(Vector& vector) {
    if (!vector || vector.use_count() > 1) vector = std::make_shared<Array<float>>(memory, size());
    return vector->data();
}

bb_walk::Vector& bb_walk::slot(int32_t number) {
    expect(number >= 0 && number < kSlots, "slot: expected 0 to 63");
    if (size_t(number) >= slots_.size()) slots_.resize(size_t(number) + 1);
    return slots_[size_t(number)];
}

const float* bb_walk::at(int32_t number) {
    const Vector& found = slot(number);
    expect(found != nullptr, "slot: nothing is there");
    return found->data();
}

double* bb_walk::partial(int64_t count) {
    reserve(memory, partial_, count * columns_ * blocks());
    return partial_.data();
}

NextLaunch bb_walk::pass() const { return NextLaunch(unsigned(blocks()), kPassThreads, 0, stream(), false); }

NextLaunch bb_walk::launch_for(int64_t count) const {
    return NextLaunch(blocks_for(count), 256, 0, stream(), false);
}

void bb_walk::finish(int count, double* keep, int keeps, Mailbox* box, const Shared& vector,
                     const double* more, int mores, bool early) {
    nodes->peers.finish(partial_.data(), blocks(), count * columns_, keep, keeps * columns_,
                        Numbers{more, mores * columns_}, box ? box->next() : Letter{}, vector, early);
}

const float* bb_walk::messages() const {
    return has_window ? static_cast<const float*>(nodes->peers.window()) : messages_.data();
}

float* bb_walk::next_messages() const {
    float* const whole = has_window ? static_cast<float*>(nodes->peers.next_window()) : messages_.data();
    return whole + nodes->peers.first() * columns_;
}

Shared bb_walk::shared_messages() const {
    void* const whole = has_window ? nodes->peers.next_window() : messages_.data();
    return {whole, columns_ * int64_t(sizeof(float))};
}

Copies bb_walk::next_copies() const { return has_window ? nodes->peers.next_copies(columns_) : Copies{}; }

void bb_walk::forget_ahead() {
    if (ahead_.from != kNoSlot) sent_ = kNoSlot;
    ahead_.from = kNoSlot;
}

void bb_walk::place(int32_t number, const double* start) {
    forget_ahead();
    expect(!start || columns_ == 1, "start: only for one walk");
    float* to = own(slot(number));
    sent_ = kNoSlot;
    if (!start) return launch_for(size())(place_restarts, terms_, n_, columns_, to);
    BB_CHECK(cudaMemsetAsync(to, 0, size_t(size()) * sizeof(float), stream()));
    base_.from_host(start, n_);
    BB_CHECK(cudaStreamSynchronize(stream()));  // the caller's start has been read
}

// --- steps

// Queues the messages of the point, and the mixture if it is one; keeps the sums of the point.
void bb_walk::send(const bb_light_step& step) {
    Mixture mixture = {};
    for (int j = 0; j < BB_WALK_IMAGES; j++) {
        mixture.image[j] = at(step.slots[j < step.count ? j : 0]);
        if (step.factors && j < step.count)
            std::copy_n(step.factors + j * columns_, columns_, mixture.factor[j]);  // rounded to float32
    }
    nodes->peers.await();  // other messages may still be on their way from and to the same place
    double* sums = partial(1);
    const float* scale = nodes->light_scale.data();
    float* const messages = next_messages();
    const Copies copies = next_copies();
    with_width(columns_, [&](auto width) {
        constexpr int WIDTH = decltype(width)::value;
        if (!step.factors)
            return pass()(send_messages<WIDTH, 0>, mixture, scale, n_, columns_, nullptr, messages, copies,
                          sums);
        float* const x = own(slot(step.mixed));
        with_count(step.count, [&](auto images) {
            pass()(send_messages<WIDTH, decltype(images)::value>, mixture, scale, n_, columns_, x, messages,
                   copies, sums);
        });
    });
    finish(1, lost_.data(), 1, nullptr, shared_messages());
    nodes->peers.lent_to = this;
}

void bb_walk::multiply() {
    if (nodes->rest) {
        nodes->light->apply(BB_NORMAL, messages() + nodes->peers.first() * columns_, product_.data(),
                            columns_);
        nodes->rest->memory.overlaps = !nodes->peers.await() && nodes->rest_overlaps;
        nodes->rest->apply(BB_NORMAL, messages(), rest_product_.data(), columns_);
        return;
    }
    nodes->peers.await();
    if (nodes->light) {
        nodes->light->apply(BB_NORMAL, messages(), product_.data(), columns_);
        return;
    }
    const int64_t all = nodes->peers.nodes() * columns_;
    reserve(memory, exact_messages_, all);
    launch_for(all)(convert_vector<float, double>, messages(), all, exact_messages_.data());
    multiply_exactly();
    launch_for(size())(convert_vector<double, float>, exact_product_.data(), size(), product_.data());
}

void bb_walk::multiply_exactly() {
    reserve(memory, exact_product_, size());
    nodes->exact->apply(BB_NORMAL, exact_messages_.data(), exact_product_.data(), columns_);
}

void bb_walk::queue(const bb_light_step& step, Vector& to, Mailbox& box) {
    const bool there = sent_ == step.slots[0] && (!has_window || nodes->peers.lent_to == this);
    if (step.factors || !there) send(step);
    const float* x = at(step.factors ? step.mixed : step.slots[0]);
    multiply();
    float* const image = own(to);
    double* sums = partial(2);
    with_width(columns_, [&](auto width) {
        constexpr int WIDTH = decltype(width)::value;
        pass()(nodes->rest ? advance<WIDTH, 2> : advance<WIDTH, 1>, terms_, lost_.data(),
               correction_ ? correction_->data() : nullptr, product_.data(), rest_product_.data(), x,
               nodes->light_scale.data(), n_, columns_, image, next_messages(), next_copies(), sums);
    });
    finish(2, lost_.data(), 1, &box, shared_messages(), nullptr, 0, true);
}

void bb_walk::light(const bb_light_step& step, double* norms) {
    const int32_t* const end = step.slots + step.count;
    expect(step.count >= 1 && step.count <= BB_WALK_IMAGES && (step.factors || step.count == 1),
           "slots: expected 1 to 8, or 1 without factors");
    expect(std::find(step.slots, end, step.into) == end, "into: expected a slot that is not read");
    expect(!step.factors || (step.mixed != step.into && std::find(step.slots, end, step.mixed) == end),
           "mixed: expected a slot of its own");
    // Makes room, so that references to slots stay valid.
    for (const int32_t number : {step.into, step.factors ? step.mixed : step.into}) slot(number);
    if (!step.factors && ahead_.from == step.slots[0]) {
        std::swap(slot(step.into), ahead_.image);
        ahead_.from = kNoSlot;
    } else {
        forget_ahead();
        turn_ = 1 - turn_;
        queue(step, slot(step.into), mail_->steps[turn_]);
    }
    sent_ = step.into;
    Mailbox& box = mail_->steps[turn_];
    if (step.ahead && nodes->peers.can_run_ahead()) {
        const bb_light_step next = {&step.into, 1, nullptr, kNoSlot, kNoSlot, 0};
        turn_ = 1 - turn_;
        queue(next, ahead_.image, mail_->steps[turn_]);
        ahead_.from = step.into;
    }
    std::copy_n(box.wait(stream()), columns_, norms);
    nodes->exact->check_products();
}

void bb_walk::exact(int32_t number, int32_t into, double* sums) {
    forget_ahead();
    const Vector e = slot(number);
    expect(e != nullptr, "slot: nothing is there");
    slots_.assign(slots_.size(), nullptr);
    ahead_.image.reset();
    correction_.reset();
    sent_ = kNoSlot;
    reserve(memory, exact_messages_, nodes->peers.nodes() * columns_);
    double* const messages = exact_messages_.data() + nodes->peers.first() * columns_;
    const Vector residual = std::make_shared<Array<float>>(memory, size());
    double* all = partial(3);
    with_width(columns_, [&](auto width) {
        constexpr int WIDTH = decltype(width)::value;
        pass()(sum_point<WIDTH>, e->data(), base_.data(), n_, columns_, all);
        finish(1, point_.data(), 1, nullptr);
        nodes->peers.await();
        pass()(move_base<WIDTH>, e->data(), point_.data(), nodes->scale.data(), n_, columns_, base_.data(),
               messages, all);
        finish(2, point_.data(), 2, nullptr, {exact_messages_.data(), columns_ * int64_t(sizeof(double))});
        nodes->peers.await();
        multiply_exactly();
        pass()(find_residual<WIDTH>, terms_, point_.data(), exact_product_.data(), base_.data(), n_, columns_,
               residual->data(), all);
    });
    finish(3, nullptr, 0, &mail_->answers, {}, point_.data(), 2);
    if (nodes->light) {  // else light steps use them too
        exact_messages_.reset();
        exact_product_.reset();
    }
    correction_ = residual;
    slot(into) = residual;
    std::copy_n(mail_->answers.wait(nodes->peers.letters()), 5 * columns_, sums);
    nodes->exact->check_products();
}

void bb_walk::products(const int32_t* images, const int32_t* points, int32_t count, double* out) {
    expect(count >= 1 && count <= BB_WALK_IMAGES, "images: expected 1 to 8");
    Residuals residuals = {};
    for (int j = 0; j < BB_WALK_IMAGES; j++) {
        const int which = j < count ? j : 0;
        residuals.image[j] = at(images[which]);
        residuals.point[j] = points[which] < 0 ? nullptr : at(points[which]);
    }
    with_count(count, [&](auto vectors) {
        constexpr int COUNT = decltype(vectors)::value;
        double* sums = partial(COUNT * (COUNT + 1) / 2);
        with_width(columns_, [&](auto width) {
            pass()(multiply_residuals<decltype(width)::value, COUNT>, residuals, n_, columns_, sums);
        });
    });
    finish(count * (count + 1) / 2, nullptr, 0, &mail_->answers);
    const double* found = mail_->answers.wait(nodes->peers.letters());
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) {
            const int high = std::max(i, j), pair = high * (high + 1) / 2 + std::min(i, j);
            std::copy_n(found + pair * columns_, columns_, out + (i * count + j) * columns_);
        }
}

// --- results

void bb_walk::top(int32_t number, const int32_t* columns, int32_t wanted, int64_t count, int64_t* numbers,
                  double* values) {
    for (int32_t c = 0; c < wanted; c++)
        expect(columns[c] >= 0 && columns[c] < columns_, "column: out of range");
    expect(count >= 0 && count <= n_, "count: more than there are nodes");
    if (count == 0 || wanted == 0) return;
    const Leaders found = leaders(number, columns, wanted, count);
    std::vector<std::pair<double, uint32_t>> list;
    for (int32_t c = 0; c < wanted; c++) {
        int64_t* const to = numbers + c * count;
        const int64_t there = found.counts.empty() ? 0 : found.counts[size_t(columns[c])];
        if (there < count || there > found.room) {
            top_of_column(number, columns[c], count, to, values + c * count);
            continue;
        }
        list.clear();
        for (int64_t k = columns[c] * found.room; k < columns[c] * found.room + there; k++)
            list.emplace_back(-found.values[size_t(k)], found.numbers[size_t(k)]);
        std::partial_sort(list.begin(), list.begin() + count, list.end());
        for (int64_t k = 0; k < count; k++) {
            to[k] = list[size_t(k)].second;
            values[c * count + k] = -list[size_t(k)].first;
        }
    }
}

// Returns the entries of some columns that may be among the largest; nothing if that does not pay.
bb_walk::Leaders bb_walk::leaders(int32_t number, const int32_t* columns, int32_t wanted, int64_t count) {
    Leaders found = {2 * count + 1024, {}, {}, {}};
    const int64_t warps = int64_t(blocks()) * (kPassThreads / 32);
    if (kWarpsPerLeader * count > warps) return found;
    const ScoreRows scores = {base_.data(), at(number), nodes->places(), n_, columns_};
    const NextLaunch launch(unsigned(blocks()), kPassThreads, 0, stream(), false);
    Array<double> maxima(memory, warps * columns_);
    with_width(columns_, [&](auto width) { launch(column_maxima<width.value>, scores, maxima.data()); });
    const std::vector<double> most = maxima.to_host();
    std::vector<double> some(static_cast<size_t>(warps));
    std::vector<double> least(size_t(columns_), std::numeric_limits<double>::infinity());
    for (int32_t c = 0; c < wanted; c++) {
        for (int64_t w = 0; w < warps; w++) some[size_t(w)] = most[size_t(w * columns_ + columns[c])];
        std::nth_element(some.begin(), some.begin() + (count - 1), some.end(), std::greater<double>());
        const double bound = some[size_t(count - 1)];
        if (bound > 0) least[size_t(columns[c])] = bound;
    }
    const Array<double> bounds = uploaded<double>(memory, least.data(), columns_);
    Array<uint32_t> counts(memory, columns_), numbers(memory, columns_ * found.room);
    Array<double> values(memory, columns_ * found.room);
    counts.fill_bytes(0);
    with_width(columns_, [&](auto width) {
        launch(list_leaders<width.value>, scores, bounds.data(), uint32_t(found.room), counts.data(),
               numbers.data(), values.data());
    });
    found.counts = counts.to_host();
    found.numbers = numbers.to_host();
    found.values = values.to_host();
    return found;
}

void bb_walk::top_of_column(int32_t number, int32_t column, int64_t count, int64_t* numbers, double* values) {
    const ScoreColumn scores = {base_.data() + column, at(number) + column, nodes->places(), n_, columns_};
    Array<uint32_t> digits(memory, kDigits), digit(memory, 1);
    digits.fill_bytes(0);
    const unsigned grid = blocks_for(n_);
    const NextLaunch counting(std::min(blocks_for(n_, 8 * kDigitThreads), 512u), kDigitThreads, 0, stream(),
                              false),
        finding(1u, kDigitThreads, 0, stream(), false), marking(grid, 256, 0, stream(), false);
    counting(count_digits, scores, digits.data());
    finding(find_digit, digits.data(), uint64_t(count), digit.data());
    Array<uint8_t> flags(memory, n_);
    marking(flag_scores, scores, digit.data(), flags.data());
    const Array<uint32_t> found = positions_of(memory, flags);
    Array<uint64_t> keys(memory, found.size());
    const NextLaunch keying(blocks_for(found.size()), 256, 0, stream(), false);
    keying(score_keys, scores, found.data(), found.size(), keys.data());
    const Array<uint32_t> order = picked(memory, found, sort_with_positions(memory, keys, ~uint64_t(0)));
    std::vector<uint32_t> nodes_found(static_cast<size_t>(count));
    std::vector<uint64_t> bits(static_cast<size_t>(count));
    BB_CHECK(cudaMemcpyAsync(nodes_found.data(), order.data(), size_t(count) * sizeof(uint32_t),
                             cudaMemcpyDefault, stream()));
    BB_CHECK(cudaMemcpyAsync(bits.data(), keys.data(), size_t(count) * sizeof(uint64_t), cudaMemcpyDefault,
                             stream()));
    BB_CHECK(cudaStreamSynchronize(stream()));
    for (int64_t i = 0; i < count; i++) {
        numbers[i] = nodes_found[size_t(i)];
        const uint64_t score = ~bits[size_t(i)];
        std::memcpy(values + i, &score, sizeof score);
    }
}

void bb_walk::get(int32_t number, int32_t column, double* values) {
    expect(column >= 0 && column < columns_, "column: out of range");
    const ScoreColumn by_place = {base_.data() + column, at(number) + column, nullptr, n_, columns_};
    reserve(memory, exact_messages_, nodes->peers.nodes());
    double* const own = exact_messages_.data() + nodes->peers.first();
    launch_for(n_)(score_column, by_place, own);
    nodes->numbering.fetch(nodes->exact->bridge, nodes->peers.gather(own, exact_messages_), values);
    if (nodes->light) exact_messages_.reset();
}

void bb_walk::take(bb_walk& from, int32_t number, const int32_t* chosen) {
    expect(from.correction_ != nullptr && from.slot(number) == from.correction_,
           "slot: expected that of the last exact step");
    forget_ahead();
    ChosenColumns columns = {};
    for (int32_t k = 0; k < columns_; k++) {
        expect(chosen[k] >= 0 && chosen[k] < from.columns_, "columns: out of range");
        columns.of[k] = chosen[k];
    }
    const Vector residual = std::make_shared<Array<float>>(memory, size());
    const NextLaunch launch = launch_for(size());
    launch(pick_columns<double>, from.base_.data(), from.columns_, columns, n_, columns_, base_.data());
    launch(pick_columns<float>, from.correction_->data(), from.columns_, columns, n_, columns_,
           residual->data());
    correction_ = residual;
    slot(number) = residual;
    sent_ = kNoSlot;
}

namespace {

template <class Body>
bb_status on(bb_walk* walk, Body&& body) noexcept {
    return on_matrix(walk ? walk->nodes->main() : nullptr, [&] { body(*walk); });
}

}  // namespace

extern "C" {

bb_status bb_nodes_create(const bb_transitions* matrices, const uint32_t* lengths, const double* scale,
                          const uint32_t* places, const uint32_t* all_places, const bb_graph_ranks* ranks,
                          bb_nodes** out) {
    bb_matrix *const light = matrices->light, *const rest = matrices->rest, *const exact = matrices->exact;
    const int64_t nodes = ranks ? ranks->bounds[ranks->calls->size] : exact ? exact->rows() : 0;
    return on_matrix(light ? light : exact, [&] {
        expect(exact && exact->type == BB_FLOAT64 && (light || !rest),
               "matrix: expected one of float64, and others only with one of float32 for own nodes");
        for (const bb_matrix* matrix : {light, rest, exact}) {
            if (!matrix) continue;
            expect(matrix->finished && matrix->rows() == exact->rows(),
                   "matrix: expected some with the same number of rows");
            expect(matrix == exact || matrix->type == BB_FLOAT32, "matrix: expected float32");
            expect(matrix->device.id == exact->device.id && matrix->memory.stream == exact->memory.stream,
                   "matrix: expected some on the same device and stream");
            expect(matrix->cols() == (matrix == light && rest ? exact->rows() : nodes),
                   "matrix: expected a column for each node");
        }
        *out = new bb_nodes(*matrices, lengths, scale, places, all_places, ranks);
    });
}

void bb_nodes_destroy(bb_nodes* nodes) {
    if (nodes) on_matrix(nodes->main(), [&] { delete nodes; });
}

bb_status bb_walk_create(bb_nodes* nodes, int32_t columns, const bb_walk_terms* terms, bb_walk** out) {
    return on_matrix(nodes ? nodes->main() : nullptr, [&] {
        expect(columns >= 1 && columns <= BB_WALK_COLUMNS, "columns: expected 1 to 32");
        expect(!terms->entries || !terms->v, "restarts: expected entries or a vector");
        *out = new bb_walk(nodes, columns, *terms);
    });
}

void bb_walk_destroy(bb_walk* walk) {
    if (!walk) return;
    on(walk, [&](bb_walk& w) { delete &w; });
}

int32_t bb_walk_has_window(const bb_walk* walk) { return walk->has_window; }

int64_t bb_walk_additions(int64_t n, int32_t columns) { return pass_additions(n, columns); }

int64_t bb_walk_bytes(int64_t n, int64_t nodes, int32_t columns, int32_t images) {
    // Of own nodes: what is in slots, the image of the step ahead, the residual of the base, and the product
    // in float32, in two parts if there are other nodes; the base, and the product of an exact step, in
    // float64; v and u.  Of all nodes: messages in both types; at the end a
    // column of scores in the order of numbers; the places.  And the sums of blocks.
    const int64_t light = int64_t(images) + 3 + (nodes > n), exact = 2, sent = nodes > n ? 2 : 1;
    return n * columns * (4 * light + 8 * exact) + nodes * columns * (4 * sent + 8) + 2 * 8 * n +
           nodes * (8 + 4) +
           int64_t(BB_WALK_IMAGES) * (BB_WALK_IMAGES + 1) / 2 * columns * pass_blocks(n, columns) * 8;
}

bb_status bb_walk_place(bb_walk* walk, int32_t slot, const double* start) {
    return on(walk, [&](bb_walk& w) { w.place(slot, start); });
}

bb_status bb_walk_light(bb_walk* walk, const bb_light_step* step, double* norms) {
    return on(walk, [&](bb_walk& w) { w.light(*step, norms); });
}

bb_status bb_walk_exact(bb_walk* walk, int32_t slot, int32_t into, double* sums) {
    return on(walk, [&](bb_walk& w) { w.exact(slot, into, sums); });
}

bb_status bb_walk_products(bb_walk* walk, const int32_t* images, const int32_t* points, int32_t count,
                           double* products) {
    return on(walk, [&](bb_walk& w) { w.products(images, points, count, products); });
}

bb_status bb_walk_top(bb_walk* walk, int32_t slot, const int32_t* columns, int32_t wanted, int64_t count,
                      int64_t* numbers, double* values) {
    return on(walk, [&](bb_walk& w) { w.top(slot, columns, wanted, count, numbers, values); });
}

bb_status bb_walk_get(bb_walk* walk, int32_t slot, int32_t column, double* values) {
    return on(walk, [&](bb_walk& w) { w.get(slot, column, values); });
}

bb_status bb_walk_take(bb_walk* walk, bb_walk* from, int32_t slot, const int32_t* columns) {
    return on(walk, [&](bb_walk& w) {
        expect(from && from->nodes->n == w.nodes->n && from->memory.stream == w.memory.stream,
               "from: expected walks on the same graph");
        w.take(*from, slot, columns);
    });
}

}  // extern "C"
