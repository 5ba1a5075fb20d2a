// Memory for one evaluation after another.
//
// An evaluation of a large group works on some arrays as long as the group.  Fresh ones would have the system
// map and clear their pages each time, which took as long as the sort; these are kept from one evaluation to
// the next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/memory.h"

namespace bmrm {

/// Hands out uninitialised arrays, all of which `clear` takes back at once.  One thread at a time.
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

    /// After several blocks were needed, one that is as large as all will do from now on.
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
