# The commands that matter: `make demo` runs the main job on a real cluster, `make test` and `make test-cluster` run the tests.
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

# An environment of its own below the cache: the site's packages are for nothing else.
DOCS = $(CACHE)/docs
.PHONY: docs
docs: ## The documentation as a site in build/site, with its links and anchors checked
	@[ -x "$(DOCS)/bin/python" ] || python3 -m venv "$(DOCS)"
	@"$(DOCS)/bin/python" -m pip install -q --disable-pip-version-check -c constraints.txt $$(sed -n 's/^docs = \[\(.*\)\]$$/\1/p' pyproject.toml | tr -d '",')
	@NO_MKDOCS_2_WARNING=1 "$(DOCS)/bin/mkdocs" build --site-dir build/site
	@echo "build/site/index.html"

.PHONY: local-jar
local-jar: venv ## The session's own Java classes for local mode in a checkout and for wheels; needs a JDK
	@sh images/session/java/build.sh "$$($(PYTHON) -c 'from sparksql.gateway.spark.jvm import spark_home; print(spark_home() / "jars")')" operator/sparksql/local/pods/session.jar

.PHONY: bench
bench: venv tools ## Ratios side by side on this machine, a quarter of an hour: operator, statements, results, streams
	@$(PYTHON) -m tests.bench.latency.stub throughput scale
	@$(PYTHON) -m tests.bench.peers.statements 4 2
	@$(PYTHON) -m tests.bench.results.results 1000000 60
	@$(PYTHON) -m tests.bench.streaming --quick

.PHONY: lint lint-style lint-types lint-words generate
lint: lint-style lint-types lint-words ## Format, lint, types, words, layers, generated files, chart
	@$(VENV)/bin/lint-imports
	@$(PYTHON) -m sparksql.api.crd --check
	@$(PYTHON) -m sparksql.gateway.frontends.rest.openapi --check
	@$(PYTHON) -m tests.gateway.upgrades.page --check
	@$(PYTHON) -m tests.promises --check
	@$(PYTHON) -m tests.layers --check
	@$(PYTHON) -m tests.sqlsuite.page --check
	@$(PYTHON) -m tests.conformance.suites.page --check
	@$(PYTHON) charts/sync_crds.py --check

lint-style: venv
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .

lint-types: venv
	@$(VENV)/bin/mypy

lint-words: venv
	@$(PYTHON) -m tests.words --check

generate: venv ## CRDs and API reference from the models, chart copies from the CRDs, tables of docs/upgrades.md and docs/test-coverage.md from the tests
	@$(PYTHON) -m sparksql.api.crd
	@$(PYTHON) -m sparksql.gateway.frontends.rest.openapi
	@$(PYTHON) -m tests.gateway.upgrades.page
	@$(PYTHON) -m tests.promises
	@$(PYTHON) -m tests.layers
	@$(PYTHON) -m tests.sqlsuite.page
	@$(PYTHON) -m tests.conformance.suites.page
	@$(PYTHON) charts/sync_crds.py

# TESTS="PATH..." runs these files, folders or tests only; THOROUGH=1 runs what is marked thorough too.
RUNNER = $(PYTHON) -m tests.runner $(if $(THOROUGH),--thorough) $(if $(COVERAGE),--coverage) $(if $(TESTS),--tests "$(TESTS)")

.PHONY: test test-cluster test-all test-thorough
test: venv $(if $(filter tests/images% tests/e2e% tests/conformance%,$(TESTS)),images,tools-local) ## What needs neither cluster nor images, some 20 minutes on two cores; TESTS="PATH..." for some of them
	@$(RUNNER) local

test-cluster: venv images ## What runs on the cluster: images, operator and drivers as pods, faults and outages, unmodified clients
	@$(RUNNER) cluster

test-all: venv images ## All levels
	@$(RUNNER) local cluster

test-thorough: venv images ## All levels with the tests that are marked thorough: further draws and combinations, hours
	@$(RUNNER) --thorough local cluster

.PHONY: test-unit test-integration test-gateway test-images test-e2e test-conformance
test-unit: venv tools-local ## Pure code and the chart
	@$(RUNNER) unit
test-integration: venv tools-local ## Real API server and etcd, scripted gateway
	@$(RUNNER) integration
test-gateway: venv ## Real Spark in local mode
	@$(RUNNER) gateway
test-images: venv images ## What the images promise
	@$(RUNNER) images
test-e2e: venv images ## Operator, drivers and executors as pods on the cluster
	@$(RUNNER) e2e faults outages
test-conformance: venv images ## Unmodified clients against a session on the cluster
	@$(RUNNER) conformance
