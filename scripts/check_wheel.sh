#!/bin/sh
# Checks the wheel in dist/: its name, which docs/install.md has too, its size, and that it works where nothing else is.
# For each Python that is found it goes into empty environments with the oldest NumPy and SciPy and with the newest, and
# scripts/check_wheel.py runs there.
set -eu
cd "$(dirname "$0")/.."

max_bytes=4500000
oldest="numpy==1.26.* scipy==1.12.* pyarrow==15.*"  # pyarrow 26 needs NumPy 2
folder=$PWD/build/check-wheel

wheel=$(ls dist/bmrm-[0-9]*.whl)
named=dist/$(sed -n 's/^ *pip install \(bmrm-.*\.whl\)$/\1/p' docs/install.md)
if [ "$wheel" != "$named" ]; then
    echo "check-wheel: found $wheel, expected $named alone, which docs/install.md names" >&2
    exit 1
fi
bytes=$(stat -c %s "$wheel")
if [ "$bytes" -gt $max_bytes ]; then
    echo "check-wheel: found $bytes bytes, expected at most $max_bytes" >&2
    exit 1
fi
echo "check-wheel: $wheel, $bytes bytes"

# check MINOR REQUIREMENTS...
check() {
    python=$(scripts/find-python.sh "$1")
    if [ -z "$python" ]; then
        echo "check-wheel: SKIPPED Python 3.$1: not found"
        return
    fi
    shift
    rm -rf "$folder"
    "$python" -m venv "$folder"
    "$folder/bin/python" -m pip --disable-pip-version-check install -q "$wheel[arrow,plot,sklearn]" "$@"
    mkdir "$folder/empty"
    (cd "$folder/empty" && PATH="$folder/bin:$PATH" "$folder/bin/python" "$folder/../../scripts/check_wheel.py")
}

for minor in 11 12; do
    # shellcheck disable=SC2086  # the list is meant to split
    check $minor $oldest
done
for minor in 11 12 13; do
    check $minor
done
rm -rf "$folder"
