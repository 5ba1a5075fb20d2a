// A launch, which runs at once.
#pragma once
#include "runtime/status.h"

namespace bmrm {

inline void let_next_start() {}
inline void wait_for_previous() {}

class NextLaunch {
  public:
    NextLaunch(dim3 blocks, int threads, int64_t, cudaStream_t, bool) : blocks_(blocks), threads_(threads) {}
    template <class... Parameters, class... Arguments>
    void operator()(void (*kernel)(Parameters...), Arguments... arguments) const {
        emulator::run(blocks_, threads_, [=] { kernel(Parameters(arguments)...); });
    }

  private:
    dim3 blocks_;
    int threads_;
};

}  // namespace bmrm
