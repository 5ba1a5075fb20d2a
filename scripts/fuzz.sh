#!/bin/sh
# Builds the extensions for the sanitizers of addresses and undefined behaviour, into a folder of their own, and reads
# files there that are damaged at random: for FUZZ_SECONDS, ten minutes where it is not set, and by FUZZ_SEED, a new
# one where it is not set. The exit status is 0 where nothing was found. What fails is in the folder fuzz-failures, and
# the line that replays it is for FUZZ_REPLAY=SEED:CASE, which runs that case alone.
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
folder=build/sanitized
BMRM_SANITIZE=1 BMRM_CUDA=off "$python" setup.py -q build_py --build-lib "$folder" \
    build_ext --build-lib "$folder" --build-temp "$folder-objects" >/dev/null

# The sanitizer has to come first into a process that was not built for it, and to know of C++'s exceptions. Python
# frees little at its end, so leaks are not looked for; its own allocator would hide faults from the sanitizer.
preload=$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libstdc++.so)
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:allocator_may_return_null=1:handle_segv=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export PYTHONMALLOC=malloc PYTHONPATH="$folder" LD_PRELOAD="$preload"
if [ -n "${FUZZ_REPLAY:-}" ]; then
    exec "$python" scripts/fuzz.py --replay "$FUZZ_REPLAY"
fi
exec "$python" scripts/fuzz.py --seconds "${FUZZ_SECONDS:-600}" ${FUZZ_SEED:+--seed "$FUZZ_SEED"}
