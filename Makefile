# On a machine with Python 3.11 or newer, `make demo` and `make test` create .venv and install what they need there.
PYTHON ?= python3
BIN := .venv/bin
DEV := .venv/.ready-dev
DEMO := .venv/.ready-demo
INSTALL := $(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check --constraint constraints.txt --editable
# One thread for each library in each test process: more threads than cores only wait for each other. Bytecode is kept:
# tests start hundreds of processes.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

COLLECTED := .venv/.ready-tests

.PHONY: setup setup-locked lock sbom demo test coverage test-all lint browser kernels docs bench clean

# With machine code and the browser, so that the first run of the tests waits for neither.
setup: $(DEV)
	$(MAKE) -j2 browser kernels $(COLLECTED)

$(BIN)/python:
	$(PYTHON) -m venv .venv

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) '.[dev]'
	touch $(DEV) $(DEMO)

# The same with the versions of the lock file, each checked by its hash.
setup-locked: | $(BIN)/python
	$(BIN)/python -m pip install -qq --require-hashes -r deploy/requirements-dev.lock
	$(INSTALL) . --no-deps
	touch $(DEV) $(DEMO)
	$(MAKE) setup

# Resolve the dependencies again, for all platforms, the direct ones at the versions of constraints.txt. The second file
# is that of the image.
LOCK := .venv-lock/bin/uv pip compile pyproject.toml --constraint constraints.txt --universal --generate-hashes --python-version 3.11 --no-header --no-annotate --quiet
NOTE := \# Every package with its hashes, for all platforms: written by `make lock`, installed with pip --require-hashes.
lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install -qq 'uv>=0.8,<1'
	(echo '$(NOTE)'; $(LOCK) --extra dev) > .venv-lock/dev
	echo 'hatchling>=1.25,<2' > .venv-lock/build.in
	(echo '$(NOTE)'; $(LOCK) .venv-lock/build.in --extra serve) > .venv-lock/serve
	mv .venv-lock/dev deploy/requirements-dev.lock
	mv .venv-lock/serve deploy/requirements-serve.lock

# A bill of materials of what is installed, in CycloneDX.
sbom: $(DEV)
	$(BIN)/python deploy/sbom.py serve > sbom.json

# The development environment contains everything the demo needs.
$(DEMO): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) '.[demo]'
	touch $(DEMO)

demo: $(DEMO)
	$(BIN)/setwise demo

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

browser: $(DEV)
	$(BIN)/python tests/service/page_browser.py

kernels: $(DEV)
	$(ONE_THREAD) $(BIN)/python tests/compile_kernels.py

# Bytecode of the tests and of all libraries, which otherwise each of the test processes would make.
$(COLLECTED): $(DEV)
	$(ONE_THREAD) $(BIN)/python -m pytest -n0 --collect-only > $(COLLECTED).log || (cat $(COLLECTED).log; exit 1)
	touch $(COLLECTED)

# The default tests, with small counts. What they need is prepared while mypy, which uses one core, checks the types.
test: $(DEV)
	$(MAKE) -j3 lint browser kernels $(COLLECTED)
	$(ONE_THREAD) $(BIN)/python -m pytest -n auto --dist worksteal --durations=40 --durations-min=3 $(PYTEST)

# The same with the share of lines that are run, at least 90 %.
coverage:
	$(MAKE) test PYTEST='--cov --cov-report=term $(PYTEST)'

# Those tests and all that are marked nightly, with full counts; their results go into docs/reference/promises.md.
test-all:
	$(MAKE) test PYTEST='--large --promises --timeout=7200 -o faulthandler_timeout=10800 --cov --cov-report=term $(PYTEST)'

# RecTools requires numpy 1, setwise numpy 2: an environment with RecTools' numpy, and setwise without its own.
test-rectools:
	$(PYTHON) -m venv .venv-rectools
	.venv-rectools/bin/pip install --quiet rectools pytest pytest-timeout hypothesis polars numba highspy safetensors filelock typer rich
	PYTHONPATH=src NUMBA_CACHE_DIR=.venv-rectools/compiled .venv-rectools/bin/python -m pytest --noconftest -o addopts= tests/interop/test_rectools.py

docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(DEV)
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage*
