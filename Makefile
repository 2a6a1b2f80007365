# Everything here sets itself up: the first target that needs an environment makes it, later ones find it.
# What is installed is pinned by constraints/; `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# How many pytest processes. More than cores: end-to-end tests wait for Airflow most of the time.
WORKERS ?= 4
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

# $(call install,folder,highest Python,constraints,what): a fresh environment with the package in place.
define install
@echo "==> $(1): $(3)"
@python=$$(.ci/find-python 3.10 $(2)); $(UV) venv --quiet --clear --python "$$python" $(1)
@$(UV) pip install --python $(1)/bin/python --constraint $(3) $(4)
@touch $(1)/.installed
endef

.venv/.installed: pyproject.toml constraints/airflow-3.3.txt $(UV)
	$(call install,.venv,3.14,constraints/airflow-3.3.txt,--group dev --editable '.[all]')

.PHONY: venv
venv: .venv/.installed ## Make .venv: newest Airflow, all extras, the tools of a developer

# --- checks ------------------------------------------------------------------------------------------

.PHONY: test
test: .venv/.installed ## Run all tests on the newest Airflow
	$(BIN)/pytest --numprocesses $(WORKERS) --dist loadgroup $(ARGS)

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

# --- the rest ----------------------------------------------------------------------------------------

.PHONY: build
build: $(UV) ## Build the wheel and the source archive into dist/
	$(UV) build --quiet --out-dir dist
	@ls -1 dist

.PHONY: clean
clean: ## Remove environments, caches and built things
	rm -rf .venv .venvs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
