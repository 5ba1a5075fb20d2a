#include "fused/paired_layout.h"

#include <algorithm>
#include <cstring>

namespace bmrm {

namespace {

int64_t units(int64_t bytes) { return (bytes + kPairedUnit - 1) / kPairedUnit; }

template <class T>
unsigned char* put(unsigned char* at, const std::vector<T>& what) {
    std::memcpy(at, what.data(), what.size() * sizeof(T));
    return at + what.size() * sizeof(T);
}

// Adds a stretch at the end.
void add_stretch(PairedImage& image, const PairedSizes& sizes, const PairedSlices (&phases)[2]) {
    PairedStretch own;
    for (int k = 0; k < 2; k++) {
        own.slices[k] = uint32_t(phases[k].shape.size());
        own.quads[k] = phases[k].quads;
        image.most_slices = std::max(image.most_slices, own.slices[k]);
    }
    // Before the values is one for padding.
    const int64_t values = sizes.value_bytes ? kPairedUnit + own.quads[0] * 128 * sizes.value_bytes : 0;
    const int64_t size = units(own.values_at(uint32_t(sizes.index_bytes)) + values) * kPairedUnit;
    image.largest = std::max(image.largest, size);
    image.first.push_back(uint32_t(image.bytes.size() / kPairedUnit));
    image.bytes.resize(image.bytes.size() + size_t(size));
    unsigned char* to = image.bytes.data() + image.bytes.size() - size;
    std::memcpy(to, &own, sizeof own);
    put(put(to + sizeof own, phases[0].shape), phases[1].shape);
    put(put(to + own.dest_at(), phases[0].dest), phases[1].dest);
}

}  // namespace

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

PairedImage lay_out(const PairedSizes& sizes, const int64_t* row_ptr, const uint32_t* start) {
    const int64_t count = sizes.stretches();
    PairedImage image;
    image.bytes.reserve(size_t(row_ptr[sizes.rows] * (sizes.value_bytes + sizes.index_bytes + 2) * 3 / 2));
    image.rows.resize(size_t(sizes.rows));
    image.columns.resize(size_t(sizes.columns * count));
    for (int64_t g = 0; g < count; g++) {
        const int64_t first = g * sizes.stretch, end = std::min(first + sizes.stretch, sizes.rows);
        std::vector<uint32_t> of_rows, of_columns;
        for (int64_t r = first; r < end; r++) of_rows.push_back(uint32_t(row_ptr[r + 1] - row_ptr[r]));
        for (int64_t c = 0; c < sizes.columns; c++) {
            const uint32_t* at = start + c * (count + 1) + g;
            of_columns.push_back(at[1] - at[0]);
        }
        PairedPlace *rows = &image.rows[size_t(first)], *columns = &image.columns[size_t(g * sizes.columns)];
        add_stretch(image, sizes,
                    {pack_chunks(of_rows.data(), of_rows.size(), true, rows),
                     pack_chunks(of_columns.data(), of_columns.size(), false, columns)});
    }
    image.first.push_back(uint32_t(image.bytes.size() / kPairedUnit));
    return image;
}

}  // namespace bmrm
