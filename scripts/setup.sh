#!/usr/bin/env bash
# Installs what `make test` needs. On Debian as root it uses apt; anywhere else it lists what is missing and fails.
# Safe to run again: when everything is there it changes nothing and needs no network.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/apt.sh

# command or file -> Debian package that brings it
needs=(
  "git:git"
  "/usr/lib/postgresql:postgresql"
  "docker-registry:docker-registry"
  "htpasswd:apache2-utils"
  "chromium:chromium"
  "openssl:openssl"
  "curl:curl"
  "valgrind:valgrind"
  "node:nodejs"
  "npm:npm"
  "groff:groff-base"
)

present() {
  case "$1" in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
  esac
}

missing=()
for need in "${needs[@]}"; do
  present "${need%%:*}" || missing+=("${need##*:}")
done

if [ ${#missing[@]} -gt 0 ]; then
  if can_apt; then
    echo "setup: installing ${missing[*]}"
    apt_install "${missing[@]}"
  else
    {
      echo "setup: the tests need these, and they are not here:"
      printf '  - %s\n' "${missing[@]}"
      echo "The names are Debian packages. On Debian run \`make setup\` as root; elsewhere install their equivalents."
    } >&2
    exit 1
  fi
fi

# The OCI clients the embedded registry is tested with.
scripts/tools.sh
# The cluster the agent's Kubernetes engines are tested with.
scripts/kubernetes.sh

if [ ! -d e2e/node_modules/playwright-core ] || [ ! -d e2e/node_modules/axe-core ] || [ ! -d e2e/node_modules/typescript ]; then
  (cd e2e && npm ci --no-audit --no-fund --silent)
fi

rustup component list --installed 2>/dev/null | grep -q clippy || command -v cargo-clippy >/dev/null ||
  echo "setup: cargo clippy is missing; \`make check\` needs it (rustup component add clippy rustfmt)" >&2
echo "setup: everything the tests need is here"
