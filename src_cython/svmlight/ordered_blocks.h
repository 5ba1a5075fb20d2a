// Blocks are parsed into the slots of a ring, and sent to a consumer in order.
//
// In order, the place of a block is known when it is sent, and there are no gaps to close. Block b uses slot
// b % slots, so it waits until block b - slots has been sent, and never for a later one: however few slots
// there are, the first block not sent yet has one.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

#include "svmlight/block_consumer.h"

namespace svmlight {

class OrderedBlocks {
  public:
    explicit OrderedBlocks(const svmlight_block_consumer& consumer)
        : consumer_(consumer), parsed_(static_cast<size_t>(consumer.slots)) {}

    // Waits for the slot of a block; false if the block is no longer wanted.
    bool lend(size_t b, svmlight_slot& slot) {
        {
            std::unique_lock<std::mutex> hold(guard_);
            moved_.wait(hold, [&] { return b < sent_ + parsed_.size() || b >= end_; });
            if (b >= end_) return false;
        }
        const bool lent =
            consumer_.lend(consumer_.context, static_cast<int32_t>(b % parsed_.size()), &slot) == 0;
        if (!lent) fail();
        return lent;
    }

    // Accepts a parsed block, and sends the next blocks that are ready.
    void pass(size_t b, int64_t count, bool ones) {
        const std::lock_guard<std::mutex> hold(guard_);
        parsed_[b % parsed_.size()] = {true, count, ones};
        while (sent_ < end_ && parsed_[sent_ % parsed_.size()].waits) send_next();
        moved_.notify_all();
    }

    // Ends before block b: it and later blocks are not wanted.
    void end_at(size_t b) {
        const std::lock_guard<std::mutex> hold(guard_);
        end_ = std::min(end_, b);
        moved_.notify_all();
    }

    // Whether the consumer has failed.
    bool failed() const { return failed_; }

  private:
    struct Parsed {
        bool waits = false;
        int64_t count = 0;
        bool ones = false;
    };

    void send_next() {
        const size_t slot = sent_ % parsed_.size();
        Parsed& next = parsed_[slot];
        if (consumer_.send(consumer_.context, static_cast<int32_t>(slot), first_, next.count, next.ones) !=
            0) {
            failed_ = true;
            end_ = 0;
            return;
        }
        first_ += next.count;
        next.waits = false;
        ++sent_;
    }

    void fail() {
        const std::lock_guard<std::mutex> hold(guard_);
        failed_ = true;
        end_ = 0;
        moved_.notify_all();
    }

    const svmlight_block_consumer& consumer_;
    std::mutex guard_;
    std::condition_variable moved_;
    std::vector<Parsed> parsed_;  // by slot
    size_t sent_ = 0;             // number of blocks
    size_t end_ = std::numeric_limits<size_t>::max();
    int64_t first_ = 0;  // place of the next nonzero
    bool failed_ = false;
};

}  // namespace svmlight
