#!/usr/bin/env bash
# Compares the answers of a running server with openapi/margrave.json, by generated requests.
#   scripts/schemathesis.sh install   the tool, pinned, into the cache of the test tools
#   scripts/schemathesis.sh           starts a server with sample objects and tests it; needs target/debug/margrave
# Requests are derived from the document without chance, so that two runs send the same ones.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=scripts/schemathesis.txt
venv="${XDG_CACHE_HOME:-$HOME/.cache}/margrave/tools/schemathesis-$(sha256sum "$packages" | cut -c1-12)"
margrave="${MARGRAVE_BINARY:-$PWD/target/debug/margrave}"
log="$PWD/target/schemathesis.log"

install_tool() {
  [ -x "$venv/bin/schemathesis" ] && return
  rm -rf "$venv"
  echo "schemathesis: installing"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$packages"
}

if [ "${1:-}" = install ]; then
  install_tool
  exit
fi
[ -x "$venv/bin/schemathesis" ] || { echo "schemathesis is missing: run scripts/schemathesis.sh install" >&2; exit 1; }

mkdir -p target
data="$(mktemp -d)"
server=
stop() {
  [ -z "$server" ] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
  rm -rf "$data"
}
trap stop EXIT

"$margrave" serve --data "$data/server" --devices 127.0.0.1:0 --trust 127.0.0.1:0 --operators 127.0.0.1:0 \
  --log json 2>"$data/server.log" &
server=$!
fleet() { "$margrave" --data "$data/server" --quiet "$@" >/dev/null; }
deadline=$((SECONDS + 20))
until fleet status 2>/dev/null; do
  [ $SECONDS -lt $deadline ] || { cat "$data/server.log" >&2; echo "schemathesis: the server did not start" >&2; exit 1; }
  sleep 0.1
done

# Objects that generated requests can find.
fleet app import samples/line-monitor/1.0.0
fleet sim --devices 3 --poll 1s --for 3s --prefix press
fleet deploy line-monitor --selector simulation=press --skip-incompatible --set lineName=Press --yes
fleet group put presses --selector simulation=press
fleet client enrollment-token press-07

url="$(sed -E 's/.*"operators":"(http[^"]*)".*/\1/' <(tr -d ' \n' <"$data/server/addresses.json"))"
# The event stream never ends; imports, copies and checks connect to registries that generated requests name; an upload
# needs an archive.
document="$PWD/openapi/margrave.json"
# The tool keeps files where it runs. One worker: parsing Python on several threads fails now and then in CPython 3.11.
cd "$data"
timeout 55 "$venv/bin/schemathesis" run "$document" --url "$url" \
  --header "Authorization: Bearer $(cat "$data/server/admin-token")" \
  --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
  --phases examples,coverage,fuzzing --mode all --max-examples 5 --generation-deterministic \
  --workers 1 --request-timeout 10 --suppress-health-check all \
  --exclude-operation-id upload_application --exclude-path /api/events/stream --exclude-path /api/applications/import --exclude-operation-id create_copy \
  --exclude-path-regex '^/api/registries/.*/check$|/components/check$' \
  --no-color >"$log" 2>&1 || {
  tail -n 100 "$log"
  exit 1
}
if grep -q '"level":"ERROR"' "$data/server.log"; then
  grep '"level":"ERROR"' "$data/server.log" | head -n 5
  echo "schemathesis: the server logged errors" >&2
  exit 1
fi
tail -n 15 "$log"
