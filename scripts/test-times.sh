# Sourced by test.sh: how long each test binary and each other part of the run took, longest first, on the terminal and in
# target/test-times.

times=target/test-times
noted=target/test-times.noted

# Notes seconds and a name for a part of the run that is not in the log of cargo.
note_time() { printf '%s\t%s\n' "$1" "$2" >>"$noted"; }

# Runs a command and notes its time: `timed NAME COMMAND…`.
timed() {
  local name="$1" start=$SECONDS code=0
  shift
  "$@" || code=$?
  # What did nothing is not listed.
  [ "$SECONDS" -eq "$start" ] || note_time $((SECONDS - start)) "$name"
  return "$code"
}

# Seconds, source and binary of each test binary in the log of cargo, separated by tabs.
logged_times() {
  sed 's/\x1b\[[0-9;]*m//g' "$1" | awk -v OFS='\t' '
    /^ +Running .* \(.*\)$/ {
      binary = $0; sub(/^.* \(/, "", binary); sub(/\)$/, "", binary)
      source = $0; sub(/^ +Running /, "", source); sub(/ \([^(]*\)$/, "", source)
    }
    /^ +Doc-tests / { source = "" }
    /^test result: .* finished in [0-9.]+s/ && source != "" {
      seconds = $0; sub(/^.* finished in /, "", seconds); sub(/s.*$/, "", seconds)
      print seconds, source, binary
      source = ""
    }
  '
}

# The crate that a test binary belongs to. Cargo prints `tests/it/main.rs` for several crates; the dependency file that
# the compiler writes beside the binary has the whole path.
crate_of() {
  [ -f "$1.d" ] || return 0
  sed -n '1s|^[^:]*: *\(.*/\)\{0,1\}crates/\([^/ ]*\)/.*|\2|p' "$1.d"
}

# The list, and the time of the whole run, which is less than the sum where parts run at the same time.
print_times() {
  local seconds source binary crate
  {
    [ ! -f "$log" ] || logged_times "$log" | while IFS=$'\t' read -r seconds source binary; do
      crate=""
      [ -z "$binary" ] || crate="$(crate_of "$binary")"
      printf '%s\t%s\n' "$seconds" "${crate:+$crate: }$source"
    done
    [ ! -f "$noted" ] || cat "$noted"
  } | LC_ALL=C sort -t $'\t' -k 1,1nr | LC_ALL=C awk -F '\t' '{ printf "%8.1f s  %s\n", $1, $2 }' >"$times"
  local total=$SECONDS
  if [ -n "${BEGAN:-}" ]; then
    total=$(($(date +%s) - BEGAN))
    printf '%6d.0 s  setup and checks, before the tests\n' $((total - SECONDS)) >>"$times"
  fi
  printf '%6d.0 s  total\n' "$total" >>"$times"
  echo "test: times, also in $times:"
  cat "$times"
}
