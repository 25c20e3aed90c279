#!/usr/bin/env bash
# Builds the sample applications from source and pushes them to a registry.
#   scripts/samples.sh program                      only the static program; prints its path
#   scripts/samples.sh build OUT [REGISTRY]         images (OCI archives) in OUT/images, packages in OUT/packages
#   scripts/samples.sh push OUT REGISTRY [option…]  pushes what was built there to any registry; needs skopeo
# REGISTRY is HOST:PORT; packages, charts, compose files and manifests then refer to it. Without it they keep the name that
# devices resolve through a mirror. Options of push are those of `margrave app push` (--plain-http, --registry-ca FILE,
# --username NAME with --password-file FILE).
set -euo pipefail
cd "$(dirname "$0")/.."

written=registry.margrave.example
target="$(rustc -vV | sed -n 's/^host: //p')"
# A separate target folder: its flags differ from the workspace's, which would otherwise be rebuilt each time.
build_folder="${MARGRAVE_SAMPLES_TARGET:-target/static}"

# image, version, title
images=(
  "line-monitor 1.0.0 Line-Monitor"
  "line-monitor 1.1.0 Line-Monitor"
  "timeseries-store 4.0.2 Time-Series-Store"
  "vibration-analyser 2.3.0 Vibration-Analyser"
  "label-printer-bridge 0.9.2 Label-Printer-Bridge"
  "shift-board 1.0.0 Shift-Board"
)

program() {
  # With --target, the flags apply only to the program and not to build scripts.
  RUSTFLAGS="-C target-feature=+crt-static -C opt-level=s -C strip=symbols" cargo build --quiet --locked \
    -p margrave-sample-program --target "$target" --target-dir "$build_folder" >&2
  echo "$build_folder/$target/debug/margrave-sample-program"
}

build() {
  local out="$1" registry="${2:-$written}" binary root image version title
  binary="$(program)"
  root="$(mktemp -d)"
  # shellcheck disable=SC2064 # the folder is known now
  trap "rm -rf '$root'" EXIT
  mkdir -p "$root/data" "$out/images"
  install -m 755 "$binary" "$root/program"
  # Names of other containers are in files; the C library would query DNS first.
  mkdir -p "$root/etc"
  echo "hosts: files dns" > "$root/etc/nsswitch.conf"
  for entry in "${images[@]}"; do
    read -r image version title <<< "$entry"
    scripts/image.sh "$out/images/$image-$version.tar" "$registry/images/$image:$version" \
      "$(printf '{"Entrypoint":["/program"],"Env":["SAMPLE_NAME=%s","SAMPLE_VERSION=%s","SAMPLE_DATA=/data"],"ExposedPorts":{"8080/tcp":{}},"User":"65534:65534","StopSignal":"SIGKILL"}' "${title//-/ }" "$version")" \
      "$root"
  done
  rm -rf "$out/packages"
  mkdir -p "$out/packages"
  cp -R samples/*/ "$out/packages/"
  if [ "$registry" != "$written" ]; then
    grep -rlF "$written" "$out/packages" | while read -r file; do sed -i "s|${written//./\\.}|$registry|g" "$file"; done
  fi
  echo "samples: built in $out for $registry"
}

push() {
  local out="$1" registry="$2" username="" password="" tls=(--dest-tls-verify=true) credentials=() package=() folder image version
  shift 2
  while [ $# -gt 0 ]; do
    case "$1" in
      --plain-http) tls=(--dest-tls-verify=false); package+=("$1"); shift ;;
      --registry-ca)
        # skopeo expects a folder.
        folder="$(mktemp -d)"
        # shellcheck disable=SC2064 # the folder is known now
        trap "rm -rf '$folder'" EXIT
        cp "$2" "$folder/ca.crt"
        tls=(--dest-cert-dir "$folder"); package+=("$1" "$2"); shift 2 ;;
      --username) username="$2"; package+=("$1" "$2"); shift 2 ;;
      --password-file) password="$2"; package+=(--password-stdin); shift 2 ;;
      *) echo "samples: unknown option $1" >&2; exit 2 ;;
    esac
  done
  if [ -n "$username" ]; then
    # A file instead of an argument, which other users could read.
    local login
    login="$(mktemp)"
    printf '{"auths":{"%s":{"auth":"%s"}}}' "$registry" \
      "$(printf '%s:%s' "$username" "$(cat "$password")" | base64 -w 0)" > "$login"
    credentials=(--dest-authfile "$login")
    # shellcheck disable=SC2064 # the names are known now
    trap "rm -rf '$login' '${folder:-/nonexistent}'" EXIT
  fi
  for entry in "${images[@]}"; do
    read -r image version _ <<< "$entry"
    skopeo copy --quiet "${tls[@]}" "${credentials[@]}" "oci-archive:$out/images/$image-$version.tar" \
      "docker://$registry/images/$image:$version"
  done
  for folder_of in "$out"/packages/*/*/; do
    ./target/debug/margrave app push "$folder_of" --no-import --to "oci://$registry/apps/$(basename "$(dirname "$folder_of")")" \
      "${package[@]}" < "${password:-/dev/null}"
  done
}

case "${1:-}" in
  program) program ;;
  build) shift; build "$@" ;;
  push) shift; push "$@" ;;
  *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
