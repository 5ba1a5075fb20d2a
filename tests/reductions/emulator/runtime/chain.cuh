// A launch, which runs at once.
#pragma once
#include "../../../graph/emulator/runtime/chain.cuh"

namespace bmrm {

inline bool can_chain(const bb_device&) { return false; }
template <class T>
T* after_wait(T* at) {
    return at;
}
template <class T>
T load_input(const T* at) {
    return *at;
}

}  // namespace bmrm
