// A 64-bit checksum at memory speed. It detects damage, not malice.
//
// Eight lanes of xor and multiplication by an odd constant: each step is a bijection of the lane, so a change
// confined to one word of a lane is always detected. Lanes and pieces of fixed size are then mixed (the
// finaliser of MurmurHash3) in order, so the checksum does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "common/hash.h"
#include "text/bytes.h"
#include "text/parallel.h"

namespace svmlight {

using namespace text;

inline uint64_t checksum_piece(const unsigned char* p, size_t size) {
    constexpr int kLanes = 8;
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15u;
    uint64_t lanes[kLanes] = {1, 2, 3, 4, 5, 6, 7, 8};
    const auto round = [&lanes](const unsigned char* from) {
        uint64_t words[kLanes];
        std::memcpy(words, from, sizeof words);
        for (int j = 0; j < kLanes; ++j) lanes[j] = (lanes[j] ^ words[j]) * kOdd;
    };
    size_t i = 0;
    for (; size - i >= sizeof lanes; i += sizeof lanes) round(p + i);
    unsigned char rest[sizeof lanes] = {};
    if (i < size) std::memcpy(rest, p + i, size - i);  // with no bytes the pointer may be null
    round(rest);
    uint64_t sum = bmrm::mixed(size);
    for (const uint64_t lane : lanes) sum = bmrm::mixed(sum * kOdd ^ lane);
    return sum;
}

// The checksum of `size` bytes. `fill`, called with offset and size, brings each piece before it is read. If
// `indices` is set, the bytes are int32 numbers, and *in_range is set to whether all are in [0, columns),
// which costs little here.
template <class Fill>
uint64_t checksum(const unsigned char* p, size_t size, int threads, bool indices, uint32_t columns,
                  bool* in_range, const Fill& fill) {
    constexpr size_t kPiece = size_t{1} << 18;
    std::vector<uint64_t> sums((size + kPiece - 1) / kPiece);
    std::atomic<bool> good{true};
    for_each(sums.size(), threads, nullptr, [&](size_t i) {
        const unsigned char* const piece = p + i * kPiece;
        const size_t bytes = std::min(kPiece, size - i * kPiece);
        fill(i * kPiece, bytes);
        sums[i] = checksum_piece(piece, bytes);
        if (!indices) return;
        uint32_t beyond = 0;
        for (size_t k = 0; k + 4 <= bytes; k += 4) {
            uint32_t index;
            std::memcpy(&index, piece + k, 4);
            beyond |= index >= columns;
        }
        if (beyond) good = false;
    });
    *in_range = good;
    return checksum_piece(reinterpret_cast<const unsigned char*>(sums.data()),
                          sums.size() * sizeof(uint64_t));
}

inline uint64_t checksum(const unsigned char* p, size_t size, int threads, bool indices, uint32_t columns,
                         bool* in_range) {
    return checksum(p, size, threads, indices, columns, in_range, [](size_t, size_t) {});
}

// The checksum of the bytes of a file at `offset`, which are read into p on the way.
inline uint64_t read_checked(int descriptor, size_t offset, unsigned char* p, size_t size, int threads,
                             bool indices, uint32_t columns, bool* in_range) {
    return checksum(p, size, threads, indices, columns, in_range, [&](size_t at, size_t bytes) {
        read_at(descriptor, reinterpret_cast<char*>(p) + at, bytes, offset + at);
    });
}

}  // namespace svmlight
