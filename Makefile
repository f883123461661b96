# One word for each thing one does. Every target installs what it needs into .venv, once, and again
# when pyproject.toml or constraints.txt change.

PYTHON ?= python3
VENV := .venv
CONSTRAINTS := constraints.txt
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c $(CONSTRAINTS)
JOBS ?= auto

ifndef COUNTERPOINT_DATA
ifneq ($(wildcard ../shared/data/.),)
export COUNTERPOINT_DATA := $(abspath ../shared/data)
endif
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-further test-clusters test-pandas2 machines slow coverage check format bench bench-quick docs wheel clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.has-core ## explain a model's decisions on real data (installs the package alone)
	@$(BIN)/counterpoint demo

# A process for each core: more threads in each would only wait for one another.
test test-further slow coverage bench-quick: export OMP_NUM_THREADS ?= 1

test: $(VENV)/.has-test ## run the tests, each with a few of its parameters (ARGS="tests/test_trees.py": all of those)
	$(BIN)/python -m pytest -n $(JOBS) $(or $(ARGS),-m "not slow and not published and not further")

test-further: $(VENV)/.has-test ## run the other parameters of each test, the matrix, the pages of the site and of the desk
	$(BIN)/python -m pytest -n $(JOBS) -m "further and not slow and not published" $(ARGS)

test-clusters: $(VENV)/.has-spark ## run the tests of batches on workers that die, on Dask and on Spark (400 MB; needs Java)
	$(BIN)/python -m pytest -m slow tests/test_clusters.py $(ARGS)

test-pandas2: ## run the tests on data frames, groups and anndata with pandas 2, in an environment of its own
	@grep -v '^pandas==' constraints.txt | cat - constraints-pandas2.txt > .venv-pandas2.txt
	@$(MAKE) --no-print-directory VENV=.venv-pandas2 CONSTRAINTS=.venv-pandas2.txt .venv-pandas2/.has-pandas2
	.venv-pandas2/bin/python -m pytest -n $(JOBS) tests/test_encoding.py tests/test_features.py \
	  tests/test_table.py tests/test_groups.py tests/test_missing.py tests/test_results.py $(ARGS)

machines: $(VENV)/.has-test ## run the delicate tests with the arithmetic of other processors
	$(BIN)/python tests/machines.py -n $(JOBS) $(ARGS)

slow: export HYPOTHESIS_PROFILE := slow
slow: $(VENV)/.has-test ## run the tests that take long, and those of random examples with more of them
	$(BIN)/python -m pytest -n $(JOBS) -m "slow or hypothesis" $(ARGS)

coverage: $(VENV)/.has-test ## run the tests and report the branches that none of them takes
	$(BIN)/python -m pytest -n $(JOBS) --cov --cov-report=term-missing:skip-covered $(ARGS)

check: $(VENV)/.has-check ## lint, formatting, types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(VENV)/.has-check ## put imports and layout in order
	$(BIN)/ruff check --select I --fix
	$(BIN)/ruff format

bench: export OMP_NUM_THREADS := 1
bench: export OPENBLAS_NUM_THREADS := 1
bench: export MKL_NUM_THREADS := 1
bench: $(VENV)/.has-bench ## measure, one subject after the other (ONLY=name: that one)
	@set -e; for script in benchmarks/bench_$(or $(ONLY),*).py; do \
	  echo "== $$script"; $(BIN)/python $$script; done

bench-quick: $(VENV)/.has-test $(VENV)/.has-reproduce ## benchmarks and reproductions at small sizes, and what they report
	$(BIN)/python -m pytest -n $(JOBS) -m published tests/test_published.py $(ARGS)

.PHONY: reproduce
reproduce: export OMP_NUM_THREADS := 1
reproduce: export OPENBLAS_NUM_THREADS := 1
reproduce: export MKL_NUM_THREADS := 1
reproduce: $(VENV)/.has-reproduce ## reproduce published results and print our numbers beside theirs (ONLY=name: one)
	@set -e; for script in reproduce/$(or $(ONLY),*).py; do \
	  echo "== $$script"; $(BIN)/python $$script $(ARGS); done

docs: $(VENV)/.has-docs ## build the site into docs/_build/html; a warning is an error
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

wheel: $(VENV)/.has-pip ## build dist/*.whl, install it into an empty environment and run the demo there
	rm -rf dist build/wheel
	$(BIN)/python -m pip --disable-pip-version-check wheel -q --no-deps --build-constraint constraints.txt -w dist .
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip --disable-pip-version-check install -q -c $(CONSTRAINTS) dist/*.whl
	cd build/wheel && bin/counterpoint demo > demo.txt
	@ls dist/*.whl

clean: ## remove everything that was built, the environment too
	rm -rf $(VENV) .venv-pandas2 .venv-pandas2.txt build dist docs/_build docs/auto_examples docs/api/generated \
	  docs/sg_execution_times.rst .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*
	find src tests benchmarks docs reproduce -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment: pip of the pinned version, then the package, then one dependency group a target.

$(VENV)/.has-pip:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "There is no '$(PYTHON)'. Install Python 3.11 or newer, or say which to use: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "counterpoint needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1). Say which to use: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
	  echo "Making $(VENV)"; $(PYTHON) -m venv --clear $(VENV); }
	@$(PIP) --upgrade pip
	@touch $@

$(VENV)/.has-core: $(VENV)/.has-pip pyproject.toml constraints.txt
	@echo "Installing counterpoint"
	@$(PIP) --build-constraint constraints.txt -e .
	@touch $@

$(VENV)/.has-%: $(VENV)/.has-core
	@echo "Installing what '$*' needs"
	@$(PIP) --group $*
	@touch $@
