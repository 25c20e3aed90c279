#!/usr/bin/env bash
# Builds Kubernetes for the test cluster: control plane and node of 1.20.2, from Debian's source package with the Go of
# the previous release. Built once, in ten to twenty minutes on two cores, and cached outside the tree; a second run
# needs no network.
set -euo pipefail
. "$(dirname "$0")/apt.sh"

version=1.20.2
cache="${XDG_CACHE_HOME:-$HOME/.cache}/margrave/kubernetes-$version"
# Debian 12 is the last release with this source package; its Go is too new, so use the Go of Debian 11.
source_suite="${MARGRAVE_KUBERNETES_SUITE:-bookworm}"
go_suite="${MARGRAVE_KUBERNETES_GO_SUITE:-bullseye}"
go=go-1.15
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy)

fail() {
  echo "kubernetes: $1" >&2
  exit 1
}

complete() {
  local program
  for program in "${programs[@]}"; do [ -x "$cache/bin/$program" ] || return 1; done
}

if complete; then
  echo "kubernetes: $version is installed"
  exit 0
fi
command -v apt-get >/dev/null 2>&1 ||
  fail "this is not Debian: copy ${programs[*]} of Kubernetes $version to $cache/bin manually"
[ "$(uname -m)" = x86_64 ] || [ "$(uname -m)" = aarch64 ] || fail "$(uname -m) is not supported by this Kubernetes build"

# Build dependencies.
missing=()
for need in make rsync jq gcc; do command -v "$need" >/dev/null 2>&1 || missing+=("$need"); done
[ ${#missing[@]} = 0 ] || apt_install "${missing[@]}" || fail "cannot build without ${missing[*]}"

mkdir -p "$cache"
# One build at a time; an interrupted build leaves no partial result.
exec 9> "$cache/lock"
flock 9
if complete; then exit 0; fi
rm -rf "$cache"/work.*
work="$(mktemp -d "$cache/work.XXXXXX")"
trap 'chmod -R u+w "$work" 2>/dev/null; rm -rf "$work"' EXIT

echo "kubernetes: downloading the sources of $version and the Go toolchain"
suite_unpack "$work/go-apt" "$go_suite" "$work/root" "golang-${go#go-}-go" "golang-${go#go-}-src" ||
  fail "cannot download the Go toolchain of $go_suite"
suite_use "$work/source-apt" "$source_suite" deb-src || fail "cannot read the sources of $source_suite"
(cd "$work/source-apt/download" && suite_apt "$work/source-apt" source --download-only kubernetes) ||
  fail "cannot download the source of kubernetes"
# Debian's version is 1.20.5+really1.20.2.
archive="$(find "$work/source-apt/download" -name "kubernetes_*$version.orig.tar.*" | head -n 1)"
[ -n "$archive" ] || fail "$source_suite has no source of kubernetes $version"
mkdir "$work/tree"
tar -xf "$archive" -C "$work/tree" --strip-components=1

# The package keeps Go's library in a separate folder, with links into system folders.
goroot="$work/root/usr/lib/$go"
share="$work/root/usr/share/$go"
for entry in "$share"/*; do
  ln -sfn "$entry" "$goroot/$(basename "$entry")"
done

cat > "$work/version" <<VERSION
KUBE_GIT_VERSION='v$version'
KUBE_GIT_MAJOR='1'
KUBE_GIT_MINOR='20'
KUBE_GIT_TREE_STATE='clean'
KUBE_GIT_COMMIT=debian
VERSION

echo "kubernetes: building $version, once; this takes ten to twenty minutes"
export GOROOT="$goroot" PATH="$goroot/bin:$PATH" GOPROXY=off GOFLAGS= CGO_ENABLED=0 GOCACHE="$work/go-cache"
export KUBE_GIT_VERSION_FILE="$work/version" HOME="$work" MAKEFLAGS=
(
  cd "$work/tree"
  make generated_files
  make WHAT="${programs[*]/#/cmd/}"
) > "$cache/build.log" 2>&1 || { tail -n 20 "$cache/build.log" >&2; fail "the build failed; see $cache/build.log"; }

mkdir "$work/bin"
for program in "${programs[@]}"; do
  built="$(find "$work/tree/_output" -name "$program" -type f -perm -u+x | head -n 1)"
  [ -n "$built" ] || fail "the build did not produce $program"
  strip -o "$work/bin/$program" "$built" 2>/dev/null || cp "$built" "$work/bin/$program"
done
rm -rf "$cache/bin"
mv "$work/bin" "$cache/bin"
echo "kubernetes: $version is built"
