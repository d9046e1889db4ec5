# Each target works on a fresh clone; 'make help' describes them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV ?= .venv
PYTHON_BIN := $(VENV)/bin/python
export VENV

.PHONY: help setup demo demo-failover demo-verify demo-stop test quick unit simulate mutations lint format bench soak fuzz compat wheel clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## set up the Python environment, Java and Kafka's jars; all other targets do this first, quick if up to date
	@scripts/setup.sh

demo: setup ## two Kafka clusters, live topics, Airflow with flows between them, lag on the terminal; Ctrl-C ends it
	@$(PYTHON_BIN) -m demo

demo-failover: setup ## kill a cluster; its consumers fail over to the other one and back by DAGs; says what to watch
	@$(PYTHON_BIN) -m demo.failover

demo-verify: setup ## copies are proved, then damaged in thirteen ways, and srm-control verify names each; a minute, no Airflow
	@$(PYTHON_BIN) -m demo.verify

demo-stop: ## end what a demo left running
	@if [ -x $(PYTHON_BIN) ]; then $(PYTHON_BIN) -m demo stop; else echo "no demo is running: nothing is set up here"; fi

test: ## lint, then all test rings against real Kafka, Spark, Airflow and Chromium (30 to 40 minutes on 2 cores)
	@scripts/setup.sh --tests
	@scripts/test.sh faults kafka unit + browser airflow spark worlds lint store simulation

quick: setup ## for the loop of a developer: lint, the tests without servers with fewer examples, one run between brokers
	@HYPOTHESIS_PROFILE=quick scripts/test.sh unit smoke + lint

unit: setup ## the quick ones of the tests that need no server, with fewer examples (HYPOTHESIS_PROFILE="any machine" for all)
	@HYPOTHESIS_PROFILE="$(or $(HYPOTHESIS_PROFILE),quick)" scripts/test.sh unit

simulate: setup ## the copy engine in virtual time, a fault plan per seed; SEEDS=first:end or HOURS=n, PROCESSES=n, REPORT=file
	@$(PYTHON_BIN) -m tests.simulation --seeds $(or $(SEEDS),0:2000) --processes $(or $(PROCESSES),1) \
	  $(if $(HOURS),--hours $(HOURS)) $(if $(REPORT),--report $(REPORT))

mutations: setup ## switch off what exactly-once depends on, place by place: the simulation must notice each; SEEDS=n at most
	@$(PYTHON_BIN) -m tests.simulation.mutations --seeds $(or $(SEEDS),200) --processes 2

format: setup ## formats the code and sorts its imports
	@$(VENV)/bin/ruff check --quiet --select I --fix .
	@$(VENV)/bin/ruff format .

lint: setup ## ruff, formatting, mypy, import rules, dependencies
	@scripts/test.sh lint

bench: setup ## benchmark against the real MirrorMaker 2; WORKLOAD=1k-lz4 for one workload
	@$(PYTHON_BIN) -m bench $(WORKLOAD)

soak: setup ## the long tests: more fault rounds, all Kafka versions, all worlds; SOAK_ROUNDS=n
	@scripts/test.sh soak

fuzz: setup ## changed inputs for every parser, for MINUTES=20 of one core; TARGET=repack for one of them
	@$(PYTHON_BIN) -m tests.fuzz $(TARGET) --minutes $(or $(MINUTES),20)

compat: setup ## test the wheel with older and newer Airflow, Spark and Python (six minutes each); ENVIRONMENT=oldest for one
	@$(PYTHON_BIN) -m tests.compat $(ENVIRONMENT)

wheel: setup ## build the wheel, in dist/
	@$(PYTHON_BIN) -m build --wheel --no-isolation --outdir dist .

clean: ## remove the environment, built files and test logs, but not the download cache
	rm -rf $(VENV) build dist test-logs .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
