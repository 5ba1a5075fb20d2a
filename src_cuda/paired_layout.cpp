#include "paired_layout.h"

#include <algorithm>

namespace bmrm {

PairedSlices pack_chunks(const uint32_t* lengths, size_t count, bool empty_too, PairedPlace* places) {
    struct Chunk {
        uint32_t log2, quads, number;
    };
    std::vector<Chunk> chunks;
    chunks.reserve(count);
    for (size_t i = 0; i < count; i++) {
        if (lengths[i] == 0 && !empty_too) continue;
        uint32_t log2 = 0;
        while (lengths[i] > uint32_t(kPairedCap) << log2) log2++;
        const uint32_t steps = (lengths[i] + (1u << log2) - 1) >> log2;
        chunks.push_back({log2, (steps + 3) / 4, uint32_t(i)});
    }
    std::stable_sort(chunks.begin(), chunks.end(), [](const Chunk& a, const Chunk& b) {
        return a.log2 != b.log2 ? a.log2 > b.log2 : a.quads > b.quads;
    });
    PairedSlices out;
    size_t lane = 32;
    uint32_t first = 0, most = 0;  // of the slice: row of quads, quads
    const auto close = [&] {
        if (!out.shape.empty()) out.shape.back() |= most << 16;
        out.quads += most;
    };
    for (const Chunk& chunk : chunks) {
        if (lane == 32) {
            close();
            first = out.quads;
            most = 0;
            lane = 0;
            out.shape.push_back(first | chunk.log2 << 24);
            out.dest.resize(out.dest.size() + 32, kPairedNowhere);
        }
        most = std::max(most, chunk.quads);
        places[chunk.number] = {first * 128, uint16_t(lane), uint16_t(chunk.log2)};
        const auto to = uint16_t(chunk.number | chunk.log2 << kPairedLog2Bit);
        std::fill_n(out.dest.end() - 32 + std::ptrdiff_t(lane), size_t(1) << chunk.log2, to);
        lane += size_t(1) << chunk.log2;
    }
    close();
    return out;
}

}  // namespace bmrm
