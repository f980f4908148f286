# The verbs that operators are built, installed and run by; each is a line over `pliant` and kubectl. `make help`
# lists them. Clusters are those of kubectl's current context.
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

# Sets up .venv the first time, with what Pliant needs to run and nothing else.
pliant := extras= source scripts/venv && pliant
# The option of pliant that KINDS=… means; every kind without it.
kinds = $(if $(KINDS),--kinds '$(KINDS)')
# By the server, which needs no notes on the objects, whoever made them.
apply := "$$KUBECTL" apply --server-side --force-conflicts -f -

##@ On a cluster

.PHONY: install
install: cluster ## Install the definitions of our kinds of jobs, nothing else
	@$(pliant) crds $(kinds) | $(apply)

.PHONY: run
run: ## Work on the cluster's jobs from this terminal, until Ctrl-C; ARGS=… are options of `pliant operator`
	@$(pliant) operator $(kinds) $(ARGS)

.PHONY: deploy
deploy: deployable ## Put the operator on the cluster, with image IMG=… and all it needs; again: update it
	@$(pliant) install --namespace '$(NAMESPACE)' --image '$(IMG)' $(kinds) $(ARGS) | $(apply)

.PHONY: undeploy
undeploy: deployable ## Take the operator away, with its rights and its namespace; jobs and their pods stay
	@$(pliant) uninstall --namespace '$(NAMESPACE)' $(kinds) $(ARGS) | "$$KUBECTL" delete --ignore-not-found -f -
	@scripts/forget-namespace '$(NAMESPACE)'

.PHONY: uninstall
uninstall: cluster ## Delete our kinds, and with them EVERY JOB of these kinds; asks first, FORCE=1 does not ask
	@scripts/uninstall-crds $(kinds)

##@ From this folder

.PHONY: manifests
manifests: ## Write config/ and manifests/ anew from the definitions in the code
	@scripts/golden tests/golden/test_config.py

.PHONY: docker-build
docker-build: ## Build the image IMG=… with docker, podman or buildah
	@scripts/image build '$(IMG)'

.PHONY: docker-push
docker-push: ## Push the image IMG=… to its registry
	@scripts/image push '$(IMG)'

.PHONY: test
test: ## Run the tests of the default choice, as an ordinary user
	@scripts/test

.PHONY: check
check: ## Format, lint, types, import contracts
	@scripts/check

.PHONY: help
help: ## Tell what there is
	@awk 'BEGIN { FS = ":.*## "; print "usage: make VERB… [IMG=registry/name:tag] [NAMESPACE=pliant-system] [KINDS=paddle,PyTorchJob]" } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' Makefile

.PHONY: cluster deployable
cluster:
	@scripts/reach-cluster
deployable:
	@scripts/reach-cluster deployments
