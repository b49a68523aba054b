# The cluster for development, tests and the demo; see tests/cluster/README.md. Needs nothing but python3.
CLUSTER := python3 $(dir $(lastword $(MAKEFILE_LIST)))cluster.py

.PHONY: tools tools-local cluster-up cluster-down cluster-status cluster-load
tools: ## Build the cluster's binaries (minutes the first time)
	@$(CLUSTER) tools >/dev/null

tools-local: ## Build the binaries that tests without a cluster run
	@$(CLUSTER) tools --local >/dev/null

cluster-up: ## Bring the cluster up, from any state, with what was in it; FRESH=1 for a new, empty one
	@$(CLUSTER) up $(if $(FRESH),--fresh)

cluster-down: ## Stop the cluster and remove its traces
	@$(CLUSTER) down

cluster-status: ## Show the cluster's components and images
	@$(CLUSTER) status

cluster-load: ## Load IMAGES="..." for pods
	@$(CLUSTER) load $(IMAGES)
