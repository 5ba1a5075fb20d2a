#include <thrust/iterator/counting_iterator.h>

#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

#include "runtime/device_sort.cuh"

namespace bmrm {

Array<uint32_t> positions_of(Memory& memory, const Array<uint8_t>& flags) {
    const int64_t n = flags.size();
    Array<uint32_t> out(memory, n);
    Array<int64_t> count(memory, 1);
    size_t bytes = 0;
    const thrust::counting_iterator<uint32_t> all(0);
    BB_CHECK(cub::DeviceSelect::Flagged(nullptr, bytes, all, flags.data(), out.data(), count.data(), n,
                                        memory.stream));
    Array<unsigned char> scratch(memory, int64_t(bytes));
    BB_CHECK(cub::DeviceSelect::Flagged(scratch.data(), bytes, all, flags.data(), out.data(), count.data(), n,
                                        memory.stream));
    Array<uint32_t> found(memory, count.at(0));
    BB_CHECK(cudaMemcpyAsync(found.data(), out.data(), size_t(found.bytes()), cudaMemcpyDeviceToDevice,
                             memory.stream));
    return found;
}

template <class Count>
Array<Count> offsets_of(Memory& memory, const Array<Count>& counts) {
    const int64_t n = counts.size();
    Array<Count> out(memory, n + 1);
    BB_CHECK(cudaMemsetAsync(out.data(), 0, sizeof(Count), memory.stream));
    if (n == 0) return out;
    size_t bytes = 0;
    BB_CHECK(cub::DeviceScan::InclusiveSum(nullptr, bytes, counts.data(), out.data() + 1, n, memory.stream));
    Array<unsigned char> scratch(memory, int64_t(bytes));
    BB_CHECK(cub::DeviceScan::InclusiveSum(scratch.data(), bytes, counts.data(), out.data() + 1, n,
                                           memory.stream));
    return out;
}

template Array<uint32_t> offsets_of(Memory&, const Array<uint32_t>&);
template Array<int64_t> offsets_of(Memory&, const Array<int64_t>&);

void running_maximum(Memory& memory, const Array<uint32_t>& numbers, Array<uint32_t>& to) {
    const int64_t n = numbers.size();
    size_t bytes = 0;
    BB_CHECK(cub::DeviceScan::InclusiveScan(nullptr, bytes, numbers.data(), to.data(), cuda::maximum<>{}, n,
                                            memory.stream));
    Array<unsigned char> scratch(memory, int64_t(bytes));
    BB_CHECK(cub::DeviceScan::InclusiveScan(scratch.data(), bytes, numbers.data(), to.data(),
                                            cuda::maximum<>{}, n, memory.stream));
}

int64_t count_runs(Memory& memory, const Array<uint64_t>& keys, Array<uint64_t>& distinct,
                   Array<uint32_t>& counts) {
    Array<int64_t> found(memory, 1);
    size_t bytes = 0;
    BB_CHECK(cub::DeviceRunLengthEncode::Encode(nullptr, bytes, keys.data(), distinct.data(), counts.data(),
                                                found.data(), keys.size(), memory.stream));
    Array<unsigned char> scratch(memory, int64_t(bytes));
    BB_CHECK(cub::DeviceRunLengthEncode::Encode(scratch.data(), bytes, keys.data(), distinct.data(),
                                                counts.data(), found.data(), keys.size(), memory.stream));
    return found.at(0);
}

}  // namespace bmrm
