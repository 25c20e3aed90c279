#!/usr/bin/env bash
# Tests the output of `make dist` with existing binaries: units, installation, removal, images.
#   scripts/test-dist.sh [PROFILE]     PROFILE defaults to debug, as built by the tests
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
(cd "$work/dist" && sha256sum --quiet -c SHA256SUMS) || fail "SHA256SUMS does not match"

step "the packages hold what their units name"
for package in margrave margrave-agent; do
  deb="$(echo "$work/dist/${package}_"*.deb)"
  mkdir -p "$work/$package"
  dpkg-deb -x "$deb" "$work/$package"
  [ "$(dpkg-deb --field "$deb" Package)" = "$package" ] || fail "$deb has a wrong package name"
  # Only the program, its unit, its configuration and its documents.
  others="$(cd "$work/$package" && find . -type f | grep -vE "^\./(usr/bin/$package|usr/lib/systemd/system/$package\.service|etc/margrave/[a-z]+\.toml|usr/share/doc/$package/.*)$" || true)"
  [ -z "$others" ] || fail "$deb contains unexpected files: $others"
  # Everything belongs to root.
  others="$(dpkg-deb --contents "$deb" | awk '$2 != "root/root"')"
  [ -z "$others" ] || fail "$deb: files not owned by root: $others"
  unit="$work/$package/usr/lib/systemd/system/$package.service"
  scripts/check-unit.sh "$unit" "$work/$package" || fail "$package.service is not valid"
  if command -v systemd-analyze >/dev/null 2>&1; then
    # Programs are resolved on this machine: use those of the package.
    sed "s|/usr/bin/$package|$work/$package/usr/bin/$package|" "$unit" > "$work/$package.service"
    said="$(systemd-analyze verify --man=no --recursive-errors=no "$work/$package.service" 2>&1)" ||
      fail "systemd-analyze: $said"
  fi
done
"$work/margrave/usr/bin/margrave" config show --config "$work/margrave/etc/margrave/server.toml" >/dev/null ||
  fail "server.toml is not valid"
sed "s|/var/lib/margrave-agent|$work/state|" "$work/margrave-agent/etc/margrave/agent.toml" > "$work/agent.toml"
mkdir -p "$work/state"
"$work/margrave-agent/usr/bin/margrave-agent" config check "$work/agent.toml" >/dev/null || fail "agent.toml is not valid"

step "installing, upgrading, removing and purging leaves nothing"
root="$work/root"
mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info" "$root/etc" "$root/var/lib/private" "$root/usr"
: > "$root/var/lib/dpkg/status"
: > "$root/var/lib/dpkg/available"
# Maintainer scripts run on this machine with DPKG_ROOT set to the folder; dependencies are not checked.
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
  fail "installed files differ from the packages"
# State that the services would create, and a changed setting.
mkdir -p "$root/var/lib/margrave-agent/identity" "$root/var/lib/private/margrave"
echo "# ours" >> "$root/etc/margrave/agent.toml"
packages --force-confold -i "$work"/dist/*.deb
grep -q '^# ours$' "$root/etc/margrave/agent.toml" || fail "an upgrade lost a setting"
packages -r margrave margrave-agent
[ ! -e "$root/usr/bin/margrave-agent" ] || fail "the program still exists after removal"
[ -d "$root/var/lib/margrave-agent/identity" ] || fail "removal deleted the state; only purge may do that"
packages --purge margrave margrave-agent
content > "$work/after"
# Folders shared with other packages may stay, files may not.
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
  # No shell and no other programs in the image.
  ! docker run --rm --network none --entrypoint /bin/sh "$name:$version" -c true >/dev/null 2>&1 ||
    fail "the image $name contains a shell"
done

scripts/test-agent-container.sh "$work/dist" "$version" "$profile" || fail "the agent container test failed"
echo "test-dist: passed"
