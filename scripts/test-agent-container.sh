#!/usr/bin/env bash
# Tests the agent as a container: it enrolls at first boot, runs a deployment, and keeps its identity after a restart.
# Called by test-dist.sh with a separate Docker engine at DOCKER_HOST.
#   scripts/test-agent-container.sh DIST VERSION PROFILE
set -euo pipefail
cd "$(dirname "$0")/.."
dist="$1" version="$2" binaries="./target/$3" device=press-07
# Not the port of the samples, which a developer's demo may use.
port=28088
work="$(mktemp -d)"
server=""
fail() {
  echo "test-agent-container: $1" >&2
  docker compose -f "$dist/agent.compose.yaml" logs --tail 20 >&2 || true
  exit 1
}
cleanup() {
  docker compose -f "$dist/agent.compose.yaml" down --timeout 5 >/dev/null 2>&1 || true
  [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
  rm -rf "$work"
}
trap cleanup EXIT

# Waits for a condition, at most three minutes on a busy machine.
until_true() {
  local what="$1" tries=0
  shift
  until "$@" >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 720 ] || fail "timed out: $what"
    sleep 0.25
  done
}
margrave() { "$binaries/margrave" --data "$work/data" "$@"; }
field() { sed -n "s/.*\"$1\": *\"\([^\"]*\)\".*/\1/p" | head -n 1; }

"$binaries/margrave" --data "$work/data" serve --devices 127.0.0.1:0 --trust 127.0.0.1:0 --operators 127.0.0.1:0 \
  2>"$work/server.log" &
server=$!
until_true "the server responds" margrave status

margrave client accept "$device" >/dev/null
token="$(margrave client enrollment-token "$device" -o json 2>/dev/null)"
mkdir -p "$work/settings" "$work/state"
cp packaging/etc/agent.toml "$work/settings/agent.toml"
sed -i -e "s|^# url = .*|url = \"$(echo "$token" | field trustUrl)\"\npin = \"$(echo "$token" | field pin)\"|" \
  -e "s|^state_dir = .*|state_dir = \"$work/state\"|" "$work/settings/agent.toml"
printf '\n[poll]\nstart_spread = "0s"\nperiod = "1s"\n' >> "$work/settings/agent.toml"
(umask 077 && echo "$token" | field token > "$work/settings/enrollment-token")
uuidgen > "$work/machine-id" 2>/dev/null || cat /proc/sys/kernel/random/uuid > "$work/machine-id"

margrave client mirror-config "$device" --for agent --registry registry.margrave.example --write "$work/registry" >/dev/null 2>&1
cp "$work"/registry/etc/margrave/registry-* "$work/settings/"
cat "$work/registry/etc/margrave/agent-registries.toml" >> "$work/settings/agent.toml"

export MARGRAVE_AGENT_IMAGE="margrave-agent:$version" MARGRAVE_AGENT_STATE="$work/state" \
  MARGRAVE_AGENT_SETTINGS="$work/settings" MACHINE_ID="$work/machine-id" DOCKER_SOCKET="${DOCKER_HOST#unix://}"
docker compose -f "$dist/agent.compose.yaml" up -d --quiet-pull 2>"$work/up.log" || { cat "$work/up.log" >&2; fail "compose up"; }
known() { margrave device list -o json | grep "\"device\": *\"$device\""; }
until_true "the device is known" known
[ ! -e "$work/settings/enrollment-token" ] || fail "the used token was not deleted"

scripts/samples.sh build "$work/samples" >/dev/null
margrave app push "$work/samples/images/line-monitor-1.0.0.tar" >/dev/null
margrave app push "$work/samples/packages/line-monitor/1.0.0" >/dev/null
margrave deploy line-monitor@1.0.0 --device "$device" --set lineName="Press 7" --set pagePort="$port" \
  --yes --wait --timeout 5m >/dev/null || fail "the deployment was not installed"
shows() { curl -fsS "http://127.0.0.1:$port/config" | grep 'LINE_NAME=Press 7'; }
shows >/dev/null || fail "the application does not show its setting"
shown() {
  docker compose -f "$dist/agent.compose.yaml" exec -T agent /usr/bin/margrave-agent --state-dir "$work/state" status |
    grep line-monitor
}
until_true "status at the machine shows what runs" shown

# After a restart: the same device with the same workloads.
docker compose -f "$dist/agent.compose.yaml" down --timeout 5 2>/dev/null
shows >/dev/null || fail "the application stopped with the agent"
docker compose -f "$dist/agent.compose.yaml" up -d 2>/dev/null
margrave deployment remove --app line-monitor --all --yes --wait --timeout 5m >/dev/null || fail "the agent does not continue"
! shows >/dev/null 2>&1 || fail "the application still runs after its removal"
[ "$(margrave client list -o json | grep -c '"id"')" = 1 ] || fail "it re-enrolled as another client"
echo "test-agent-container: passed"
