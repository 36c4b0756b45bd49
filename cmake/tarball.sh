#!/usr/bin/env bash
# tarball.sh NAME DIR: DIR/NAME.tar.xz of the sources this lies in: what git knows,
# or, where they came out of such a tarball or git refuses them as another user's,
# all but build folders. The same sources give the same file.
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
