#include <algorithm>
#include <cstring>
#include <set>

#include "formats/prepare.h"
#include "formats/rows_of.cuh"
#include "runtime/device_sort.cuh"

namespace bmrm {

namespace {

constexpr int kThreads = 256;

enum Fault { BAD_POINTER, BAD_COLUMN, UNSORTED, REPEATED, FAULTS };

__global__ void shift_pointers(int64_t* ptr, int64_t count, int64_t by) {
    BB_FOR (i, count) ptr[i] += by;
}

// A column past 32 bits becomes the largest one, which validation refuses.
__global__ void narrow_indices(const int64_t* from, int64_t count, uint32_t* to) {
    BB_FOR (i, count) to[i] = from[i] < 0 || from[i] > 0xFFFFFFFE ? 0xFFFFFFFFu : uint32_t(from[i]);
}

__global__ void check_pointers(const int64_t* ptr, int64_t rows, int64_t nnz, int* fault) {
    BB_FOR (r, rows)
        if (ptr[r + 1] < ptr[r] || (r == 0 && ptr[0] != 0) || (r == rows - 1 && ptr[rows] != nnz))
            fault[BAD_POINTER] = 1;
}

__global__ void check_columns(const uint32_t* col, const uint32_t* row, int64_t nnz, int64_t cols,
                              int* fault) {
    BB_FOR (i, nnz) {
        if (col[i] >= cols) fault[BAD_COLUMN] = 1;
        if (i > 0 && row[i] == row[i - 1] && col[i] <= col[i - 1])
            fault[col[i] < col[i - 1] ? UNSORTED : REPEATED] = 1;
    }
}

__global__ void sort_keys(const uint32_t* col, const uint32_t* row, int64_t nnz, uint64_t* key) {
    BB_FOR (i, nnz) key[i] = uint64_t(row[i]) << 32 | col[i];
}

__global__ void key_columns(const uint64_t* key, int64_t nnz, uint32_t* col) {
    BB_FOR (i, nnz) col[i] = uint32_t(key[i]);
}

__global__ void key_rows(const uint64_t* key, int64_t nnz, uint32_t* row) {
    BB_FOR (i, nnz) row[i] = uint32_t(key[i] >> 32);
}

// Copies n values, of `bytes` bytes each, from `position`.
void gather(Memory& memory, const Array<unsigned char>& from, const Array<uint32_t>& position, int64_t n,
            int bytes, unsigned char* to) {
    if (n == 0 || bytes == 0) return;
    with_stored(bytes, to, [&](auto* out) {
        using V = std::remove_pointer_t<decltype(out)>;
        pick<<<blocks_for(n), kThreads, 0, memory.stream>>>(reinterpret_cast<const V*>(from.data()),
                                                            position.data(), n, out);
        BB_CHECK(cudaGetLastError());
    });
}

Array<unsigned char> gathered(Memory& memory, const Array<unsigned char>& from,
                              const Array<uint32_t>& position, int bytes) {
    const int64_t n = position.size();
    Array<unsigned char> to(memory, bytes * n);
    gather(memory, from, position, n, bytes, to.data());
    return to;
}

template <class V>
__global__ void first_not_finite(const V* values, int64_t n, unsigned long long* first) {
    BB_FOR (i, n)
        if (!isfinite(values[i])) atomicMin(first, static_cast<unsigned long long>(i));
}

template <class V>
__global__ void not_one(const V* values, int64_t n, int* found) {
    BB_FOR (i, n)
        if (values[i] != V(1)) *found = 1;
}

constexpr int kMissing = 1024;

// Encodes values by bisection in the sorted dictionary; lists the values that it lacks, as many as fit.
template <class Bits>
__global__ void encode_values(const Bits* values, int64_t n, const Bits* dictionary, int size, uint8_t* codes,
                              Bits* missing, unsigned* missing_count) {
    __shared__ Bits table[256];
    for (int i = int(threadIdx.x); i < size; i += int(blockDim.x)) table[i] = dictionary[i];
    __syncthreads();
    BB_FOR (i, n) {
        const Bits v = values[i];
        int low = 0, high = size - 1;
        while (low < high) {
            const int middle = (low + high) / 2;
            if (table[middle] < v)
                low = middle + 1;
            else
                high = middle;
        }
        codes[i] = uint8_t(low);
        if (table[low] != v) {
            const unsigned at = atomicAdd(missing_count, 1u);
            if (at < kMissing) missing[at] = v;
        }
    }
}

// Finds the distinct values, if there are at most 256, in rounds: encode, then add what was missing.
template <class Bits>
bool encode_few(Memory& memory, Csr& a, ValueArray& coding) {
    const Bits* values = reinterpret_cast<const Bits*>(a.values.data());
    std::set<Bits> distinct;
    const int64_t sample = std::min<int64_t>(a.nnz, 4096);
    std::vector<Bits> some(static_cast<size_t>(sample));
    BB_CHECK(cudaMemcpyAsync(some.data(), values, size_t(sample) * sizeof(Bits), cudaMemcpyDefault,
                             memory.stream));
    BB_CHECK(cudaStreamSynchronize(memory.stream));
    distinct.insert(some.begin(), some.end());
    Array<uint8_t> codes(memory, a.nnz);
    Array<Bits> missing(memory, kMissing);
    Array<unsigned> count(memory, 1);
    while (distinct.size() <= 256) {
        std::vector<Bits> table(distinct.begin(), distinct.end());
        const int size = int(table.size());
        table.resize(256, Bits());
        const Array<Bits> dictionary = on_device(memory, table);
        count.fill_bytes(0);
        encode_values<<<std::min(blocks_for(a.nnz), 4096u), kThreads, 0, memory.stream>>>(
            values, a.nnz, dictionary.data(), size, codes.data(), missing.data(), count.data());
        BB_CHECK(cudaGetLastError());
        const unsigned lacking = count.at(0);
        if (lacking == 0) {
            coding.coding = BB_DICTIONARY;
            coding.dictionary = Array<unsigned char>(memory, 256 * int64_t(sizeof(Bits)));
            BB_CHECK(cudaMemcpyAsync(coding.dictionary.data(), dictionary.data(), 256 * sizeof(Bits),
                                     cudaMemcpyDefault, memory.stream));
            a.values = std::move(codes);
            return true;
        }
        std::vector<Bits> found = missing.to_host();
        found.resize(std::min<size_t>(lacking, kMissing));
        distinct.insert(found.begin(), found.end());
    }
    return false;
}

template <class V>
bool all_ones(Memory& memory, const Csr& a) {
    Array<int> found(memory, 1);
    found.fill_bytes(0);
    not_one<<<blocks_for(a.nnz), kThreads, 0, memory.stream>>>(reinterpret_cast<const V*>(a.values.data()),
                                                               a.nnz, found.data());
    BB_CHECK(cudaGetLastError());
    return found.at(0) == 0;
}

}  // namespace

void append_rows(Memory& memory, Uploader& uploader, Csr& to, int64_t filled_rows, int64_t filled,
                 int64_t rows, const int64_t* indptr, int64_t first, int64_t count, const void* indices,
                 int index_bytes, const void* values, int value_bytes) {
    uploader.copy(memory, to.ptr.data() + filled_rows, indptr, (rows + 1) * 8);
    if (filled != first) {
        shift_pointers<<<blocks_for(rows + 1), kThreads, 0, memory.stream>>>(to.ptr.data() + filled_rows,
                                                                             rows + 1, filled - first);
        BB_CHECK(cudaGetLastError());
    }
    if (count == 0) return;
    if (index_bytes == 4) {
        uploader.copy(memory, to.col.data() + filled, indices, count * 4);
    } else {
        Array<int64_t> wide(memory, count);
        uploader.copy(memory, wide.data(), indices, count * 8);
        narrow_indices<<<blocks_for(count), kThreads, 0, memory.stream>>>(wide.data(), count,
                                                                          to.col.data() + filled);
        BB_CHECK(cudaGetLastError());
    }
    if (value_bytes)
        uploader.copy(memory, to.values.data() + filled * value_bytes, values, count * value_bytes);
}

void append_listed(Memory& memory, Csr& to, int64_t filled_rows, int64_t filled, int64_t rows, int64_t nnz,
                   Array<uint64_t>& keys, const Array<unsigned char>& values, int value_bytes) {
    const Array<uint32_t> position = sort_with_positions(memory, keys, (uint64_t(rows) + 1) << 32);
    const unsigned blocks = blocks_for(nnz);
    Array<uint32_t> row(memory, nnz);
    key_rows<<<blocks, kThreads, 0, memory.stream>>>(keys.data(), nnz, row.data());
    key_columns<<<blocks, kThreads, 0, memory.stream>>>(keys.data(), nnz, to.col.data() + filled);
    int64_t* ptr = to.ptr.data() + filled_rows;
    first_of_each<<<blocks_for(nnz + 1), kThreads, 0, memory.stream>>>(row.data(), nnz, rows, ptr);
    if (filled) shift_pointers<<<blocks_for(rows + 1), kThreads, 0, memory.stream>>>(ptr, rows + 1, filled);
    BB_CHECK(cudaGetLastError());
    gather(memory, values, position, nnz, value_bytes, to.values.data() + filled * value_bytes);
}

void expect_finite(Memory& memory, bb_type type, const unsigned char* values, int64_t count) {
    Array<int64_t> first(memory, 1);
    first.fill_bytes(0xFF);
    by_type(type, [&](auto t) {
        using T = decltype(t);
        first_not_finite<<<std::min(blocks_for(count), 8192u), kThreads, 0, memory.stream>>>(
            reinterpret_cast<const T*>(values), count, reinterpret_cast<unsigned long long*>(first.data()));
    });
    const int64_t at = first.at(0);
    if (at < 0) return;
    by_type(type, [&](auto t) {
        using T = decltype(t);
        T value;
        BB_CHECK(cudaMemcpy(&value, reinterpret_cast<const T*>(values) + at, sizeof(T), cudaMemcpyDefault));
        const char* text = value != value ? "nan" : value > 0 ? "inf" : "-inf";
        throw Failure(BB_INVALID, std::string("X: stored value ") + text + " is not finite");
    });
}

void validate(Memory& memory, Csr& a, int value_bytes) {
    Array<int> faults(memory, FAULTS);
    faults.fill_bytes(0);
    check_pointers<<<blocks_for(a.rows), kThreads, 0, memory.stream>>>(a.ptr.data(), a.rows, a.nnz,
                                                                       faults.data());
    BB_CHECK(cudaGetLastError());
    if (faults.at(BAD_POINTER))
        throw Failure(BB_INVALID, "row pointers: expected to increase from 0 to the number of nonzeros");
    if (a.nnz == 0) return;
    for (int round = 0;; round++) {
        const Array<uint32_t> row = expand_rows(memory, a);
        faults.fill_bytes(0);
        check_columns<<<blocks_for(a.nnz), kThreads, 0, memory.stream>>>(a.col.data(), row.data(), a.nnz,
                                                                         a.cols, faults.data());
        BB_CHECK(cudaGetLastError());
        const std::vector<int> found = faults.to_host();
        if (found[BAD_COLUMN])
            throw Failure(BB_INVALID, "column indices: expected 0 to " + std::to_string(a.cols - 1));
        a.repeated = found[REPEATED] != 0;
        if (!found[UNSORTED] || round) return;
        Array<uint64_t> key(memory, a.nnz);
        sort_keys<<<blocks_for(a.nnz), kThreads, 0, memory.stream>>>(a.col.data(), row.data(), a.nnz,
                                                                     key.data());
        BB_CHECK(cudaGetLastError());
        const Array<uint32_t> position = sort_with_positions(memory, key, uint64_t(a.rows) << 32);
        key_columns<<<blocks_for(a.nnz), kThreads, 0, memory.stream>>>(key.data(), a.nnz, a.col.data());
        BB_CHECK(cudaGetLastError());
        a.values = gathered(memory, a.values, position, value_bytes);
    }
}

void encode(Memory& memory, Csr& a, ValueArray& coding) {
    if (coding.coding != BB_PLAIN || a.nnz == 0) return;
    const bool narrow = coding.type == BB_FLOAT32;
    if (narrow ? all_ones<float>(memory, a) : all_ones<double>(memory, a)) {
        coding.coding = BB_ONES;
        a.values.reset();
        return;
    }
    if (narrow)
        encode_few<uint32_t>(memory, a, coding);
    else
        encode_few<unsigned long long>(memory, a, coding);
}

Csr transpose(Memory& memory, const Csr& a, int value_bytes) {
    Csr out;
    out.rows = a.cols;
    out.cols = a.rows;
    out.nnz = a.nnz;
    out.repeated = a.repeated;
    Array<uint32_t> key(memory, a.nnz);
    BB_CHECK(cudaMemcpyAsync(key.data(), a.col.data(), size_t(a.nnz) * 4, cudaMemcpyDefault, memory.stream));
    const Array<uint32_t> position = sort_with_positions(memory, key, uint64_t(a.cols));
    out.ptr = firsts_of<int64_t>(memory, key, out.rows);
    key.reset();
    out.col = picked(memory, expand_rows(memory, a), position);
    out.values = gathered(memory, a.values, position, value_bytes);
    return out;
}

}  // namespace bmrm
