# `make demo` and `make test` do all their own set-up: they install missing system packages by apt-get, then
# make an environment in .venv in which the package is installed as a user's would be.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
export PYTHON VENV

PIP := $(BIN)/python -m pip --disable-pip-version-check
SOURCES := pyproject.toml setup.py MANIFEST.in $(shell find bmrm building src_common src_cython src_cuda -type f ! -name '*.so' ! -path '*/__pycache__/*')
CXX_SOURCES := $(shell find src_common src_cython src_cuda benchmarks tests -name '*.h' -o -name '*.inl' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh')

.NOTPARALLEL:
.PHONY: help demo test wheels check-wheel versions architectures lint format typecheck stubs ext bench tables certify kill-runs fuzz fuzz-reductions fuzz-pairs gpu-check gpu-sanitize docs clean

help:
	@echo "make demo       train, predict and check the certificate on two small data sets"
	@echo "make test       lint, type check and the whole test suite, PETSc included"
	@echo "make wheels     the wheel of bmrm in dist/, for the CPU; with CUDA=1 also that of bmrm-cuda13"
	@echo "make check-wheel  README's examples and the commands of all pages with that wheel, in empty environments with old and new NumPy and SciPy"
	@echo "make versions   some of the tests with the oldest and the newest supported Python, NumPy and SciPy"
	@echo "make architectures  compile the CUDA code that depends on the kind of GPU for the oldest ones too"
	@echo "make lint       ruff and clang-format, changing nothing"
	@echo "make format     ruff and clang-format, in place"
	@echo "make typecheck  mypy --strict on bmrm/"
	@echo "make stubs      compare the stubs of the compiled modules with the modules"
	@echo "make ext        compile the extensions into bmrm/, to import from the checkout"
	@echo "make docs       the site in build/docs, any warning being an error; nothing is downloaded"
	@echo "make bench      list the benchmarks and what each measures"
	@echo "make tables     the pages of docs/performance and the tables of the docs, from results, losses and estimators"
	@echo "make certify    compare 100,000 random solves with exact arithmetic, with a new seed (about an hour)"
	@echo "make kill-runs  kill bmrm-train at 200 random moments, and check what is left of its model"
	@echo "make fuzz       read randomly damaged files of every kind, with sanitizers, for FUZZ_SECONDS=600"
	@echo "make fuzz-reductions  compile 3000 random row functions, compare each with Python, and look for accesses outside of arrays"
	@echo "make fuzz-pairs  count the pairs of 10,000 random sets of points by every plan, instruction set and number of ranks; 2000 random functions of two points"
	@echo "make gpu-check  on a machine with an NVIDIA GPU: build, GPU tests, comparison with NVIDIA's libraries; PART=graph, ..."
	@echo "make gpu-sanitize  likewise: the GPU tests under compute-sanitizer"
	@echo "make clean      remove everything that was built, including .venv"

# If there is an environment for the tests, the demo uses it.
demo: $(firstword $(wildcard $(VENV)/test.stamp) $(VENV)/demo.stamp)
	$(BIN)/python examples/demo.py

# Runs in the folder of the tests, so that they import the installed package.
test: $(VENV)/test.stamp lint typecheck stubs architectures docs
	cd tests && BMRM_REQUIRE_PETSC=1 $(abspath $(BIN))/python -m pytest -n 2 --dist worksteal $(PYTEST_ARGS)
	$(MAKE) versions

wheels:
	scripts/wheels.sh

check-wheel: build/wheel.stamp
	scripts/check_wheel.sh

# PYTHON may itself be the oldest or the newest version; then the script reports that there is nothing to do.
versions: build/wheel.stamp
	scripts/versions.sh oldest
	scripts/versions.sh newest

# Without nvcc there is nothing to do.
architectures: $(BIN)/python
	$(BIN)/python -m building.architectures

lint: $(BIN)/ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(CXX_SOURCES)

format: $(BIN)/ruff
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_SOURCES)

typecheck: $(BIN)/mypy
	$(BIN)/mypy

# Imports the compiled modules, so these must be current; `typecheck` builds nothing.
stubs: $(VENV)/dev.stamp
	$(BIN)/python scripts/check_stubs.py

ext: $(BIN)/cython
	$(BIN)/python setup.py -q build_ext --inplace

