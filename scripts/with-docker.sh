#!/usr/bin/env bash
# Runs a command with a separate Docker engine at DOCKER_HOST, and stops the engine afterwards.
#   scripts/with-docker.sh COMMAND …
set -euo pipefail
. "$(dirname "$0")/own-docker.sh"
folder="$(mktemp -d)"
cleanup() {
  own_docker_stop
  rm -rf "$folder"
}
trap cleanup EXIT
own_docker_start "$folder"
"$@"
