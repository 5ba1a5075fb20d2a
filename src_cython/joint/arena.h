// Memory that consecutive evaluations reuse.
//
// An evaluation of a large group needs several arrays as long as the group. With new ones the system would
// map and clear their pages each time, which took as long as the sort. So they are kept from one evaluation
// to the next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/memory.h"

namespace bmrm {

/// Hands out uninitialised arrays; `clear` takes all of them back at once. Used by one thread at a time.
class Arena {
  public:
    template <class T>
    T* take(int64_t n) {
        constexpr int64_t line = 64;
        const int64_t bytes = (n * int64_t(sizeof(T)) + line - 1) / line * line;
        if (blocks_.empty() || blocks_.back().size() - used_ < bytes) {
            blocks_.emplace_back(std::max(bytes, blocks_.empty() ? 0 : 2 * blocks_.back().size()));
            used_ = 0;
        }
        void* found = blocks_.back().get() + used_;
        used_ += bytes;
        return static_cast<T*>(found);
    }

    /// If several blocks were needed, replaces them by one of their total size.
    void clear() {
        if (blocks_.size() > 1) {
            int64_t all = 0;
            for (const auto& block : blocks_) all += block.size();
            blocks_.clear();
            blocks_.emplace_back(all);
        }
        used_ = 0;
    }

  private:
    std::vector<Buffer<std::byte>> blocks_;
    int64_t used_ = 0;
};

}  // namespace bmrm
