# Targets to build, install and run the operator; each target calls `pliant` and kubectl. `make help` lists the targets.
# The targets use kubectl's current context.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

IMG ?= pliant:$(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' pliant/__init__.py)
NAMESPACE ?= pliant-system
KUBECTL ?= kubectl
CONTAINER_TOOL ?=
ARGS ?=
KINDS ?=
FORCE ?=
export KUBECTL CONTAINER_TOOL FORCE

# Creates .venv on first use, with the runtime dependencies only.
pliant := extras= source scripts/venv && pliant
# The --kinds option for KINDS=…; without KINDS, all kinds are selected.
kinds = $(if $(KINDS),--kinds '$(KINDS)')
# Server-side apply does not need the last-applied annotation, so it also updates objects that other tools created.
apply := "$$KUBECTL" apply --server-side --force-conflicts -f -

##@ Cluster

.PHONY: install
install: cluster ## Install only the CRDs of the job kinds
	@$(pliant) crds $(kinds) | $(apply)

.PHONY: run
run: ## Run the operator in this terminal until Ctrl-C; ARGS=… passes options to `pliant operator`
	@$(pliant) operator $(kinds) $(ARGS)

.PHONY: deploy
deploy: cluster ## Install or update the CRDs and the operator with image IMG=…
	@$(pliant) install --namespace '$(NAMESPACE)' --image '$(IMG)' $(kinds) $(ARGS) | $(apply)

.PHONY: undeploy
undeploy: cluster ## Delete the operator, its permissions and its namespace; jobs and their pods remain
	@$(pliant) uninstall --namespace '$(NAMESPACE)' $(kinds) $(ARGS) | "$$KUBECTL" delete --ignore-not-found -f -
	@scripts/forget-namespace '$(NAMESPACE)'

.PHONY: uninstall
uninstall: cluster ## Delete the CRDs and EVERY JOB of these kinds; asks for confirmation unless FORCE=1
	@scripts/uninstall-crds $(kinds)

##@ Development

.PHONY: manifests
manifests: ## Regenerate config/ and manifests/ from the code
	@scripts/golden tests/golden/test_config.py

.PHONY: docker-build
docker-build: ## Build the image IMG=… with docker, podman or buildah
	@scripts/image build '$(IMG)'

.PHONY: docker-push
docker-push: ## Push the image IMG=… to its registry
	@scripts/image push '$(IMG)'

.PHONY: test
test: ## Run the default tests as an unprivileged user
	@scripts/test

.PHONY: check
check: ## Check format, lint rules, types and import contracts
	@scripts/check

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## "; print "usage: make TARGET… [IMG=registry/name:tag] [NAMESPACE=pliant-system] [KINDS=paddle,PyTorchJob]" } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' Makefile

.PHONY: cluster
cluster:
	@scripts/reach-cluster
