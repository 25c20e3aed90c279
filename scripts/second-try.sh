# Sourced by test.sh: runs tests, remembers which failed, and gives those one second try alone (docs/adr/0016).
# Tests that passed only at the second try are named at the end of the run and listed in target/second-tries.

# More failures than this are not caused by a busy machine.
FAILURES_MAX=5

log=target/test.log
tries=target/second-tries
browser_log=target/browser.log

# Failed targets so far, as failed_targets prints them.
failed=""
# The process group of the browser tests while they run.
browser=""
browser_failed=no

# One line per failed target: its cargo arguments, a bar, the failed tests (none: the target crashed).
failed_targets() {
  awk '
    /^failures:$/ { names = "" ; listing = 1; next }
    listing && /^    [A-Za-z0-9_:]+$/ { names = names " " $1; next }
    /^test result:/ { listing = 0 }
    /to rerun pass `/ { split($0, parts, "`"); print parts[2] "|" names; names = "" }
    /^ +Running / { names = ""; listing = 0 }
  '
}

# Runs `cargo test --workspace` with these arguments. Failed tests are remembered for the second try; a build that fails
# ends the run.
run_tests() {
  local before code=0 more
  before=$(wc -l <"$log")
  cargo test --locked --workspace --no-fail-fast "$@" 2>&1 | tee -a "$log" || code=$?
  [ "$code" -ne 0 ] || return 0
  more=$(tail -n "+$((before + 1))" "$log" | failed_targets)
  # Nothing to retry: the build failed.
  [ -n "$more" ] || return "$code"
  failed+="$more"$'\n'
}

# The arguments that select all unit and integration tests except these integration tests; cargo has none for that.
all_tests_except() {
  local path name
  echo --lib
  echo --bins
  for path in crates/*/tests/*.rs crates/*/tests/*/main.rs; do
    [ -e "$path" ] || continue
    name="${path%/main.rs}"
    name="$(basename "$name" .rs)"
    case " $* " in
      *" $name "*) ;;
      *) echo "--test=$name" ;;
    esac
  done | sort -u
}

# Retries failed cargo tests once, when nothing else runs.
second_try_of_tests() {
  local count arguments names only
  [ -n "$failed" ] || return 0
  count=$(cut -d'|' -f2 <<<"$failed" | wc -w)
  if [ "$count" -gt "$FAILURES_MAX" ]; then
    echo "test: $count failures are too many to retry" >&2
    return 1
  fi
  while IFS='|' read -r arguments names; do
    [ -n "$arguments" ] || continue
    echo "test: retrying alone: $arguments$names" >&2
    only=()
    # shellcheck disable=SC2206 # names of tests are words
    [ -z "$names" ] || only=(-- --exact $names)
    # shellcheck disable=SC2086 # cargo's arguments are words
    cargo test --locked $arguments "${only[@]}" </dev/null || return 1
    echo "$arguments:$names" >>"$tries"
  done <<<"$failed"
}

# Runs the browser tests. As root in a network of their own with loopback only, which is all they use: Chromium aborts
# requests when a network interface appears or goes, as engine and cluster make them.
browser_tests() {
  if unshare --net ip link set lo up 2>/dev/null; then
    unshare --net sh -c 'ip link set lo up && exec node --test e2e/'
  else
    node --test e2e/
  fi
}

# Starts the browser tests in the background, in a process group of their own so that all of it can be ended.
start_browser_tests() {
  set -m
  (
    start=$SECONDS code=0
    browser_tests || code=$?
    note_time $((SECONDS - start)) "browser tests, while kubernetes and compose run"
    exit "$code"
  ) >"$browser_log" 2>&1 </dev/null &
  browser=$!
  set +m
}

# Waits for the browser tests and prints what they printed.
finish_browser_tests() {
  local code=0
  wait "$browser" || code=$?
  browser=""
  cat "$browser_log"
  [ "$code" -eq 0 ] || browser_failed=yes
}

# Ends the browser tests with the servers and browsers they started, when the run ends before them.
stop_browser_tests() {
  [ -n "$browser" ] || return 0
  kill -TERM -- "-$browser" 2>/dev/null || true
  for _ in {1..50}; do
    kill -0 -- "-$browser" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL -- "-$browser" 2>/dev/null || true
  wait "$browser" 2>/dev/null || true
  browser=""
}

# Retries the browser tests once, when nothing else runs.
second_try_of_browser_tests() {
  [ "$browser_failed" = yes ] || return 0
  echo "test: retrying the browser tests alone" >&2
  browser_tests || return 1
  echo "node --test e2e/" >>"$tries"
}

# Names the tests that passed only at the second try.
print_second_tries() {
  [ -s "$tries" ] || return 0
  echo "test: these failed once and passed alone; each is a bug in the product or in the test:" >&2
  sed 's/^/  /' "$tries" >&2
}
