#!/usr/bin/env bash
# Runs the tests with real parts around them. Called by `make test` and `make soak`.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/second-try.sh

export MARGRAVE_SEEDS="${SEEDS:-1000}" MARGRAVE_KILLS="${KILLS:-100}"

if [ "${1:-}" = soak ]; then
  # Tests run the binaries as a user would; `cargo test --workspace` below builds them by itself.
  cargo build --locked -p margrave-cli -p margrave-agent
  scripts/with-postgres.sh cargo test --locked -p margrave-sim -- --nocapture
  exit
fi
cargo_tests --workspace
browser_tests
# With the binaries that the tests have built.
scripts/test-dist.sh
second_tries
