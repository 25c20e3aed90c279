#!/usr/bin/env bash
# Runs a command with a temporary PostgreSQL: `scripts/with-postgres.sh cargo test -p margrave-store`.
# MARGRAVE_TEST_POSTGRES contains the address; if it is already set, that server is used.
set -euo pipefail

[ $# -gt 0 ] || { echo "usage: $0 COMMAND [ARGUMENT ...]" >&2; exit 2; }
[ -z "${MARGRAVE_TEST_POSTGRES:-}" ] || exec "$@"

bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
[ -x "$bin/initdb" ] || bin=$(pg_config --bindir 2>/dev/null || true)
[ -x "$bin/initdb" ] || { echo "$0: PostgreSQL is not installed; run \`make setup\`" >&2; exit 1; }

folder=$(mktemp -d "${TMPDIR:-/tmp}/margrave-postgres.XXXXXX")
# PostgreSQL does not run as root.
as=()
if [ "$(id -u)" = 0 ]; then
  chown postgres "$folder"
  as=(runuser -u postgres --)
fi
# Other users must reach the socket.
chmod 755 "$folder"

stop() {
  (cd "$folder" && "${as[@]}" "$bin/pg_ctl" -D "$folder/data" -m immediate stop) >/dev/null 2>&1 || true
  rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Only a socket in the folder, so there is no port conflict; no fsync, because the data is temporary.
(
  cd "$folder"
  "${as[@]}" "$bin/initdb" -D "$folder/data" -U postgres -A trust --encoding=UTF8 --locale=C.UTF-8 --no-sync
  "${as[@]}" "$bin/pg_ctl" -D "$folder/data" -l "$folder/log" -w -o "-c listen_addresses= -c unix_socket_directories=$folder \
    -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_connections=400" start
) >"$folder/start" 2>&1 || { cat "$folder/start" "$folder/log" >&2 || true; exit 1; }

export MARGRAVE_TEST_POSTGRES="postgres:///postgres?host=$folder&user=postgres"
"$@"
