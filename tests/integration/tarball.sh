#!/usr/bin/env bash
# tarball.sh BUILD SOURCE: check the source archive that the target "release"
# makes. The unpacked archive must work outside of git: cmake must configure it,
# build the library and a program that uses the library, and make the same
# archive again.
set -uo pipefail
build=$(realpath "$1") source=$(realpath "$2")
. "$(dirname "$0")/../support/workdir.sh"
fail() {
	echo "FAIL: $*"
	exit 1
}

"$source/cmake/tarball.sh" mpib-x "$dir" >"$dir/log" 2>&1 || fail "$(<"$dir/log")"
tar -C "$dir" -xf "$dir/mpib-x.tar.xz" || fail "it does not unpack"
cd "$dir/mpib-x" || fail "it unpacks to another folder"
[ ! -e .git ] || fail "the archive has .git"
# The last of these files is a symbolic link in the repository.
for file in LICENSE README.md CMakePresets.json .ci/run docs/README.md \
	proxy/packaging/helm/mpib-proxy/files/mpib-alerts.yml; do
	[ -s "$file" ] || fail "$file is not in it"
done
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
cmake -S . -B build -G Ninja -DCMAKE_C_COMPILER="$compiler" \
	>"$dir/log" 2>&1 || fail "$(<"$dir/log")"
cmake --build build --target mpib mpib-send >"$dir/log" 2>&1 ||
	fail "$(tail -n 20 "$dir/log")"
[ -x build/docs/example/mpib-send ] || fail "it built nothing"
# Make a tree that git refuses to read, as it refuses the tree of another user.
mkdir .git && : >.git/config
cmake/tarball.sh mpib-x "$dir/again" >"$dir/log" 2>&1 || fail "$(<"$dir/log")"
diff <(tar -tf "$dir/mpib-x.tar.xz" | sort) \
	<(tar -tf "$dir/again/mpib-x.tar.xz" | sort) || fail "it packs other files"
cmp "$dir/mpib-x.tar.xz" "$dir/again/mpib-x.tar.xz" ||
	fail "the archive of the same files differs"
