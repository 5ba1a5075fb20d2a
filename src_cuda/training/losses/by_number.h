// From the number of a loss to its type.
#pragma once
#include <stdint.h>

#include <string>

#include "rounded.h"
#include "runtime/failure.h"

namespace bmrm {

template <class What>
struct Type {
    using type = What;
};

// Calls use(type of Loss, type of the loss that is searched and cut), which may be the same.
template <class Loss, class Use>
void with_loss(bool rounded, Use&& use) {
    if constexpr (Rounded<Loss>::kinked)
        if (rounded) return use(Type<Loss>(), Type<Rounded<Loss>>());
    if (rounded) throw Failure(BB_INVALID, "the loss has no kinks to round");
    use(Type<Loss>(), Type<Loss>());
}

template <class Use>
void by_number(int32_t loss, bool rounded, Use&& use) {
    int number = 0;
#define BMRM_USE(name, Loss) \
    if (loss == number++) return with_loss<Loss>(rounded, use);
    BMRM_LOSSES(BMRM_USE)
#undef BMRM_USE
    throw Failure(BB_INVALID, "no loss has number " + std::to_string(loss));
}

}  // namespace bmrm
