// The integer that counts rows, columns and entries.
#pragma once

#include <cstdint>

namespace bmrm {

using i64 = std::int64_t;

}  // namespace bmrm
