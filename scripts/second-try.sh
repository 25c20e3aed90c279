# Sourced by test.sh: a test that fails beside all others gets one second try alone (docs/adr/0016).
# What needed it is named at the end of the run and kept in target/second-tries.

# More failures than this are no accident of a busy machine.
FAILURES_MAX=5

tries=target/second-tries

# One line per failed target: its cargo arguments, a bar, the names of the tests that failed (none: the target died).
failed_targets() {
  awk '
    /^failures:$/ { names = "" ; listing = 1; next }
    listing && /^    [A-Za-z0-9_:]+$/ { names = names " " $1; next }
    /^test result:/ { listing = 0 }
    /to rerun pass `/ { split($0, parts, "`"); print parts[2] "|" names; names = "" }
    /^ +Running / { names = ""; listing = 0 }
  ' "$1"
}

# Runs `cargo test` with these arguments, then what failed once more.
cargo_tests() {
  mkdir -p target
  : >"$tries"
  local log=target/test.log code=0
  scripts/with-postgres.sh cargo test --locked --no-fail-fast "$@" 2>&1 | tee "$log" || code=$?
  [ "$code" -ne 0 ] || return 0

  local failed count
  failed=$(failed_targets "$log")
  # Nothing to run again: it did not build.
  [ -n "$failed" ] || return "$code"
  count=$(cut -d'|' -f2 <<<"$failed" | wc -w)
  if [ "$count" -gt "$FAILURES_MAX" ]; then
    echo "test: $count failures are too many for a second try" >&2
    return "$code"
  fi
  local arguments names
  while IFS='|' read -r arguments names; do
    echo "test: once more, alone: $arguments$names" >&2
    local only=()
    [ -z "$names" ] || only=(-- --exact $names)
    # shellcheck disable=SC2086 # cargo's arguments are words
    scripts/with-postgres.sh cargo test --locked $arguments "${only[@]}" </dev/null || return 1
    echo "$arguments:$names" >>"$tries"
  done <<<"$failed"
}

browser_tests() {
  node --test e2e/ && return
  echo "test: the browser tests once more" >&2
  node --test e2e/ || return 1
  echo "node --test e2e/" >>"$tries"
}

# The last word of the run: what passed only at the second try.
second_tries() {
  [ -s "$tries" ] || return 0
  echo "test: these failed once and passed alone; each is a bug in the product or in the test:" >&2
  sed 's/^/  /' "$tries" >&2
}
