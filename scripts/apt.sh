# Sourced by setup.sh, tools.sh and kubernetes.sh: installs packages of the system's release and of other releases.

can_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

# Prevents services from starting, because the tests start their own.
apt_install() {
  can_apt || { echo "missing packages, install them manually (automatic installation needs Debian and root): $*" >&2; return 1; }
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

# The mirror of the system: the first source with the release of this machine.
system_mirror() {
  local release
  release="$(system_release)"
  {
    awk -v suite="$release" '$1 == "deb" { for (i = 2; i < NF; i++) if ($i ~ /:\/\// && $(i + 1) == suite) print $i }' \
      /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null || true
    awk -v suite="$release" '
      /^URIs:/ { uri = $2 }
      /^Suites:/ { for (i = 2; i <= NF; i++) if ($i == suite && uri != "") print uri }
      /^$/ { uri = "" }' /etc/apt/sources.list.d/*.sources 2>/dev/null || true
  } | head -n 1
}

system_release() { (. /etc/os-release && echo "${VERSION_CODENAME:-}"); }

# apt with its own state in the folder $1, so that the system is not changed: `suite_apt FOLDER ARGUMENTS…`.
# Call `suite_use` first to set the suite of the folder.
suite_apt() {
  local work="$1"
  shift
  apt-get -qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/nonexistent \
    -o "Dir::State=$work/state" -o "Dir::State::status=$work/status" -o "Dir::Cache=$work/cache" \
    -o APT::Sandbox::User=root "$@"
}

# Initializes the folder $1 as apt state for packages of the suite $2, or for their sources with `deb-src` as $3.
suite_use() {
  local work="$1" suite="$2" kind="${3:-deb}" mirror
  command -v apt-get >/dev/null 2>&1 || { echo "this is not Debian: cannot download packages of $suite" >&2; return 1; }
  mirror="$(system_mirror)"
  [ -n "$mirror" ] || { echo "no apt source provides the release of this machine" >&2; return 1; }
  mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/download"
  : > "$work/status"
  echo "$kind [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" > "$work/sources.list"
  suite_apt "$work" update || { echo "cannot read the package list of $suite" >&2; return 1; }
}

# Unpacks packages of another suite into a folder: `suite_unpack FOLDER SUITE TARGET PACKAGE…`.
suite_unpack() {
  local work="$1" suite="$2" target="$3" package
  shift 3
  suite_use "$work" "$suite" || return 1
  for package in "$@"; do
    (cd "$work/download" && rm -f "${package}"_*.deb && suite_apt "$work" download "$package") ||
      { echo "cannot download $package of $suite" >&2; return 1; }
    dpkg -x "$work/download/$package"_*.deb "$target"
  done
}
