# The two commands that matter: `make demo` runs the main job on a real cluster, `make test` runs every test.
# Each installs what it needs into the user's cache folder and may be run again at any time.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/spark-sql-operator
BIN := $(CACHE)/bin
VENV := $(CACHE)/venv
PYTHON := $(VENV)/bin/python
export PATH := $(BIN):$(VENV)/bin:$(PATH)

include tests/cluster/cluster.mk
include images/images.mk

.PHONY: help
help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-18s %s\n", $$1, $$2}'

.PHONY: venv
venv: ## Python environment with everything that development and tests need
	@tests/venv.sh "$(VENV)"

.PHONY: demo demo-down
demo: venv ## Cluster, images, chart, then the quickstart over TPC-H data
	@$(PYTHON) examples/quickstart/demo.py up

demo-down: ## Remove what `make demo` made, cluster included
	@python3 examples/quickstart/demo.py down

.PHONY: bench
bench: venv tools ## Ratios side by side on this machine, a quarter of an hour: operator, statements, results, streams
	@$(PYTHON) -m tests.bench.latency.stub throughput scale
	@$(PYTHON) -m tests.bench.peers.statements 4 2
	@$(PYTHON) -m tests.bench.results.results 1000000 60
	@$(PYTHON) -m tests.bench.streaming --quick

.PHONY: lint generate
lint: venv ## Format, lint, types, layers, generated files, chart
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports
	@$(PYTHON) -m sparksql.api.crd --check
	@$(PYTHON) -m sparksql.gateway.frontends.rest.openapi --check
	@$(PYTHON) -m tests.gateway.upgrades.page --check
	@$(PYTHON) charts/sync_crds.py --check

generate: venv ## CRDs and API reference from the models, chart copies from the CRDs, tables of docs/upgrades.md from the tests
	@$(PYTHON) -m sparksql.api.crd
	@$(PYTHON) -m sparksql.gateway.frontends.rest.openapi
	@$(PYTHON) -m tests.gateway.upgrades.page
	@$(PYTHON) charts/sync_crds.py

.PHONY: test test-thorough test-unit test-integration test-gateway test-images test-e2e test-conformance
test: venv images ## All levels: unit, integration, gateway, streaming, windows, upgrades, images, e2e, faults, conformance
	@$(PYTHON) tests/levels.py unit integration gateway streaming windows upgrades images e2e faults conformance

test-thorough: venv images ## All levels with the tests that are marked thorough: further draws and combinations
	@$(PYTHON) tests/levels.py --thorough unit integration gateway streaming windows upgrades images e2e faults conformance

test-unit: venv tools ## Pure code and the chart; seconds
	@$(PYTHON) tests/levels.py unit
test-integration: venv tools ## Real API server and etcd, scripted gateway
	@$(PYTHON) tests/levels.py integration
test-gateway: venv tools ## Real Spark in local mode
	@$(PYTHON) tests/levels.py gateway streaming windows upgrades
test-images: venv images ## What the images promise
	@$(PYTHON) tests/levels.py images
test-e2e: venv images ## Operator, drivers and executors as pods on the cluster
	@$(PYTHON) tests/levels.py e2e faults
test-conformance: venv images ## Unmodified clients against a session on the cluster
	@$(PYTHON) tests/levels.py conformance
