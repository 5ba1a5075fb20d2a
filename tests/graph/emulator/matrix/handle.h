// A matrix of compressed rows in place of the resident one.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "api/blackbox.h"
#include "runtime/device_memory.h"

namespace bmrm {

struct Bridge {
    void fetch(Memory&, bb_type, const void* from, int64_t count, double* to) {
        memcpy(to, from, size_t(count) * sizeof(double));
    }
};

}  // namespace bmrm

struct bb_matrix {
    bb_matrix(int64_t n, int64_t cols, const int64_t* ptr, const int32_t* idx, const double* val,
              bb_type type)
        : type(type), ptr(ptr, ptr + n + 1), idx(idx, idx + ptr[n]), n_(n), cols_(cols) {
        if (val) this->val.assign(val, val + ptr[n]);
    }

    struct {
        int id = 0;
    } device;
    bmrm::Memory memory{0};
    bmrm::Bridge bridge;
    const bb_type type;
    bool finished = true;
    std::vector<int64_t> ptr;
    std::vector<int32_t> idx;
    std::vector<double> val;

    int64_t rows() const { return n_; }
    int64_t cols() const { return cols_; }
    void apply(bb_operator op, const void* x, void* y, int columns) const {
        if (type == BB_FLOAT32)
            multiply(op, static_cast<const float*>(x), static_cast<float*>(y), columns);
        else
            multiply(op, static_cast<const double*>(x), static_cast<double*>(y), columns);
    }

  private:
    template <class T>
    void multiply(bb_operator op, const T* x, T* y, int columns) const {
        std::fill_n(y, (op == BB_NORMAL ? n_ : cols_) * columns, T(0));
        for (int64_t i = 0; i < n_; i++)
            for (int64_t e = ptr[size_t(i)]; e < ptr[size_t(i) + 1]; e++)
                for (int k = 0; k < columns; k++) {
                    const int64_t j = idx[size_t(e)], from = op == BB_NORMAL ? j : i,
                                  to = op == BB_NORMAL ? i : j;
                    y[to * columns + k] += T(val.empty() ? 1.0 : val[size_t(e)]) * x[from * columns + k];
                }
    }

    const int64_t n_, cols_;
};

namespace bmrm {

template <class Body>
bb_status on_matrix(bb_matrix* matrix, Body&& body) noexcept {
    return guarded([&] {
        if (!matrix) throw Failure(BB_INVALID, "no matrix");
        body();
    });
}

}  // namespace bmrm
