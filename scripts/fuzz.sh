#!/bin/sh
# Builds the extensions with the address and undefined-behaviour sanitizers, in a separate folder, and reads randomly
# damaged files with them: for FUZZ_SECONDS (default: ten minutes), with FUZZ_SEED (default: a new seed). The exit
# status is 0 if nothing was found. Failing inputs are in the folder fuzz-failures; FUZZ_REPLAY=SEED:CASE runs one
# case again.
set -eu
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
folder=build/sanitized
BMRM_SANITIZE=1 BMRM_CUDA=off "$python" setup.py -q build_py --build-lib "$folder" \
    build_ext --build-lib "$folder" --build-temp "$folder-objects" >/dev/null

# In a process that was not built for it, the sanitizer must be loaded first, together with C++'s exceptions. Python
# frees little at its end, so leak detection is off; Python's own allocator would hide errors from the sanitizer.
preload=$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libstdc++.so)
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:allocator_may_return_null=1:handle_segv=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export PYTHONMALLOC=malloc PYTHONPATH="$folder" LD_PRELOAD="$preload"
if [ -n "${FUZZ_REPLAY:-}" ]; then
    exec "$python" scripts/fuzz.py --replay "$FUZZ_REPLAY"
fi
exec "$python" scripts/fuzz.py --seconds "${FUZZ_SECONDS:-600}" ${FUZZ_SEED:+--seed "$FUZZ_SEED"}
