#!/bin/sh
# On a machine with an NVIDIA GPU, after `make gpu-check`: the GPU tests under compute-sanitizer, for bad accesses,
# races in shared memory and reads of memory that nothing wrote. The three run side by side; each log ends with its
# verdict, and the exit status is 0 where all three are clean. Without backtraces: to print those of Python the tool
# keeps its frames, and with them vectors that a test under a memory limit needs back. Without what the runtime
# answers, too: it is checked at every call, and tests ask for more memory than there is.
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
logs=${LOGS:-build/sanitizer}
mkdir -p "$logs"
export PYTHONPATH="$PWD"

running=
for tool in memcheck racecheck initcheck; do
    compute-sanitizer --tool "$tool" --target-processes all --show-backtrace no --report-api-errors no \
        --error-exitcode 9 --print-limit 20 \
        "$python" -m pytest -q -p no:cacheprovider $(cat scripts/gpu-tests.txt) >"$logs/$tool.log" 2>&1 &
    running="$running $tool:$!"
done
failed=0
for one in $running; do
    if wait "${one#*:}"; then verdict=clean; else verdict="NOT clean"; failed=1; fi
    echo "${one%%:*}: $verdict, $(grep -c "========= ERROR SUMMARY" "$logs/${one%%:*}.log") process(es), log in $logs"
    grep -h "========= ERROR SUMMARY\|passed\|failed" "$logs/${one%%:*}.log" | sort | uniq -c | tail -4
done
exit "$failed"