docs: $(VENV)/dev.stamp
	$(BIN)/python scripts/docs_site.py build/site
	$(BIN)/sphinx-build -q -W -n --keep-going -c docs/site -d build/site-trees build/site build/docs

bench:
	@grep -l '^if __name__' benchmarks/*/*.py | while read -r f; do \
	    printf 'python -m %-36s %s\n' "$$(echo "$${f%.py}" | tr / .)" "$$(sed -n '1s/^"""//; 1s/"""$$//; 1p' "$$f")"; done

tables: $(VENV)/dev.stamp
	$(BIN)/python -m benchmarks.tables.pages
	for page in losses estimators migration; do $(BIN)/python scripts/$${page}_tables.py || exit 1; done

# Pass options by CERTIFY_ARGS="--n 10000 --seed 1"; a failing case is printed with the line that replays it.
certify: $(VENV)/dev.stamp
	$(BIN)/python scripts/certify.py $(CERTIFY_ARGS)

kill-runs: $(VENV)/dev.stamp
	$(BIN)/python scripts/kill_runs.py

fuzz: $(VENV)/dev.stamp
	PYTHON=$(BIN)/python scripts/fuzz.sh

# BMRM_RANDOM_PROGRAMS is the number of row functions, BMRM_RANDOM_FIRST the seed of the first: a new one each day.
fuzz-reductions: $(VENV)/dev.stamp
	cd tests && BMRM_RANDOM_PROGRAMS=$${BMRM_RANDOM_PROGRAMS:-3000} BMRM_RANDOM_FIRST=$${BMRM_RANDOM_FIRST:-$$(date +%y%m%d0000)} \
	    $(abspath $(BIN))/python -m pytest -q reductions/test_random_programs.py

# BMRM_PAIR_FIRST=SEED BMRM_PAIR_PROBLEMS=1 repeats one problem.
fuzz-pairs: $(VENV)/dev.stamp
	cd tests && BMRM_PAIR_PROBLEMS=$${BMRM_PAIR_PROBLEMS:-10000} BMRM_PAIR_FIRST=$${BMRM_PAIR_FIRST:-$$(date +%y%m%d0000)} \
	    $(abspath $(BIN))/python -m pytest -q pairs/test_random_counts.py
	cd tests && BMRM_RANDOM_STATISTICS=$${BMRM_RANDOM_STATISTICS:-2000} BMRM_RANDOM_FIRST=$${BMRM_RANDOM_FIRST:-$$(date +%y%m%d0000)} \
	    $(abspath $(BIN))/python -m pytest -q pairs/test_random_statistics.py

gpu-check:
	PART='$(PART)' scripts/gpu-check.sh

gpu-sanitize:
	scripts/gpu-sanitize.sh

clean:
	rm -rf build dist demo *.egg-info $(VENV) bmrm/formulas/gpu/device; find bmrm -name "*.so" -delete

$(BIN)/python:
	scripts/system-packages.sh build
	$(PYTHON) -m venv $(VENV)

# Files that an earlier build left in build/lib would go into the wheel, even if their source is gone. Bytecode of all
# modules of all packages would take longer than that of those which are imported.
define install
	find build -path 'build/lib*' -name '*.py*' -delete 2>/dev/null || true
	$(PIP) install -q --no-compile $(1)
	@cat build/summary.txt
endef

build/wheel.stamp: $(SOURCES) scripts/wheels.sh
	CUDA=0 scripts/wheels.sh
	touch $@

# The demo runs on the CPU: compiling for every GPU would take minutes for nothing.
$(VENV)/demo.stamp: export BMRM_CUDA ?= off
$(VENV)/demo.stamp: $(SOURCES) | $(BIN)/python
	scripts/system-packages.sh build
	$(call install,'.[sklearn]')
	touch $@

$(VENV)/dev.stamp: $(SOURCES) | $(BIN)/python
	scripts/system-packages.sh build
	$(call install,'.[dev]')
	touch $@

$(VENV)/test.stamp: $(VENV)/dev.stamp scripts/petsc.sh
	scripts/system-packages.sh petsc
	scripts/petsc.sh
	touch $@

# The tools are installed once, so that linting does not rebuild the package after each change.
$(BIN)/ruff $(BIN)/mypy $(BIN)/cython: | $(BIN)/python
	$(MAKE) $(VENV)/dev.stamp
