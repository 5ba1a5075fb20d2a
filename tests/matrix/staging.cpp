// Products of blocks that stream through `Staging`, for test_staging.py: each product copies what it finds in
// the areas.
#include "runtime.cpp"
//
#include "device_memory.cu"
#include "runtime/graph.h"
#include "runtime/staging.h"

namespace {

constexpr int kBlocks = 5, kProducts = 3;
constexpr int64_t kBytes = 64;

struct Blocks {
    Blocks() {
        BB_CHECK(cudaMallocHost(&values, size_t(kBlocks * kBytes)));
        for (int i = 0; i < kBlocks; i++) memset(values + i * kBytes, 1 + i, size_t(kBytes));
    }
    ~Blocks() { cudaFreeHost(values); }
    unsigned char* values = nullptr;
};

void multiply(bmrm::Staging& staging, const Blocks& blocks, unsigned char* out, cudaStream_t stream) {
    constexpr int kAreas = bmrm::Staging::kAreas;
    const auto send = [&](int i) { staging.send(i % kAreas, blocks.values + i * kBytes, kBytes); };
    staging.begin(stream);
    for (int i = 0; i < kAreas; i++) send(i);
    for (int i = 0; i < kBlocks; i++) {
        staging.await(i % kAreas, stream);
        BB_CHECK(cudaMemcpyAsync(out + i * kBytes, staging.area(i % kAreas), size_t(kBytes),
                                 cudaMemcpyDefault, stream));
        if (i + kAreas >= kBlocks) continue;
        staging.release(i % kAreas, stream);
        send(i + kAreas);
    }
}

}  // namespace

// Returns the number of wrong bytes of some products; -1 after a failure.
extern "C" __attribute__((visibility("default"))) int wrong_bytes(int ahead, int captured) {
    emulator_configure(1, 9, 0, 3, 1 << 20, 227 << 10);
    emulator_run_ahead(ahead);
    try {
        const Blocks blocks;
        bmrm::Memory memory(0);
        bmrm::Staging staging;
        staging.reserve(memory, kBytes);
        bmrm::Array<unsigned char> out(memory, kProducts * kBlocks * kBytes), last(memory, kBlocks * kBytes);
        bmrm::Graph graph;
        if (captured)
            graph.capture(memory.stream, [&] { multiply(staging, blocks, last.data(), memory.stream); });
        for (int k = 0; k < kProducts; k++) {
            if (captured)
                graph.launch(memory.stream);
            else
                multiply(staging, blocks, last.data(), memory.stream);
            BB_CHECK(cudaMemcpyAsync(out.data() + k * last.bytes(), last.data(), size_t(last.bytes()),
                                     cudaMemcpyDefault, memory.stream));
        }
        int wrong = 0;
        const std::vector<unsigned char> found = out.to_host();
        for (size_t i = 0; i < found.size(); i++) wrong += found[i] != 1 + i / kBytes % kBlocks;
        memory.settle();
        return wrong;
    } catch (const bmrm::Failure& failure) {
        fprintf(stderr, "%s\n", failure.what());
        cudaDeviceSynchronize();
        return -1;
    }
}
