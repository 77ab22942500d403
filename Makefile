# Needs GNU make, Python 3.11 or newer and a network; everything else is installed on first use,
# into .venv and the user's cache. No cloud account: only `verify` talks to Google Cloud.

PYTHON ?= python3
BIN := .venv/bin
RUN := $(BIN)/python
PACKAGES := catalog config components assembly simcloud ops tools benchmarks __main__.py

MAKEFLAGS += --no-print-directory
# What a developer's shell may set and a clean machine does not: tests must hold without them.
unexport PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help demo preview up destroy test check bench verify setup venv lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup ## a stack's whole life on the simulated cloud [STACK=dev|prod|FILE; both]
	@for stack in $(or $(STACK),dev prod); do \
		$(RUN) -m simcloud demo --stack "$$stack" || exit 1; \
	done

preview: setup ## what an update would do, on the simulated cloud [STACK=dev]
up: setup ## create or change the stack on the simulated cloud [STACK=dev]
destroy: setup ## delete the stack from the simulated cloud [STACK=dev]
preview up destroy:
	@$(RUN) -m simcloud $@ --stack $(or $(STACK),dev)

test: setup ## all tests that need no cloud [ARGS=what pytest takes]
	@$(RUN) -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder --timeout 300 $(ARGS)

check: venv ## format, lint, types, layers, workflows
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(PACKAGES)
	cd policies && ../$(BIN)/mypy --config-file ../pyproject.toml .
	cd bootstrap && ../$(BIN)/mypy --config-file ../pyproject.toml .
	$(BIN)/lint-imports --no-logo
	$(BIN)/zizmor --offline --quiet .github/workflows
	@! command -v actionlint >/dev/null || actionlint

bench: setup ## measure, and write the figures to benchmarks/
	@$(RUN) -m benchmarks

verify: setup ## ask a real stack's model questions and check the answers [STACK=dev]
	@$(RUN) -m ops verify --stack $(or $(STACK),dev)

setup: venv ## .venv and the Pulumi CLI; the others do it by themselves
	@$(RUN) -m tools.cli

venv: ## .venv alone, for the commands that need no Pulumi CLI
	@$(PYTHON) -m tools.venv

lock: venv ## pin again what the pinned packages bring with them
	@$(RUN) -m tools.lock

clean: ## remove what was made here; the Pulumi CLI stays in the user's cache
	rm -rf .venv .sim .mypy_cache policies/.mypy_cache bootstrap/.mypy_cache .ruff_cache .pytest_cache .import_linter_cache
