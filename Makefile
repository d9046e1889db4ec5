# Each of these works alone on a fresh clone; 'make help' says what they do.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV ?= .venv
PYTHON_BIN := $(VENV)/bin/python
export VENV

.PHONY: help setup demo demo-failover demo-stop test quick unit lint format bench soak compat wheel clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Python environment, Java and Kafka's jars; done by all others first, quick when nothing changed
	@scripts/setup.sh

demo: setup ## two Kafka clusters, live topics, Airflow with a flow between them, lag on the terminal; Ctrl-C ends it
	@$(PYTHON_BIN) -m demo

demo-failover: setup ## a cluster is killed, its consumers move to the other one and back by DAGs; says what to watch
	@$(PYTHON_BIN) -m demo.failover

demo-stop: ## ends what a demo left running
	@if [ -x $(PYTHON_BIN) ]; then $(PYTHON_BIN) -m demo stop; else echo "no demo runs: nothing is set up here"; fi

test: ## lint, then every test ring against real Kafka, Spark, Airflow and Chromium (about 46 minutes on 2 cores)
	@scripts/setup.sh --tests
	@scripts/test.sh lint unit store kafka spark airflow browser faults worlds

unit: setup ## the tests that need no server (seconds)
	@scripts/test.sh unit

format: setup ## formats the code and sorts its imports
	@$(VENV)/bin/ruff check --quiet --select I --fix .
	@$(VENV)/bin/ruff format .

lint: setup ## ruff, formatting, mypy, import rules
	@scripts/test.sh lint

bench: setup ## side by side with the real MirrorMaker 2; WORKLOAD=1k-lz4 for one workload
	@$(PYTHON_BIN) -m bench $(WORKLOAD)

soak: setup ## the long tests: more fault rounds, all Kafka versions, all worlds; SOAK_ROUNDS=n
	@scripts/test.sh soak

compat: setup ## the wheel in older and newer Airflows, Sparks and Pythons (six minutes each); ENVIRONMENT=oldest for one
	@$(PYTHON_BIN) -m tests.compat $(ENVIRONMENT)

wheel: setup ## the wheel for other machines, in dist/
	@$(PYTHON_BIN) -m build --wheel --no-isolation --outdir dist .

clean: ## removes the environment, built files and test logs, not the download cache
	rm -rf $(VENV) build dist test-logs .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
