#!/usr/bin/env bash
# Runs the tests with real parts around them. Called by `make test` and `make soak`; docs/testing.md says what runs where.
set -euo pipefail
cd "$(dirname "$0")/.."
# One PostgreSQL for the whole run.
[ -n "${MARGRAVE_TEST_POSTGRES:-}" ] || exec scripts/with-postgres.sh scripts/test.sh "$@"
. scripts/test-times.sh
. scripts/second-try.sh

export MARGRAVE_SEEDS="${SEEDS:-300}" MARGRAVE_KILLS="${KILLS:-30}"

mkdir -p target
: >"$log"
: >"$noted"
: >"$tries"

finish() {
  local code=$?
  stop_browser_tests
  print_times || true
  print_second_tries
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ "${1:-}" = soak ]; then
  code=0
  # Tests run the binaries as a user would.
  timed build cargo build --locked -p margrave-cli -p margrave-agent
  # The second version of Helm and Podman, beside what `make test` runs of these.
  cargo test --locked -p margrave-agent --features soak --test kubernetes --test compose --no-fail-fast 2>&1 |
    tee -a "$log" || code=$?
  cargo test --locked -p margrave-sim -- --nocapture 2>&1 | tee -a "$log" || code=$?
  exit "$code"
fi

# Everything is built first: browser tests start the binaries, and nothing may replace those under them.
timed build cargo test --locked --workspace --no-run
# Tests with a cluster or an engine mostly wait for containers, which leaves room for a browser.
start_browser_tests
run_tests --test=kubernetes
run_tests --test=compose
finish_browser_tests
mapfile -t rest < <(all_tests_except kubernetes compose)
run_tests "${rest[@]}"
timed "doc tests, with rustdoc" run_tests --doc
timed "second try of tests" second_try_of_tests
timed "second try of browser tests" second_try_of_browser_tests
# With the binaries that the tests have built.
timed schemathesis scripts/schemathesis.sh
timed test-dist scripts/test-dist.sh
