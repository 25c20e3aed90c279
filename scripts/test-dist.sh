#!/usr/bin/env bash
# Tests what `make dist` makes, on binaries that are built: units, installing, removing, images.
#   scripts/test-dist.sh [PROFILE]     debug, as the tests have built them, unless told otherwise
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/own-docker.sh

work="$(mktemp -d)"
cleanup() {
  own_docker_stop
  rm -rf "$work"
}
trap cleanup EXIT
fail() { echo "test-dist: $1" >&2; exit 1; }
step() { echo "test-dist: $1"; }

profile="${1:-debug}"
BUILT=yes scripts/dist.sh "$work/dist" "$profile"
(cd "$work/dist" && sha256sum --quiet -c SHA256SUMS) || fail "SHA256SUMS does not fit"

step "the packages hold what their units name"
for package in margrave margrave-agent; do
  deb="$(echo "$work/dist/${package}_"*.deb)"
  mkdir -p "$work/$package"
  dpkg-deb -x "$deb" "$work/$package"
  [ "$(dpkg-deb --field "$deb" Package)" = "$package" ] || fail "$deb does not say what it is"
  # The program, its unit, its settings, its documents; nothing else.
  others="$(cd "$work/$package" && find . -type f | grep -vE "^\./(usr/bin/$package|usr/lib/systemd/system/$package\.service|etc/margrave/[a-z]+\.toml|usr/share/doc/$package/.*)$" || true)"
  [ -z "$others" ] || fail "$deb holds what it should not: $others"
  # Everything belongs to root.
  others="$(dpkg-deb --contents "$deb" | awk '$2 != "root/root"')"
  [ -z "$others" ] || fail "$deb: files of others: $others"
  unit="$work/$package/usr/lib/systemd/system/$package.service"
  scripts/check-unit.sh "$unit" "$work/$package" || fail "$package.service cannot be used"
  if command -v systemd-analyze >/dev/null 2>&1; then
    # Programs are looked for on this machine: name those of the package.
    sed "s|/usr/bin/$package|$work/$package/usr/bin/$package|" "$unit" > "$work/$package.service"
    said="$(systemd-analyze verify --man=no --recursive-errors=no "$work/$package.service" 2>&1)" ||
      fail "systemd-analyze: $said"
  fi
done
"$work/margrave/usr/bin/margrave" config show --config "$work/margrave/etc/margrave/server.toml" >/dev/null ||
  fail "server.toml cannot be used"
sed "s|/var/lib/margrave-agent|$work/state|" "$work/margrave-agent/etc/margrave/agent.toml" > "$work/agent.toml"
mkdir -p "$work/state"
"$work/margrave-agent/usr/bin/margrave-agent" config check "$work/agent.toml" >/dev/null || fail "agent.toml cannot be used"

step "installing, upgrading, removing and purging leaves nothing"
root="$work/root"
mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info" "$root/etc" "$root/var/lib/private" "$root/usr"
: > "$root/var/lib/dpkg/status"
: > "$root/var/lib/dpkg/available"
# Scripts run here, with DPKG_ROOT naming the folder; what the packages depend on is this machine's business.
packages() {
  dpkg --root="$root" --force-script-chrootless --force-not-root --force-depends --no-triggers --log=/dev/null "$@" \
    >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; fail "dpkg $1"; }
}
content() { (cd "$root" && find . -path ./var/lib/dpkg -prune -o -print | sort); }
content > "$work/before"
packages -i "$work"/dist/*.deb
"$root/usr/bin/margrave" --version >/dev/null || fail "the installed margrave does not run"
"$root/usr/bin/margrave-agent" --version >/dev/null || fail "the installed margrave-agent does not run"
(cd "$root" && md5sum --quiet -c var/lib/dpkg/info/margrave.md5sums var/lib/dpkg/info/margrave-agent.md5sums) ||
  fail "installed files are not those of the packages"
# What the services would have made, and a setting somebody changed.
mkdir -p "$root/var/lib/margrave-agent/identity" "$root/var/lib/private/margrave"
echo "# ours" >> "$root/etc/margrave/agent.toml"
packages --force-confold -i "$work"/dist/*.deb
grep -q '^# ours$' "$root/etc/margrave/agent.toml" || fail "an upgrade lost a setting"
packages -r margrave margrave-agent
[ ! -e "$root/usr/bin/margrave-agent" ] || fail "the program is there after removal"
[ -d "$root/var/lib/margrave-agent/identity" ] || fail "removal took the state along; that is for purge"
packages --purge margrave margrave-agent
content > "$work/after"
# Folders that other packages own as well may stay, files may not.
diff "$work/before" "$work/after" >/dev/null || {
  left="$(comm -13 "$work/before" "$work/after")"
  [ -z "$left" ] || fail "left behind after purge: $left"
}

step "the images run in a Docker engine"
own_docker_start "$work/docker"
for name in margrave margrave-agent; do
  docker load --quiet -i "$work/dist/$name-image.tar" >/dev/null
done
version="$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)"
for name in margrave margrave-agent; do
  said="$(docker run --rm --network host "$name:$version" --version)" || fail "the image $name does not run"
  [[ "$said" == *"$version"* ]] || fail "the image $name says $said"
  # Nothing to break into: no shell, and nobody's program but those it is made of.
  ! docker run --rm --network none --entrypoint /bin/sh "$name:$version" -c true >/dev/null 2>&1 ||
    fail "the image $name holds a shell"
done

scripts/test-agent-container.sh "$work/dist" "$version" "$profile" || fail "the agent as a container does not do its work"
echo "test-dist: all is well"
