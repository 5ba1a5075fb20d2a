"""The kernels that the benchmarks of pairs compare with (``benchmarks/pairs/paper.cu``), on the emulator."""

import ctypes
import importlib
import shutil

import compiled
import numpy as np
import pytest

emulated_text = importlib.import_module("building.emulated")

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
SHIM = "tests/emulator/warps.h"
BEGIN = """
#include <algorithm>
using std::min;
namespace emulator {
template <class T>
T* dynamic_shared() {
    return reinterpret_cast<T*>(dynamic_bytes);
}
}
"""
END = """
template <int SOURCE, int OUTPUT, bool BALANCED>
void launch(const Points& p, int n, int threads, float scale, int bins, int part, unsigned long long* out) {
    const int blocks = (n + threads - 1) / threads;
    unsigned* const copies = new unsigned[size_t(blocks) * bins];
    emulator::run(dim3(blocks), dim3(threads), 4 * bins + 24 * threads, false, [&] {
        two_body<SOURCE, OUTPUT, BALANCED>(p.x, p.y, p.z, n, scale, bins, part, out, copies);
    });
    if (OUTPUT == PRIVATE)
        emulator::run(dim3((bins + 31) / 32), dim3(32), 0, false,
                      [&] { add_copies(copies, blocks, bins, out); });
    delete[] copies;
}
template <int OUTPUT, bool BALANCED, int... SOURCE>
void launch_one(int source, const Points& p, int n, int threads, float scale, int bins, int part,
                unsigned long long* out) {
    const auto call = [&](auto one) { one(p, n, threads, scale, bins, part, out); };
    (void)((source == SOURCE ? call(launch<SOURCE, OUTPUT, BALANCED>) : void()), ...);
}
extern "C" __attribute__((visibility("default"))) void run_two_body(
    int source, int output, int balanced, const float* at, int n, int threads, float scale, int bins,
    int part, unsigned long long* out) {
    const Points p = {at, at + n, at + 2 * n};
    const auto call = [&](auto one) { one(source, p, n, threads, scale, bins, part, out); };
    if (output == COUNT) call(launch_one<COUNT, false, 0, 1, 2, 3, 4>);
    if (output == GLOBAL) call(launch_one<GLOBAL, false, 0, 1, 2, 3, 4>);
    if (output == PRIVATE && !balanced) call(launch_one<PRIVATE, false, 0, 1, 2, 3, 4>);
    if (output == PRIVATE && balanced) call(launch_one<PRIVATE, true, 0, 1, 2, 3, 4>);
}
extern "C" __attribute__((visibility("default"))) void run_plain(
    int output, const float* at, int n, float scale, int bins, unsigned long long* out) {
    const dim3 grid((n + 1023) / 1024, 2);
    const float4* const points = reinterpret_cast<const float4*>(at);
    emulator::run(grid, dim3(256), 4 * bins, false, [&] {
        const auto kernel = output == COUNT ? plain<COUNT> : plain<PRIVATE>;
        kernel(points, n, scale, bins, out);
    });
}
"""


@pytest.fixture(scope="module")
def library():
    text = (compiled.ROOT / "benchmarks" / "pairs" / "paper.cu").read_text()
    options = [*compiled.FOR_EMULATOR, "-ffp-contract=off", "-include", SHIM]
    return ctypes.CDLL(str(compiled.library_of_text(BEGIN + emulated_text.in_cpp(text) + END, options)))


def address(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def squares(x):
    """Squared distances as the kernels round them, in float32."""
    total = np.zeros((x.shape[1],) * 2, np.float32)
    for axis in x:
        d = axis[:, None] - axis[None]
        total = total + d * d
    return total


def bins_of(d2, scale, bins):
    place = np.minimum((np.sqrt(d2) * np.float32(scale)).astype(int), bins - 1)
    return np.bincount(place.ravel(), minlength=bins).tolist()


@pytest.mark.parametrize("n", [1, 64, 150])
@pytest.mark.parametrize("source", range(5))
@pytest.mark.parametrize(("output", "balanced"), [(0, 0), (1, 0), (2, 0), (2, 1)])
@pytest.mark.parametrize("part", [0, 1])
def test_kernels_of_the_paper_count_each_pair_once(library, n, source, output, balanced, part):
    x = np.random.default_rng(n).random((3, n), np.float32)
    bins, threads, scale = (1, 64, 0.3) if output == 0 else (20, 64, 10.0)
    found = np.zeros(bins, np.uint64)
    library.run_two_body(
        source, output, balanced, address(x), n, threads, ctypes.c_float(scale), bins, part, address(found)
    )
    i, j = np.triu_indices(n, 1)
    mine = i // threads == j // threads if part else np.ones(len(i), bool)
    d2 = squares(x)[i[mine], j[mine]]
    expected = [int((d2 < np.float32(scale)).sum())] if output == 0 else bins_of(d2, scale, bins)
    assert found.tolist() == expected


@pytest.mark.parametrize("output", [0, 2])
def test_plain_kernels_count_all_pairs(library, output):
    n, bins, scale = 1024, 1 if output == 0 else 30, 0.3 if output == 0 else 15.0
    x = np.random.default_rng(0).random((n, 4), np.float32)
    found = np.zeros(bins, np.uint64)
    library.run_plain(output, address(x), n, ctypes.c_float(scale), bins, address(found))
    d2 = squares(np.ascontiguousarray(x[:, :3].T))
    expected = [int((d2 < np.float32(scale)).sum())] if output == 0 else bins_of(d2, scale, bins)
    assert found.tolist() == expected
