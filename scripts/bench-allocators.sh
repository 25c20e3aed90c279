#!/usr/bin/env bash
# Builds the server with each other allocator into target/release/allocators, for comparison.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(-p margrave-cli -p margrave-agent -p margrave-sim)
mkdir -p target/release/allocators
for allocator in glibc mimalloc; do
  features=()
  [ "$allocator" = glibc ] || features=(--features "margrave-cli/$allocator")
  # The same packages as in `make bench`, so that only the program itself is rebuilt.
  "${CARGO:-cargo}" build --locked --release "${packages[@]}" --no-default-features "${features[@]}"
  cp target/release/margrave "target/release/allocators/margrave-$allocator"
done
