#!/bin/sh
# Installs the wheel in dist/, and runs a part of the tests with it and the oldest or the newest Python, NumPy, SciPy and
# other packages that pyproject.toml supports; nothing is compiled:
#
#   versions.sh oldest    the lowest Python of the classifiers, and the lowest release of each requirement
#   versions.sh newest    the highest of these Pythons that is installed, and the latest release of each requirement
#
# The environments are in build/oldest and build/newest, and are made again if the requirements have changed. If no
# suitable Python is found, a line says so.
set -eu
cd "$(dirname "$0")/.."

which=$1
python=${PYTHON:-python3}
venv=build/$which

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
    [ -n "$found" ] || found=$(scripts/find-python.sh "$minor")
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
    for extra in ("sklearn", "reductions", "arrow", "networkx"):
        needed += project["optional-dependencies"][extra]
    needed = [re.sub(r"^([\w-]+)>=([\d.]+)$", r"\1==\2.*", requirement) for requirement in needed]
print(*needed, *project["optional-dependencies"]["test"])
PY
)

stamp=$venv/$(cat pyproject.toml scripts/versions.sh | cksum | cut -d ' ' -f 1).stamp
if [ ! -e "$stamp" ]; then
    rm -rf "$venv"
    "$found" -m venv "$venv"
    # shellcheck disable=SC2086
    "$venv/bin/python" -m pip --disable-pip-version-check install -q $requirements
    touch "$stamp"
fi
"$venv/bin/python" -m pip --disable-pip-version-check install -q --no-deps --force-reinstall dist/bmrm-[0-9]*.whl
"$venv/bin/python" -c '
import sys, numpy, scipy, bmrm
print(f"versions: Python {sys.version.split()[0]}, NumPy {numpy.__version__}, SciPy {scipy.__version__}")'
cd tests
exec "../$venv/bin/python" -m pytest -q -n 2 --dist worksteal -p no:cacheprovider $(cat ../scripts/version-tests.txt)
