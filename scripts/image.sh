#!/usr/bin/env bash
# Builds a container image FROM scratch without an engine: an archive that is both an OCI layout (skopeo, podman,
# containerd, newer Docker) and a Docker archive (any `docker load`). The same files give the same digests.
#   scripts/image.sh OUT.tar NAME:TAG CONFIG-JSON ROOT-FOLDER
# CONFIG-JSON is the `config` member of an image configuration: Entrypoint, Env, User, ...
set -euo pipefail
[ $# = 4 ] || { echo "usage: $0 OUT.tar NAME:TAG CONFIG-JSON ROOT-FOLDER" >&2; exit 2; }
out="$1" name="$2" config="$3" root="$4"

case "${MARGRAVE_ARCH:-$(uname -m)}" in
  x86_64 | amd64) architecture=amd64 ;;
  aarch64 | arm64) architecture=arm64 ;;
  *) echo "image: unsupported architecture ${MARGRAVE_ARCH:-$(uname -m)}; set MARGRAVE_ARCH" >&2; exit 1 ;;
esac

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
blobs="$work/layout/blobs/sha256"
mkdir -p "$blobs"

digest() { sha256sum "$1" | cut -d ' ' -f 1; }
# Names a file by its content; prints the digest.
blob() {
  local name
  name="$(digest "$1")"
  mv "$1" "$blobs/$name"
  echo "$name"
}

# Everything belongs to root except the folders data and state, which belong to the user of the image (65534).
tar_options=(--sort=name --mtime=@0 --format=ustar --numeric-owner)
tar "${tar_options[@]}" --owner=0 --group=0 --exclude=./data --exclude=./state -C "$root" -cf "$work/layer.tar" .
for writable in data state; do
  [ ! -d "$root/$writable" ] ||
    tar "${tar_options[@]}" --owner=65534 --group=65534 -C "$root" -rf "$work/layer.tar" "./$writable"
done
diff_id="$(digest "$work/layer.tar")"
gzip -n "${MARGRAVE_GZIP:--6}" "$work/layer.tar"
layer_size="$(stat -c %s "$work/layer.tar.gz")"
layer="$(blob "$work/layer.tar.gz")"

printf '{"created":"1970-01-01T00:00:00Z","architecture":"%s","os":"linux","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"1970-01-01T00:00:00Z","created_by":"scripts/image.sh"}]}' \
  "$architecture" "$config" "$diff_id" > "$work/config"
config_size="$(stat -c %s "$work/config")"
config_digest="$(blob "$work/config")"

manifest_type=application/vnd.oci.image.manifest.v1+json
printf '{"schemaVersion":2,"mediaType":"%s","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:%s","size":%s}]}' \
  "$manifest_type" "$config_digest" "$config_size" "$layer" "$layer_size" > "$work/manifest"
manifest_size="$(stat -c %s "$work/manifest")"
manifest="$(blob "$work/manifest")"

layout="$work/layout"
printf '{"imageLayoutVersion":"1.0.0"}' > "$layout/oci-layout"
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"%s","digest":"sha256:%s","size":%s,"platform":{"architecture":"%s","os":"linux"},"annotations":{"io.containerd.image.name":"%s","org.opencontainers.image.ref.name":"%s"}}]}' \
  "$manifest_type" "$manifest" "$manifest_size" "$architecture" "$name" "${name##*:}" > "$layout/index.json"
printf '[{"Config":"blobs/sha256/%s","RepoTags":["%s"],"Layers":["blobs/sha256/%s"]}]' \
  "$config_digest" "$name" "$layer" > "$layout/manifest.json"

mkdir -p "$(dirname "$out")"
tar "${tar_options[@]}" --owner=0 --group=0 -C "$layout" -cf "$work/image.tar" .
mv "$work/image.tar" "$out"
