# Everything here sets itself up: the first target that needs an environment makes it, later ones find it.
# What is installed is pinned by constraints/; `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# How many pytest processes. More than cores: end-to-end tests wait for Airflow most of the time.
WORKERS ?= 4
OLDER_WORKERS ?= 2
# More arguments for pytest: make test ARGS="tests/unit -k reconnect"
ARGS ?=

# Only Pythons that are on the machine: nothing is fetched from outside the package index.
export UV_PYTHON_DOWNLOADS := never

UV := .venvs/tools/bin/uv
BIN := .venv/bin

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

# --- environments ------------------------------------------------------------------------------------

$(UV): constraints/bootstrap.txt
	@echo "==> uv"
	@python=$$(.ci/find-python 3.10 3.14); \
	"$$python" -m venv --clear .venvs/tools \
	    || { echo "$$python cannot make an environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@.venvs/tools/bin/python -m pip install --quiet --disable-pip-version-check -r constraints/bootstrap.txt
	@touch $@

# $(call install,folder,highest Python,constraints,what else,extra,preferred Python): the package, editable, in an
# environment of its own, with the extra (all of them by default).
# An environment that is there is brought up to date, not made anew: something may be running in it.
define install
@echo "==> $(1), pinned by $(3)"
@python=$$(.ci/find-python 3.10 $(2) $(6)); \
[ -x $(1)/bin/python ] || $(UV) venv --quiet --python "$$python" $(1)
@$(UV) pip install --python $(1)/bin/python --constraint $(3) $(4) --editable '.[$(or $(5),all)]' 2>&1 | grep -v '^ [+-]'
@touch $(1)/.installed
endef

.venv/.installed: pyproject.toml constraints/airflow-3.3.txt $(UV)
	$(call install,.venv,3.14,constraints/airflow-3.3.txt,--group dev)

.PHONY: venv
venv: .venv/.installed ## Make .venv: newest Airflow, all extras, the tools of a developer

# What Airflow versions other than the newest are tested with; names of files in constraints/.
OLDER := 3.3-lowest 3.2 3.1-lowest 2.11 2.11-lowest
# Each on another Python than .venv has, where the machine has it: all that the package runs on are in here.
PYTHON_OF_3.3-lowest := 3.12
PYTHON_OF_3.2 := 3.13
PYTHON_OF_3.1-lowest := 3.10
PYTHON_OF_2.11 := 3.12
PYTHON_OF_2.11-lowest := 3.10

.venvs/%/.installed: pyproject.toml constraints/airflow-%.txt $(UV)
	$(call install,.venvs/$*,$(if $(filter 2.11%,$*),3.12,3.13),constraints/airflow-$*.txt,--group test $(if $(filter 3.2,$*),--group lineage),,$(PYTHON_OF_$*))

# aiobotocore, which Apache's deferrable Batch operator needs, takes an older boto3.
.venvs/bench/.installed: tests/bench/requirements.in pyproject.toml constraints/airflow-bench.txt $(UV)
	$(call install,.venvs/bench,3.13,constraints/airflow-bench.txt,--requirements tests/bench/requirements.in)

# $(call resolve,name,Airflow,how): constraints/airflow-<name>.txt, for all Pythons that this Airflow runs on.
define resolve
@echo "==> constraints/airflow-$(1).txt"
@{ echo "# Written by 'make constraints': Airflow $(2)"; \
  echo "apache-airflow==$(2)" | $(UV) pip compile - pyproject.toml --extra all --universal --python-version 3.10 \
    --no-header --no-annotate --quiet $(3); } > constraints/airflow-$(1).txt
endef

# The lowest providers are resolved as of a day on which that Airflow was current: with everything else from
# today they would be a set that nobody ever had, and that fails for reasons of its own.
.PHONY: constraints
constraints: $(UV) ## Resolve constraints/ anew (names and versions only)
	$(call resolve,3.3,3.3.2,--group dev)
	$(call resolve,3.3-lowest,3.3.0,--group test --resolution lowest-direct --exclude-newer 2026-08-01)
	$(call resolve,3.2,3.2.2,--group test --group lineage)
	$(call resolve,3.1-lowest,3.1.0,--group test --resolution lowest-direct --exclude-newer 2025-10-26)
	$(call resolve,2.11,2.11.2,--group test)
	$(call resolve,2.11-lowest,2.11.0,--group test --resolution lowest-direct --exclude-newer 2025-10-26)
	$(call resolve,bench,3.3.2,tests/bench/requirements.in)
	@echo "==> constraints/docs.txt"
	@{ echo "# Written by 'make constraints': the tools of 'make docs'"; \
	  $(UV) pip compile --group docs --universal --python-version 3.11 --no-header --no-annotate --quiet; \
	} > constraints/docs.txt

# --- checks ------------------------------------------------------------------------------------------

.PHONY: test
test: .venv/.installed ## Run all tests on the newest Airflow
	$(BIN)/pytest --numprocesses $(WORKERS) --dist loadgroup $(ARGS)

.PHONY: test-older $(OLDER:%=test-%)
test-older: $(OLDER:%=test-%) ## Run the unit tests on older Airflows, and on the lowest providers

# What needs real Airflow processes needs the newest Airflow; the rest runs everywhere.
$(OLDER:%=test-%): test-%: .venvs/%/.installed
	@echo "==> Airflow $*, $$(.venvs/$*/bin/python --version)"
	.venvs/$*/bin/python -m pytest --numprocesses $(OLDER_WORKERS) tests/unit tests/parity tests/packaging/test_import.py

.PHONY: lint
lint: .venv/.installed ## Check format, lint rules, types and file lengths
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	@find airflow_provider_durable -name '*.py' -exec wc -l {} + | awk '$$2 != "total" && $$1 > 400 \
	    {print $$2 " has " $$1 " lines: find the second thing in it and give it a file"; bad = 1} END {exit bad}'

.PHONY: format
format: .venv/.installed ## Format, and mend what ruff can mend by itself
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

# --- measuring ---------------------------------------------------------------------------------------

.PHONY: bench
bench: .venv/.installed .venvs/bench/.installed ## Measure against Apache's operators: triggerer, task, imports
	PYTHONPATH=tests $(BIN)/python -m bench $(ARGS)

.PHONY: bench-triggerer
bench-triggerer: .venv/.installed .venvs/bench/.installed ## Measure what waiting Batch jobs cost a triggerer
	PYTHONPATH=tests $(BIN)/python -m bench --only triggerer $(ARGS)

# --- the proof ---------------------------------------------------------------------------------------

.PHONY: crash-matrix
crash-matrix: .venv/.installed .venvs/bench/.installed ## What becomes of the job at every crash point, beside Apache's
	PYTHONPATH=tests $(BIN)/python -m matrix $(ARGS)

# --- the demo ----------------------------------------------------------------------------------------

.venvs/demo/.installed: pyproject.toml constraints/airflow-3.3.txt $(UV)
	$(call install,.venvs/demo,3.13,constraints/airflow-3.3.txt,--group demo --compile-bytecode,amazon)

.PHONY: demo
demo: .venvs/demo/.installed ## Kill a worker in mid-job on real Airflow; KEEP=1 leaves the UI up
	@PYTHONPATH=tests .venvs/demo/bin/python -m demo .demo $(if $(KEEP),--keep)

# --- documentation -----------------------------------------------------------------------------------

.venvs/docs/.installed: constraints/docs.txt $(UV)
	@echo "==> .venvs/docs, pinned by constraints/docs.txt"
	@python=$$(.ci/find-python 3.11 3.14); \
	[ -x .venvs/docs/bin/python ] || $(UV) venv --quiet --python "$$python" .venvs/docs
	@$(UV) pip sync --quiet --python .venvs/docs/bin/python constraints/docs.txt
	@touch $@

.PHONY: docs
docs: .venvs/docs/.installed ## Build the documentation as a site, into build/docs
	@PYTHONPATH=tests .venvs/docs/bin/python -m pages
	@rm -rf build/docs
	.venvs/docs/bin/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env -d build/doctrees docs build/docs
	@echo "build/docs/index.html"

.PHONY: screenshots
screenshots: .venvs/demo/.installed ## Take docs/images/task-state-store.png of the demo, with headless Chromium
	@PYTHONPATH=tests .venvs/demo/bin/python -m demo.screenshot .demo/screenshots

# --- the rest ----------------------------------------------------------------------------------------

.PHONY: build
build: $(UV) ## Build the wheel and the source archive into dist/
	$(UV) build --quiet --out-dir dist
	@ls -1 dist

.PHONY: clean
clean: ## Remove environments, caches and built things
	rm -rf .venv .venvs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
