// How a resident matrix is kept.
#pragma once

namespace bmrm {

/// How X^T r is computed; for `automatic` see transpose_pays().
enum class TransposePolicy { never, automatic, always };

/// Whether columns are ordered by frequency.
enum class ColumnOrder { automatic, as_given, by_popularity };

}  // namespace bmrm
