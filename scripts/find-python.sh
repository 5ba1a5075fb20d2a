#!/bin/sh
# Prints an interpreter of Python 3.MINOR that can make environments, or nothing if there is none:
#
#   find-python.sh MINOR
#
# PYTHON is tried first, then PATH and pyenv.
minor=$1
for candidate in "${PYTHON:-python3}" "python3.$minor" "$HOME/.pyenv/versions/3.$minor".*/bin/python; do
    # pyenv has shims for versions that it cannot start, and Debian has Pythons without venv.
    if "$candidate" -c "import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, $minor))" >/dev/null 2>&1; then
        echo "$candidate"
        exit
    fi
done
