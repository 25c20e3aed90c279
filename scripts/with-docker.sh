#!/usr/bin/env bash
# Runs a command with a Docker engine of its own at DOCKER_HOST, and ends the engine with it.
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
