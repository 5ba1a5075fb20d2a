// A launch, which runs at once.
#pragma once
#include "runtime/status.h"

namespace bmrm {

class NextLaunch {
  public:
    NextLaunch(dim3 blocks, int threads, int64_t shared_bytes, cudaStream_t, bool)
        : blocks_(blocks), threads_(threads), shared_bytes_(shared_bytes) {}
    template <class... Parameters, class... Arguments>
    void operator()(void (*kernel)(Parameters...), Arguments... arguments) const {
        if (size_t(shared_bytes_) > sizeof shared) throw Failure(BB_CUDA, "too much shared memory");
        memset(shared, 0xFF, sizeof shared);
        emulator::run(blocks_, threads_, [=] { kernel(Parameters(arguments)...); });
    }

  private:
    dim3 blocks_;
    int threads_;
    int64_t shared_bytes_;
};

}  // namespace bmrm
