#!/usr/bin/env bash
# plugin-tarball.sh PLUGIN VERSION DIR: pack the plugin alone into
# DIR/libnccl-net-mpib-VERSION-MACHINE.tar.xz. The tarball is for images that
# cannot install Debian packages: unpack it anywhere and give NCCL the path.
set -euo pipefail
plugin=$1 version=$2 out=$(realpath "$3")
CDPATH='' cd "$(dirname "$0")/.."
name=libnccl-net-mpib-$version-$(uname -m)
top=$(mktemp -d)
trap 'rm -rf "$top"' EXIT
mkdir -p "$top/$name" "$out"
cp "$plugin" LICENSE "$top/$name"
strip --strip-unneeded "$top/$name/$(basename "$plugin")"
cat >"$top/$name/README" <<EOF
NCCL's network plugin of mpib $version. It needs mpib-proxy $version on the node,
its run directory (/run/mpib) in the container, and the C library 2.17 or newer.

    export NCCL_NET_PLUGIN=/where/this/is/libnccl-net-mpib.so NCCL_NET=MPIB
    export MPIB_RUN_DIR=/run/mpib
EOF
tar -C "$top" -c --sort=name --owner=0 --group=0 --numeric-owner \
	--mode=u+rw,go=u-w --mtime="@$(stat -c %Y CMakeLists.txt)" "$name" |
	xz >"$out/$name.tar.xz"
echo "$out/$name.tar.xz"
