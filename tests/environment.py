"""The environment of the tests and of the processes that they start; imported before NumPy is loaded."""

import os
import sys

CHOICES = (
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "PMI", "OMPI_", "MV2_", "SLURM_", "LC_", "NETWORKX_",
    "SKLEARN_", "LANG", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "SCIPY_ARRAY_API", "BMRM_CPU_ISA",
    "MYPYPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONWARNINGS",
)  # fmt: skip
"""How variables begin that say what the user or a launcher chose: a test that needs one sets it."""

for name in [name for name in os.environ if name.startswith(CHOICES)]:
    del os.environ[name]
# What pytest makes of the asserts of the tests is kept too: to make it takes each worker several seconds.
sys.dont_write_bytecode = False
os.environ["LC_ALL"] = "C.UTF-8"
# In a container all is done by root, which Open MPI refuses unless it is told twice, and there is no ssh.
os.environ["OMPI_ALLOW_RUN_AS_ROOT"] = os.environ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
os.environ["OMPI_MCA_plm_rsh_agent"] = ""  # noqa: SIM112 (Open MPI has this name)
os.environ["MPLBACKEND"] = "agg"  # opens no windows
# Tests run in parallel, and spinning threads of one slow down the others: with threads of OpenBLAS, a test of
# 0.1 s with small matrices takes up to 8 s.
os.environ["OMP_WAIT_POLICY"] = "passive"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
