#!/usr/bin/env bash
# Installs the dependencies of `make bench`: nginx as a reference, and programs that pin processes to a processor.
# On Debian as root it uses apt; elsewhere it lists what is missing and fails.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/apt.sh

# command -> Debian package
missing=()
for need in nginx:nginx-light taskset:util-linux setpriv:util-linux; do
  command -v "${need%%:*}" >/dev/null 2>&1 || missing+=("${need##*:}")
done
[ ${#missing[@]} -eq 0 ] || { echo "bench: installing ${missing[*]}"; apt_install "${missing[@]}"; }
