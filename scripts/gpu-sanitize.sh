#!/bin/sh
# On a machine with an NVIDIA GPU, after `make gpu-check`: runs the GPU tests under compute-sanitizer, to find invalid
# accesses, reads of uninitialised memory, and races in shared memory. The tools run one after the other, because
# side by side they would take turns on the GPU and each be several times slower. memcheck and initcheck take 5 to 15
# minutes on an H100, racecheck takes hours: the tests make a million launches, and each takes 10 ms. Each log ends
# with a summary, and the exit status is 0 if all are clean. `TOOLS="memcheck"` runs only that tool.
# Backtraces are off: to print those of Python, the tool keeps its frames alive, and with them vectors whose memory
# a test with a memory limit needs. Reports of API errors are off: the package checks every call, and tests request
# more memory than there is. Two tests are left out, because the tool itself loads the driver and sees hidden GPUs.
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
