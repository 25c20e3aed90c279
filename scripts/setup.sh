#!/usr/bin/env bash
# Installs the dependencies of `make test`. On Debian as root it uses apt; elsewhere it lists what is missing and fails.
# Safe to run again: if everything is installed, it changes nothing and needs no network.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/apt.sh

# command or file -> Debian package
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

python3 -c 'import ensurepip' >/dev/null 2>&1 || missing+=(python3-venv)

if [ ${#missing[@]} -gt 0 ]; then
  if can_apt; then
    echo "setup: installing ${missing[*]}"
    apt_install "${missing[@]}"
  else
    {
      echo "setup: missing test dependencies:"
      printf '  - %s\n' "${missing[@]}"
      echo "The names are Debian packages. On Debian run \`make setup\` as root; elsewhere install their equivalents."
    } >&2
    exit 1
  fi
fi

# A faster linker (scripts/linker). Builds work without it, only slower.
if ! present ld.mold && can_apt; then
  echo "setup: installing mold"
  apt_install mold || echo "setup: mold could not be installed; builds use the compiler's own linker" >&2
fi

# OCI clients for the tests of the embedded registry.
scripts/tools.sh
# The tool that compares the OpenAPI document with a running server.
scripts/schemathesis.sh install
# The cluster for the tests of the agent's Kubernetes engines.
scripts/kubernetes.sh

if [ ! -d e2e/node_modules/playwright-core ] || [ ! -d e2e/node_modules/axe-core ] || [ ! -d e2e/node_modules/typescript ]; then
  (cd e2e && npm ci --no-audit --no-fund --silent)
fi

rustup component list --installed 2>/dev/null | grep -q clippy || command -v cargo-clippy >/dev/null ||
  echo "setup: cargo clippy is missing; \`make check\` needs it (rustup component add clippy rustfmt)" >&2
echo "setup: all test dependencies are installed"
