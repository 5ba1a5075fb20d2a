#!/bin/sh
# The C compiler of the `mpich` wheel in $VENV, with a search path for libmpi relative to the linked library:
# lib/python3.x/site-packages/petsc/lib is four folders below the lib of its environment. So the resulting wheels
# work in any environment, not only in the one in which they were built.
exec "${VENV:?}/bin/mpicc" '-Wl,-rpath,$ORIGIN/../../../..' "$@"
