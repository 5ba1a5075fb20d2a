#include <algorithm>
#include <chrono>

#include "formats/kernels/blocks.cuh"
#include "formats/tuning.h"
#include "matrix/matrix.h"
#include "matrix/weighted_gram.h"
#include "runtime/chain.cuh"
#include "runtime/graph_time.h"

using namespace bmrm;

namespace {

// sum (+)= product; with the last product, out = sum.
template <class Product, class T>
__global__ void add_product(const Product* product, int64_t count, bool first, bool last, double* sum,
                            T* out) {
    BB_FOR (i, count) {
        const double all = (first ? 0.0 : sum[i]) + double(product[i]);
        if (last)
            out[i] = T(all);
        else
            sum[i] = all;
    }
}

class Stopwatch {
  public:
    explicit Stopwatch(double& seconds) : seconds_(seconds) {}
    ~Stopwatch() {
        seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }

  private:
    double& seconds_;
    const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

bb_matrix::bb_matrix(const bb_device& device, int64_t rows, int64_t cols, bb_type type,
                     const bb_options& options, int64_t limit, int64_t room, int threads)
    : device(device),
      memory(device.id),
      type(type),
      options(options),
      bridge(threads),
      rows_(rows),
      cols_(cols),
      room_(room),
      uploader_(threads) {
    memory.set_limit(limit);
    memory.chains = memory.overlaps = can_chain(device);
    squares = Array<double>(memory, cols);
    squares.fill_bytes(0);
}

// Returns where the squares of the last block's rows go.
double* bb_matrix::last_row_squares() {
    if (!options.transpose || rows_ > tuning::kClimbedRows * cols_) return nullptr;
    if (!row_squares.size()) {
        row_squares = Array<double>(memory, rows_);
        row_squares.fill_bytes(0);
    }
    return row_squares.data() + placed_.back()->first;
}

// --- building

void bb_matrix::expect_rows(int64_t rows) const {
    const int64_t before = placed_.empty() ? 0 : placed_.back()->end();
    if (finished || rows < 1 || before + rows > rows_)
        throw Failure(BB_INVALID, "rows: found a block of " + std::to_string(rows) + " after " +
                                      std::to_string(before) + ", expected " + std::to_string(rows_) +
                                      " in all");
}

void bb_matrix::open(int64_t rows, int64_t nnz, bool ones) {
    close();
    expect_rows(rows);
    const int64_t value_bytes = ones ? 0 : vector_bytes();
    make_room(bb_prepare_bytes(rows, cols_, nnz, int32_t(value_bytes), options.transpose));
    const int64_t first = placed_.empty() ? 0 : placed_.back()->end();
    placed_.push_back(
        std::make_unique<PlacedBlock>(first, memory, device, scratch_, rows, cols_, nnz, type, ones));
    open_ = true;
}

void bb_matrix::open_dense(int64_t rows, const void* values) {
    expect_rows(rows);
    make_room(rows * cols_ * vector_bytes());
    const int64_t first = placed_.empty() ? 0 : placed_.back()->end();
    placed_.push_back(std::make_unique<PlacedBlock>(first, memory, device, scratch_, rows, cols_, type,
                                                    uploader_, values, options.finite != 0));
    placed_.back()->block.add_dense_squares(squares.data());
}

void bb_matrix::append(int64_t rows, const int64_t* indptr, const void* indices, int index_bytes,
                       const void* values) {
    if (!open_) throw Failure(BB_INVALID, "the matrix has no open block of rows");
    placed_.back()->block.append(uploader_, rows, indptr, indices, index_bytes, values);
}

void bb_matrix::close() {
    if (!open_) return;
    const Stopwatch watch(prepare_seconds);
    if (placed_.size() == 1) {
        placed_.back()->block.finish(options, nullptr, squares.data(), last_row_squares());
    } else {  // by the first block's plans or, if they do not suit, by prediction
        bb_options later = options;
        later.forced = 0;
        if (later.tuning != BB_TUNE_BUS) later.tuning = BB_TUNE_PREDICT;
        placed_.back()->block.finish(later, &placed_.front()->block, squares.data(), last_row_squares());
    }
    open_ = false;
}

void bb_matrix::finish() {
    close();
    const int64_t found = placed_.empty() ? 0 : placed_.back()->end();
    if (found != rows_)
        throw Failure(BB_INVALID,
                      "rows: found " + std::to_string(found) + ", expected " + std::to_string(rows_));
    const Stopwatch watch(prepare_seconds);
    uploader_.release();
    settle();
    memory.trim();
    finished = true;
}

// --- placement

int64_t bb_matrix::PlacedBlock::bytes() {
    int64_t sum = 0;
    for (int storage = 0; storage < RowBlock::kStorages; storage++)
        block.each_array(storage, [&](AnyArray& array, bool) { sum += array.bytes(); });
    return sum;
}

// Packs away as many of the last blocks as necessary to make `bytes` bytes free.
void bb_matrix::make_room(int64_t bytes) {
    while (memory.used() + bytes > room_ && pack_last()) {
    }
}

bool bb_matrix::pack_last() {
    const auto last =
        std::find_if(placed_.rbegin(), placed_.rend(), [](const auto& placed) { return !placed->streams; });
    if (last == placed_.rend()) return false;
    pack(**last);
    memory.trim();
    return true;
}

void bb_matrix::pack(PlacedBlock& placed) {
    for (int storage = 0; storage < RowBlock::kStorages; storage++)
        placed.packed[storage] = Packed(memory, placed.block, storage);
    placed.streams = true;
}

int64_t bb_matrix::area_bytes() const {
    int64_t most = 0;
    for (const auto& placed : placed_)
        if (placed->streams)
            for (const Packed& packed : placed->packed) most = std::max(most, packed.bytes());
    return most;
}

// Once all blocks are prepared: allocates staging areas for those that are packed away, and restores as many
// as fit, from both ends, so that the rows that stream are consecutive.
void bb_matrix::settle() {
    int64_t packed = 0;
    for (const auto& placed : placed_)
        if (placed->streams) packed += placed->bytes();
    // Either all blocks fit, or staging areas and some of them.
    int64_t areas = 0;
    // Packs away what lies between blocks that are.
    const auto pack_between = [&] {
        const auto streams = [](const auto& placed) { return placed->streams; };
        const auto begin = std::find_if(placed_.begin(), placed_.end(), streams);
        const auto end = std::find_if(placed_.rbegin(), placed_.rend(), streams).base();
        for (auto at = begin; at < end; ++at)
            if (!(*at)->streams) pack(**at);
        memory.trim();
        areas = Staging::kAreas * area_bytes();
    };
    if (memory.used() + packed > room_) pack_between();
    while (placed_.size() > 1 && memory.used() + areas > room_ && pack_last()) pack_between();
    const auto restore = [&](PlacedBlock& placed) {
        if (!placed.streams) return true;
        if (memory.used() + areas + placed.bytes() > room_) return false;
        for (int storage = 0; storage < RowBlock::kStorages; storage++) {
            placed.packed[storage].restore(memory, placed.block, storage);
            placed.packed[storage] = Packed();
        }
        placed.streams = false;
        return true;
    };
    size_t first = 0, last = placed_.size();
    while (first < last && restore(*placed_[first])) first++;
    while (first < last && restore(*placed_[last - 1])) last--;
    for (const auto& placed : placed_)
        if (placed->streams) streamed_.push_back(placed.get());
    if (streamed_.empty()) return;
    memory.overlaps = false;  // what a product reads of the matrix arrives just before it
    staging_.reserve(memory, area_bytes());
    for (size_t i = 0; i < streamed_.size(); i++) {
        PlacedBlock& placed = *streamed_[i];
        placed.area = int(i % Staging::kAreas);
        for (int storage = 0; storage < RowBlock::kStorages; storage++)
            placed.packed[storage].place(placed.block, storage, staging_.area(placed.area));
    }
}

void bb_matrix::keep_on_host(int count, const bb_host_rows& rows) {
    if (count < 1 || size_t(count) > streamed_.size() || on_host_)
        throw Failure(BB_INVALID, "blocks for the CPU: found " + std::to_string(count) + " of " +
                                      std::to_string(streamed_.size()) + " that stream");
    const auto begin = streamed_.end() - count;
    for (auto at = begin; at + 1 != streamed_.end(); ++at)
        if ((*at)->end() != at[1]->first)
            throw Failure(BB_INVALID, "blocks for the CPU: expected consecutive rows");
    const int64_t first = (*begin)->first, end = streamed_.back()->end();
    host_rows_ =
        std::make_unique<HostRows>(memory, type, first, end - first, cols_, options.transpose != 0, rows);
    on_host_ = size_t(count);
    for (auto at = begin; at != streamed_.end(); ++at) {
        PlacedBlock& placed = **at;
        placed.on_host = true;
        if (placed.block.of(BB_NORMAL).plan().kernel == BB_DENSE) continue;  // the CPU reads them there
        for (Packed& packed : placed.packed) packed = Packed();
    }
}

bb_coding bb_matrix::coding() const {
    bb_coding all = placed_.front()->block.coding();
    for (const auto& placed : placed_)
        if (placed->block.coding() != all) return BB_PLAIN;
    return all;
}

int64_t bb_matrix::host_bytes() const {
    int64_t sum = 0;
    for (const PlacedBlock* placed : streamed_)
        for (const Packed& packed : placed->packed) sum += packed.copied();
    return sum;
}

int64_t bb_matrix::left_bytes() const {
    size_t free_bytes = 0, total = 0;
    BB_CHECK(cudaMemGetInfo(&free_bytes, &total));
    return memory.limit() ? std::min(int64_t(free_bytes), memory.limit() - memory.used())
                          : int64_t(free_bytes);
}

std::vector<bb_block> bb_matrix::blocks() const {
    std::vector<bb_block> out;
    for (const auto& placed : placed_) {
        bb_block b = {};
        b.first = placed->first;
        b.rows = placed->block.rows();
        b.nnz = placed->block.nnz();
        b.bytes = placed->bytes();
        b.streams = placed->streams;
        b.on_host = placed->on_host;
        if (placed->block.of(BB_NORMAL).plan().kernel == BB_DENSE) b.dense = placed->packed[0].data();
        for (const bb_operator op : {BB_NORMAL, BB_TRANSPOSED}) {
            if (placed->block.of(op).chosen < 0) continue;
            b.plan[op] = placed->block.of(op).plan();
            b.copied[op] = placed->on_host ? 0 : placed->packed[placed->block.storage_of(op)].copied();
        }
        out.push_back(b);
    }
    return out;
}

// --- products

// Runs work(placed) for all blocks in order, when one storage of each of the first `copied` that stream has
// arrived.
template <class StorageOf, class Work>
void bb_matrix::for_copied(size_t copied, StorageOf&& storage_of, Work&& work) {
    const auto send = [&](size_t i) {
        const PlacedBlock& placed = *streamed_[i];
        const Packed& packed = placed.packed[storage_of(placed.block)];
        staging_.send(placed.area, packed.data(), packed.copied());
    };
    size_t sent = 0, used = 0;
    if (copied) staging_.begin(memory.stream);
    while (sent < copied && sent < size_t(Staging::kAreas)) send(sent++);
    for (const auto& placed : placed_) {
        const bool arrives = placed->streams && used++ < copied;
        if (arrives) staging_.await(placed->area, memory.stream);
        work(*placed);
        if (placed_.size() > 1) placed->block.release();  // so that partial sums do not accumulate
        if (!arrives || sent == copied) continue;
        staging_.release(placed->area, memory.stream);
        send(sent++);
    }
}

// Runs work(placed) for the blocks of the device, and host_work() once for all of the CPU, in order.
template <class StorageOf, class Work, class HostWork>
void bb_matrix::for_blocks(StorageOf&& storage_of, Work&& work, HostWork&& host_work) {
    for_copied(streamed_.size() - on_host_, storage_of, [&](PlacedBlock& placed) {
        if (!placed.on_host)
            work(placed);
        else if (placed.first == host_rows_->first())
            host_work();
    });
}

template <class Product>
void bb_matrix::fold(const Product* product, int64_t count, bool first, bool last, void* out) {
    by_type(type, [&](auto t) {
        using T = decltype(t);
        add_product<<<blocks_for(count), 256, 0, memory.stream>>>(product, count, first, last, sum_.data(),
                                                                  static_cast<T*>(out));
    });
}

void bb_matrix::apply(bb_operator op, const void* x, void* y, int columns) {
    if (placed_.size() == 1 && streamed_.empty()) return placed_.front()->block.apply(op, x, y, columns);
    if (of(op).chosen < 0) throw Failure(BB_INVALID, "the matrix was built without this product");
    const auto storage = [op](const RowBlock& block) { return block.storage_of(op); };
    const auto* from = static_cast<const unsigned char*>(x);
    auto* to = static_cast<unsigned char*>(y);
    const int64_t row_bytes = columns * vector_bytes(), count = cols_ * columns;
    if (op == BB_NORMAL) {
        if (host_rows_) host_rows_->begin(x, columns);
        return for_blocks(
            storage,
            [&](PlacedBlock& placed) { placed.block.apply(op, x, to + placed.first * row_bytes, columns); },
            [&] { host_rows_->await_rows(columns, y); });
    }
    reserve(memory, block_product_, count * vector_bytes());
    reserve(memory, sum_, count);
    if (host_rows_)
        host_rows_->begin(from + host_rows_->first() * row_bytes, columns,
                          {0, host_rows_->end() - host_rows_->first()});
    for_blocks(
        storage,
        [&](PlacedBlock& placed) {
            placed.block.apply(op, from + placed.first * row_bytes, block_product_.data(), columns);
            by_type(type, [&](auto t) {
                fold(reinterpret_cast<const decltype(t)*>(block_product_.data()), count, placed.first == 0,
                     placed.end() == rows_, y);
            });
        },
        [&] { fold(host_rows_->await(), count, host_rows_->first() == 0, host_rows_->end() == rows_, y); });
}

namespace {

// The blocks of r that have some of the rows [first, end), and where these begin, from `first` on.
struct Clipped {
    Clipped(const int64_t* starts, int blocks, int64_t first, int64_t end) {
        const int64_t* const stop = starts + blocks;
        low = std::max(int(std::upper_bound(starts, stop + 1, first) - starts) - 1, 0);
        high = std::min(int(std::lower_bound(starts, stop + 1, end) - starts), blocks);
        for (int b = low; b <= high && low < high; b++)
            bounds.push_back(std::clamp<int64_t>(starts[b] - first, 0, end - first));
    }
    int count() const { return std::max(high - low, 0); }

