#!/bin/sh
# Builds the package and runs a part of the tests with the oldest or the newest Python, NumPy, SciPy and other
# packages that pyproject.toml supports:
#
#   versions.sh oldest    the lowest Python of the classifiers, and the lowest release of each requirement
#   versions.sh newest    the highest of these Pythons that is installed, and the latest release of each requirement
#
# The environments are in build/oldest and build/newest, and are made again if the sources have changed. If no
# suitable Python is found, a line says so.
set -eu
cd "$(dirname "$0")/.."

which=$1
python=${PYTHON:-python3}
venv=build/$which

# pyenv has shims for versions that it cannot start, and Debian has Pythons without venv.
starts() { "$1" -c "import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, $2))" >/dev/null 2>&1; }

promised=$(sed -n 's/.*"Programming Language :: Python :: 3\.\([0-9]*\)".*/\1/p' pyproject.toml | sort -n)
if [ "$which" = oldest ]; then
    minors=$(echo "$promised" | head -1)
else
    own=$("$python" -c 'import sys; print(sys.version_info.minor)')
    minors=$(echo "$promised" | sort -rn | awk -v own="$own" '$1 > own')
fi
if [ -z "$minors" ]; then
    echo "versions: $("$python" -V) is the newest supported one" >&2
    exit 0
fi
found=
for minor in $minors; do
    for candidate in "$python" "python3.$minor" "$HOME/.pyenv/versions/3.$minor".*/bin/python; do
        [ -n "$found" ] || ! starts "$candidate" "$minor" || found=$candidate
    done
done
if [ -z "$found" ]; then
    echo "versions: SKIPPED the $which: found no Python 3.$(echo "$minors" | xargs | sed 's/ / or 3./g')" >&2
    exit 0
fi

# The package's requirements in their lowest or latest releases, and the latest compatible ones of the tests.
requirements=$("$found" - "$which" <<'PY'
import re, sys, tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
needed = project["dependencies"]
if sys.argv[1] == "oldest":
    needed += project["optional-dependencies"]["sklearn"]
    needed = [re.sub(r"^([\w-]+)>=([\d.]+)$", r"\1==\2.*", requirement) for requirement in needed]
print(*needed, *project["optional-dependencies"]["test"])
PY
)

stamp=$venv/$(cat pyproject.toml setup.py scripts/versions.sh $(find bmrm building src_common src_cython -type f ! -name '*.so' ! -path '*/__pycache__/*' | sort) |
    cksum | cut -d ' ' -f 1).stamp
if [ ! -e "$stamp" ]; then
    rm -rf "$venv"
    "$found" -m venv "$venv"
    # shellcheck disable=SC2086
    "$venv/bin/python" -m pip --disable-pip-version-check install -q $requirements
    # From a copy, because files of another build in build/lib would go into the wheel.
    mkdir "$venv/source"
    cp -r bmrm building src_common src_cython src_cuda setup.py pyproject.toml MANIFEST.in README.md LICENSE "$venv/source"
    BMRM_CUDA=off "$venv/bin/python" -m pip --disable-pip-version-check install -q --no-deps "$venv/source"
    rm -r "$venv/source"
    touch "$stamp"
fi
"$venv/bin/python" -c '
import sys, numpy, scipy, bmrm
print(f"versions: Python {sys.version.split()[0]}, NumPy {numpy.__version__}, SciPy {scipy.__version__}")'
cd tests
exec "../$venv/bin/python" -m pytest -q -n 2 -p no:cacheprovider $(cat ../scripts/version-tests.txt)
