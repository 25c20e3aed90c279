#!/usr/bin/env bash
# Builds the distribution: Debian packages and container images of the server and of the agent.
#   scripts/dist.sh [OUT [PROFILE]]     OUT defaults to dist/; PROFILE is release, or debug for tests
# With BUILT=yes existing binaries are used. Needs neither root nor a container engine.
set -euo pipefail
cd "$(dirname "$0")/.."

out="${1:-dist}"
profile="${2:-release}"
version="$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)"
case "$(uname -m)" in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) echo "dist: no packages for $(uname -m)" >&2; exit 1 ;;
esac
tools="${XDG_CACHE_HOME:-$HOME/.cache}/margrave/tools/bin"

if [ "${BUILT:-}" != yes ]; then
  if [ "$profile" = debug ]; then
    cargo build --locked -p margrave-cli -p margrave-agent
  else
    cargo build --locked --release -p margrave-cli
    # Built separately, for size: without features that only the server needs.
    cargo build --locked --profile device -p margrave-agent
    cp target/device/margrave-agent target/release/
  fi
fi
binaries="target/$profile"
compression=(-Zxz)
if [ "$profile" = debug ]; then
  # For tests only: fast rather than small.
  compression=(-Zgzip -z1)
  export MARGRAVE_GZIP=-1
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

# Strip debug information, which is not needed on devices.
binary() {
  install -D -m 755 "$binaries/$1" "$2"
  strip "$2" 2>/dev/null || true
}

# The required C library version is the newest symbol version that the program uses.
depends() {
  local newest
  newest="$(grep -aoE 'GLIBC_2\.[0-9]+' "$1" | sort -Vu | tail -n 1)"
  echo "libc6 (>= ${newest#GLIBC_}), libgcc-s1"
}

deb() {
  local package="$1" settings="$2" root="$work/$1" documents="$work/$1/usr/share/doc/$1"
  shift 2
  binary "$package" "$root/usr/bin/$package"
  install -D -m 644 "packaging/systemd/$package.service" "$root/usr/lib/systemd/system/$package.service"
  install -D -m 644 "packaging/etc/$settings" "$root/etc/margrave/$settings"
  install -D -m 644 LICENSE "$documents/copyright"
  for document in "$@"; do install -m 644 "$document" "$documents/"; done
  mkdir -p "$root/DEBIAN"
  install -m 755 packaging/deb/"$package"/{postinst,prerm,postrm} "$root/DEBIAN/"
  echo "/etc/margrave/$settings" > "$root/DEBIAN/conffiles"
  sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" \
    -e "s/@SIZE@/$(du -sk --exclude=DEBIAN "$root" | cut -f 1)/" \
    -e "s/@DEPENDS@/$(depends "$root/usr/bin/$package")/" "packaging/deb/$package/control" > "$root/DEBIAN/control"
  (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | sort | xargs md5sum > DEBIAN/md5sums)
  # The time of the last commit, so that the same sources give the same package.
  SOURCE_DATE_EPOCH="$(git log -1 --format=%ct 2>/dev/null || echo 0)" \
    dpkg-deb --root-owner-group "${compression[@]}" --build "$root" "$out/${package}_${version}_${architecture}.deb" >/dev/null
}

# Copies a program with its libraries to their expected locations.
with_libraries() {
  local root="$1" library
  shift
  for program in "$@"; do
    # A static program has no libraries.
    { ldd "$program" 2>/dev/null | grep -oE '/[^ ]+\.so[^ ]*' || true; } | sort -u | while read -r library; do
      [ -e "$root$library" ] || install -D -m 755 "$(readlink -f "$library")" "$root$library"
    done
  done
}

image() {
  local name="$1" config="$2" root="$work/image-$1"
  shift 2
  mkdir -p "$root/state" "$root/tmp" "$root/etc"
  chmod 1777 "$root/tmp"
  binary "$name" "$root/usr/bin/$name"
  with_libraries "$root" "$root/usr/bin/$name" "$@"
  printf 'root:x:0:0:root:/root:/\nnobody:x:65534:65534:nobody:/state:/\n' > "$root/etc/passwd"
  printf 'hosts: files dns\n' > "$root/etc/nsswitch.conf"
  # CAs of public registries; private CAs are configured.
  if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
  fi
  # Time zones, for connection policies with local times.
  if [ -d /usr/share/zoneinfo ]; then
    mkdir -p "$root/usr/share"
    cp -rL /usr/share/zoneinfo "$root/usr/share/zoneinfo"
    rm -rf "$root/usr/share/zoneinfo/right" "$root/usr/share/zoneinfo/posix"
  fi
  scripts/image.sh "$out/$name-image.tar" "$name:$version" "$config" "$root"
}

deb margrave server.toml README.md docs/configuration.md
deb margrave-agent agent.toml docs/guides/agent.md

image margrave '{"Entrypoint":["/usr/bin/margrave"],"Cmd":["--data","/state","serve"],"User":"65534:65534","Volumes":{"/state":{}},"WorkingDir":"/state","Env":["PATH=/usr/bin","HOME=/state"]}'

# The agent uses the engine's own programs; missing ones can be mounted.
agent_root="$work/image-margrave-agent"
programs=()
add_program() {
  local found
  found="$(PATH="$tools:$PATH" command -v "$1" || true)"
  [ -n "$found" ] || { echo "dist: $1 not found, the agent image does not include it"; return 0; }
  install -D -m 755 "$(readlink -f "$found")" "$agent_root$2"
  programs+=("$agent_root$2")
}
add_program docker /usr/bin/docker
add_program docker-compose /usr/libexec/docker/cli-plugins/docker-compose
add_program helm /usr/bin/helm
image margrave-agent '{"Entrypoint":["/usr/bin/margrave-agent"],"Cmd":["run"],"Env":["PATH=/usr/bin","HOME=/root"]}' "${programs[@]}"

install -m 644 packaging/container/*.compose.yaml "$out/"
mkdir -p "$out/kubernetes"
install -m 644 packaging/kubernetes/*.yaml "$out/kubernetes/"
(cd "$out" && sha256sum -- *.deb *.tar *.compose.yaml kubernetes/*.yaml > SHA256SUMS)
echo "dist: $(cd "$out" && echo *.deb *.tar)"
