#!/bin/sh
# On a machine with an NVIDIA GPU, after `make gpu-check`: the GPU tests under compute-sanitizer, for bad accesses,
# reads of memory that nothing wrote, and races in shared memory. One tool after the other, for side by side they
# take turns on the GPU and each is some times slower: memcheck and initcheck take 5 to 15 minutes on an H100,
# racecheck hours, for the tests make a million launches, each of which takes it 10 ms. Each log ends with its
# verdict, and the exit status is 0 where all are clean. `TOOLS="memcheck"` runs that one alone.
# Without backtraces: to print those of Python the tool keeps its frames, and with them vectors that a test under a
# memory limit needs back. Without what the runtime answers, too: it is checked at every call, and tests ask for more
# memory than there is. Two tests are left out, for the tool itself loads the driver, and hides no GPU from it.
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
logs=${LOGS:-build/sanitizer}
mkdir -p "$logs"
export PYTHONPATH="$PWD"

failed=0
for tool in ${TOOLS:-memcheck initcheck racecheck}; do
    verdict=clean
    compute-sanitizer --tool "$tool" --target-processes all --show-backtrace no --report-api-errors no \
        --error-exitcode 9 --print-limit 20 \
        "$python" -m pytest -q -p no:cacheprovider $(cat scripts/gpu-tests.txt) \
        --deselect tests/matrix/test_cuda.py::test_without_a_device_the_error_suggests_a_solution \
        --deselect tests/matrix/test_cuda.py::test_import_touches_no_driver >"$logs/$tool.log" 2>&1 || verdict="NOT clean"
    [ "$verdict" = clean ] || failed=1
    echo "$tool: $verdict, $(grep -c "========= ERROR SUMMARY" "$logs/$tool.log") process(es), log in $logs"
    grep -h "========= ERROR SUMMARY\|passed\|failed" "$logs/$tool.log" | sort | uniq -c | tail -4
done
exit "$failed"
