#!/usr/bin/env bash
# tarball.sh NAME DIR: pack the source tree of this script into DIR/NAME.tar.xz.
# In a git checkout, pack the files that git tracks. In an unpacked tarball, or
# if git refuses a tree of another user, pack everything except build folders.
# Packing the same sources again gives the same file.
set -euo pipefail
name=$1 out=$(realpath "$2")
CDPATH='' cd "$(dirname "$0")/.."
if [ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$PWD" ]; then
	when=$(git log -1 --format=%ct)
	files=$(git ls-files)
else
	when=$(stat -c %Y CMakeLists.txt)
	files=$(find . \( -name .git -o -path './build*' \) -prune -o \
		\( -type f -o -type l \) -printf '%P\n')
fi
mkdir -p "$out"
sort <<<"$files" | tar -c --no-recursion --owner=0 --group=0 --numeric-owner \
	--mode=u+rw,go=u-w --mtime="@$when" --transform="flags=r;s,^,$name/," -T - |
	xz -T0 >"$out/$name.tar.xz"
echo "$out/$name.tar.xz"