    int low, high;
    std::vector<int64_t> bounds;
};

}  // namespace

void bb_matrix::apply_blocks(const void* r, const int64_t* starts, int blocks, void* y) {
    if (placed_.size() == 1 && streamed_.empty())
        return placed_.front()->block.apply_blocks(r, starts, blocks, y);
    const int64_t each = cols_ * vector_bytes();
    const auto* from = static_cast<const unsigned char*>(r);
    auto* to = static_cast<unsigned char*>(y);
    BB_CHECK(cudaMemsetAsync(y, 0, size_t(blocks * each), memory.stream));  // some blocks may be empty
    reserve(memory, sum_, cols_);
    const auto fold_all = [&](const Clipped& some, const auto* products, int64_t first, int64_t end) {
        for (int b = some.low; b < some.high; b++)
            if (starts[b] < starts[b + 1])
                fold(products + (b - some.low) * cols_, cols_, starts[b] >= first, starts[b + 1] <= end,
                     to + b * each);
    };
    const Clipped hosts = host_rows_ ? Clipped(starts, blocks, host_rows_->first(), host_rows_->end())
                                     : Clipped(starts, 0, 0, 0);
    if (hosts.count()) host_rows_->begin(from + host_rows_->first() * vector_bytes(), 1, hosts.bounds);
    const auto storage = [](const RowBlock& block) { return block.storage_of(BB_TRANSPOSED); };
    for_blocks(
        storage,
        [&](PlacedBlock& placed) {
            const Clipped some(starts, blocks, placed.first, placed.end());
            if (!some.count()) return;
            reserve(memory, block_product_, some.count() * each);
            placed.block.apply_blocks(from + placed.first * vector_bytes(), some.bounds.data(), some.count(),
                                      block_product_.data());
            by_type(type, [&](auto t) {
                fold_all(some, reinterpret_cast<const decltype(t)*>(block_product_.data()), placed.first,
                         placed.end());
            });
        },
        [&] {
            if (hosts.count()) fold_all(hosts, host_rows_->await(), host_rows_->first(), host_rows_->end());
        });
}

const Csr& bb_matrix::compressed_rows() {
    if (rebuilt_) return *rebuilt_;
    if (on_host_)
        throw Failure(BB_INVALID,
                      "X: found rows in main memory for the CPU, expected all on the device; "
                      "cpu_share=0 leaves none to the CPU");
    const int bytes = coding() == BB_ONES ? 0 : int(vector_bytes());
    auto out = std::make_unique<Csr>();
    out->rows = rows_;
    out->cols = cols_;
    int64_t most = 0;
    for (const auto& placed : placed_) {
        out->nnz += placed->block.nnz();
        most = std::max(most, placed->block.append_bytes(bytes));
    }
    memory.trim();
    const int64_t needed = (rows_ + 1) * 8 + out->nnz * (4 + bytes) + most, left = left_bytes();
    if (needed > left)
        throw Failure(BB_MEMORY, "the compressed rows of X take " + size_text(double(needed)) +
                                     " of device memory while they are built again, and " +
                                     size_text(double(left)) + " are left");
    out->ptr = Array<int64_t>(memory, rows_ + 1);
    out->col = Array<uint32_t>(memory, out->nnz);
    out->values = Array<unsigned char>(memory, out->nnz * bytes);
    int64_t filled = 0;
    for_copied(
        streamed_.size(), [](const RowBlock& block) { return block.storage_of(BB_NORMAL); },
        [&](PlacedBlock& placed) {
            placed.block.append_to(*out, placed.first, filled);
            filled += placed.block.nnz();
        });
    BB_CHECK(cudaStreamSynchronize(memory.stream));  // other streams read the rows
    memory.trim();
    rebuilt_ = std::move(out);
    return *rebuilt_;
}

void bb_matrix::weighted_gram(const double* s, double* gram) {
    WeightedGram sum(memory, blas_, rows_, cols_, s);
    const auto storage = [](const RowBlock& block) { return block.storage_of(BB_NORMAL); };
    for_copied(streamed_.size(), storage, [&](PlacedBlock& placed) { sum.add(placed.block, placed.first); });
    sum.to_host(gram);
}

double bb_matrix::time(bb_operator op, int columns, int repeats) {
    Array<unsigned char> x(memory, inputs(op) * columns * vector_bytes());
    Array<unsigned char> y(memory, outputs(op) * columns * vector_bytes());
    fill_random(memory, type, x.data(), inputs(op) * columns);
    return graph_seconds(memory.stream, repeats, [&] { apply(op, x.data(), y.data(), columns); });
}
