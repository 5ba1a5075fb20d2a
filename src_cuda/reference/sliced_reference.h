// The sliced format (formats/sliced.h) built on the host, one step after the other: what the device's builder
// and product are tested against, and what tests the format itself on a machine without a GPU.
#pragma once
#include <vector>

#include "api/blackbox.h"
#include "formats/sliced.h"

namespace bmrm {

// Compressed rows as a caller has them; `values` may be null for ones.
struct HostRows {
    const int64_t* ptr;
    const int32_t* col;
    const double* values;
    int64_t rows, cols;
};

struct SlicedReference {
    Cut cut;
    int64_t rows, cols;
    bool direct;  // each row is one chunk, whose destination is the row; else destinations are slots
    uint64_t shared_elements;
    std::vector<Item> items;
    std::vector<uint32_t> dest;
    std::vector<uint32_t> index;  // of every element: local in the shared tiles, global in the gathered one
    std::vector<double> values;   // of every element
    std::vector<uint32_t> tile_item;  // first item of each tile, and one past the last
    std::vector<uint32_t> row_slot;   // first slot of each row, and one past the last; empty where direct
    std::vector<uint32_t> order;      // columns by popularity where the cut is by_count, else as they are
};

struct Entry {
    int64_t row, col;
    double value;
};

SlicedReference build_reference(const HostRows& matrix, const bb_plan& plan);

// y = A x, sums in double.
void reference_product(const SlicedReference& format, const double* x, double* y);

// What the format holds, without its padding, in order of rows and columns.
std::vector<Entry> decode(const SlicedReference& format);

}  // namespace bmrm
