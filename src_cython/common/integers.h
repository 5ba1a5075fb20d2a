// The integer type for numbers of rows, columns and entries.
#pragma once

#include <cstdint>

namespace bmrm {

using i64 = std::int64_t;

}  // namespace bmrm
