# The ways into Margrave. `make demo` and `make test` are all a newcomer needs.
.DEFAULT_GOAL := help
SHELL := /bin/bash
CARGO ?= cargo
# Seeds of the deterministic simulation and rounds of the kill loops; `make soak` raises them.
SEEDS ?= 1000
KILLS ?= 100

.PHONY: help demo test setup check fmt soak bench counts screenshots dist clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

demo: ## Run the whole product on embedded defaults (Ctrl-C stops it; state is kept in demo-data/)
	$(CARGO) build --locked -p margrave-cli -p margrave-agent
	@if docker info >/dev/null 2>&1; then ./scripts/samples.sh build target/samples; \
	else echo "demo: Docker does not answer (see \`docker info\`), so all devices are simulated"; fi
	./target/debug/margrave demo --data demo-data --samples target/samples

setup: ## Install what the tests need (Debian as root; elsewhere lists what is missing)
	./scripts/setup.sh

test: setup check ## Run everything that must hold, with real parts
	SEEDS=$(SEEDS) KILLS=$(KILLS) ./scripts/test.sh

check: ## Format, lints, docs, dependency and tidiness rules
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --quiet
	$(CARGO) test --locked --workspace --test tidy
	./target/debug/margrave-counts check

counts: ## Keep the instruction counts of the hot paths that `make check` compares with
	$(CARGO) test --locked --workspace --test tidy --no-run
	./target/debug/margrave-counts write

fmt: ## Format the code
	$(CARGO) fmt --all

soak: setup ## Long runs: many seeds, many kills
	SEEDS=$${SOAK_SEEDS:-50000} KILLS=$${SOAK_KILLS:-2000} ./scripts/test.sh soak

bench: ## Measure (ONLY="polls publish" for some, WRITE=yes keeps the numbers in docs/, QUICK=yes tries it out)
	./scripts/bench-setup.sh
	./scripts/samples.sh build target/samples
	$(if $(if $(ONLY),$(filter connections,$(ONLY)),all),./scripts/bench-allocators.sh)
	$(CARGO) build --locked --release -p margrave-cli -p margrave-sim
	$(CARGO) build --locked --profile device -p margrave-agent
	cp target/device/margrave-agent target/release/
	./scripts/with-docker.sh ./target/release/margrave-bench $(if $(ONLY),--only "$(ONLY)") $(if $(WRITE),--write) $(if $(QUICK),--quick)

screenshots: ## Take the pictures of the main pages in docs/screens/ from a demo of its own
	$(CARGO) build --locked -p margrave-cli -p margrave-agent
	node e2e/support/screenshots.js

dist: ## Make Debian packages and container images of both programs, in dist/
	./scripts/dist.sh dist release

clean: ## Remove build output and the demo's state
	rm -rf target demo-data dist
