// Rows of the matrix that stay in main memory: the CPU computes their products while the device works on the
// others.
//
// A product has three parts: a kernel writes the input to pinned memory, in double; the driver calls the CPU
// for the product, on a stream of its own; and the stream of the matrix waits for that before a kernel reads
// the result where it is. Nothing waits for the host, so a product can be captured in a graph.
#pragma once
#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "api/blackbox.h"
#include "runtime/device_memory.h"
#include "runtime/pinned_room.h"

namespace bmrm {

class HostRows {
  public:
    // first, rows: which rows of the matrix; transposes: whether there will be products X' r.
    HostRows(Memory& memory, bb_type type, int64_t first, int64_t rows, int64_t cols, bool transposes,
             const bb_host_rows& given);
    ~HostRows();
    HostRows(const HostRows&) = delete;
    HostRows& operator=(const HostRows&) = delete;

    int64_t first() const { return first_; }
    int64_t end() const { return first_ + rows_; }

    // Throws if main memory was too small for a product that has ended.
    void check() const;
    // Begins X x for `columns` vectors.
    void begin(const void* x, int columns) { begin({BB_NORMAL, columns, {0, rows_}}, x); }
    // Begins X' r for `columns` vectors; for one also over blocks of these rows, from starts[0] = 0 on.
    void begin(const void* r, int columns, std::vector<int64_t> starts) {
        begin({BB_TRANSPOSED, columns, std::move(starts)}, r);
    }
    // Makes the stream of the matrix wait for the product that was begun.  Returns where its result then is,
    // until the next one.
    const double* await();
    // Writes the result of X x for all rows of the matrix, of which these are some.
    void await_rows(int columns, void* y);

  private:
    using Key = std::tuple<bb_operator, int, std::vector<int64_t>>;
    // A product of some shape, which graphs may refer to.
    struct Call {
        HostRows* rows;
        const Key* key;
        double *x, *y;
    };
    static void run(void* call);
    // Room for `count` doubles: products take turns, so that they can share it.  It stays where it is, since
    // graphs refer to it.
    static double* shared_room(std::list<PinnedRoom>& rooms, int64_t count);
    Call& call_of(const Key& key);
    int64_t outputs(const Key& key) const;
    void begin(const Key& key, const void* x);

    Memory& memory_;
    const bb_type type_;
    const int64_t first_, rows_, cols_;
    const bb_host_rows given_;
    std::list<PinnedRoom> inputs_, results_;
    std::map<Key, Call> calls_;
    const Call* begun_ = nullptr;
    std::atomic<bool> failed_{false};
    cudaStream_t stream_ = nullptr;
    cudaEvent_t ready_ = nullptr, done_ = nullptr;
};

}  // namespace bmrm
