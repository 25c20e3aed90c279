# Sourced by setup.sh and tools.sh: installing packages of the system's own release.

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

# Services are kept from starting by themselves, since the tests start their own.
apt_install() {
  can_apt || { echo "install these yourself, they are not here and this is not Debian as root: $*" >&2; return 1; }
  export DEBIAN_FRONTEND=noninteractive
  local policy=/usr/sbin/policy-rc.d placed=no failed=no
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod +x "$policy"
    placed=yes
  fi
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@" >/dev/null; } || failed=yes
  [ "$placed" = no ] || rm -f "$policy"
  [ "$failed" = no ] || { echo "apt could not install: $*" >&2; return 1; }
}
