#!/bin/sh
# The C compiler of the `mpich` wheel in $VENV, with a search path for libmpi relative to the library that
# is linked: lib/python3.x/site-packages/petsc/lib is four folders below the lib of its environment. So
# the wheels that come of it work in any environment, not only in the one where they were built.
exec "${VENV:?}/bin/mpicc" '-Wl,-rpath,$ORIGIN/../../../..' "$@"
