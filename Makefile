# Entry points. Start with `make demo` and `make test`.
.DEFAULT_GOAL := help
SHELL := /bin/bash
CARGO ?= cargo
# Seeds of the deterministic simulation and rounds of the kill loops; `make soak` raises them.
SEEDS ?= 300
KILLS ?= 30
# When make began, so that the times of a run include setup and checks.
BEGAN := $(shell date +%s)

.PHONY: help demo test setup check fmt soak bench counts screenshots dist clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

demo: ## Run the complete demo with defaults (Ctrl-C stops it; state is stored in demo-data/)
	$(CARGO) build --locked -p margrave-cli -p margrave-agent
	@if docker info >/dev/null 2>&1; then ./scripts/samples.sh build target/samples; \
	else echo "demo: Docker does not respond (see \`docker info\`), so all devices are simulated"; fi
	./target/debug/margrave demo --data demo-data --samples target/samples

setup: ## Install the test dependencies (Debian as root; elsewhere lists what is missing)
	./scripts/setup.sh

test: setup check ## Run all checks and tests, with real dependencies
	BEGAN=$(BEGAN) SEEDS=$(SEEDS) KILLS=$(KILLS) ./scripts/test.sh

check: ## Format, lints, docs, dependency and tidiness rules
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --workspace --test kubernetes --test compose --features margrave-agent/soak -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --quiet
	$(CARGO) test --locked --workspace --test tidy
	./target/debug/margrave-counts check

counts: ## Update the instruction counts of the hot paths that `make check` compares with
	$(CARGO) test --locked --workspace --test tidy --no-run
	./target/debug/margrave-counts write

fmt: ## Format the code
	$(CARGO) fmt --all

soak: setup ## Long runs: many seeds, many kills, and the tests that `make test` leaves to this (docs/testing.md)
	SEEDS=$${SOAK_SEEDS:-50000} KILLS=$${SOAK_KILLS:-2000} ./scripts/test.sh soak

bench: ## Measure (ONLY="polls publish" for some, WRITE=yes writes the numbers to docs/, QUICK=yes for a short run)
	./scripts/bench-setup.sh
	./scripts/samples.sh build target/samples
	$(if $(if $(ONLY),$(filter connections,$(ONLY)),all),./scripts/bench-allocators.sh)
	$(CARGO) build --locked --release -p margrave-cli -p margrave-sim
	$(CARGO) build --locked --profile device -p margrave-agent
	cp target/device/margrave-agent target/release/
	./scripts/with-docker.sh ./target/release/margrave-bench $(if $(ONLY),--only "$(ONLY)") $(if $(WRITE),--write) $(if $(QUICK),--quick)

screenshots: ## Take the screenshots of the main pages in docs/screens/ from a separate demo
	$(CARGO) build --locked -p margrave-cli -p margrave-agent
	node e2e/support/screenshots.js

dist: ## Build Debian packages and container images of both programs in dist/
	./scripts/dist.sh dist release

clean: ## Remove build output and the demo state
	rm -rf target demo-data dist
