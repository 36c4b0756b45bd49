#!/usr/bin/env bash
# client_example.sh BUILD SOURCE: check that docs/client.md quotes the example
# program unchanged. The program sends a message between two proxies. The test
# runs the program from the build folder. Then it compiles the program with
# pkg-config against the installed files, as a user would, and runs it again.
set -uo pipefail
build=$1 source=$2
# shellcheck source=../support/nodes.sh
. "$(dirname "$0")/../support/nodes.sh"

example=$source/docs/example/send.c
shown=$(sed -n "/^<!-- send.c: send -->/,/^\`\`\`$/p" \
	"$source/docs/client.md" | sed '1,2d;$d')
real=$(sed -n "/^\/\* \[send\]/,/^\/\* \[/p" "$example" | sed '1d;$d')
[ -n "$real" ] || fail "$example has no part send"
[ "$shown" = "$real" ] ||
	fail "docs/client.md: send differs: $(diff <(echo "$shown") \
		<(echo "$real"))"

# exchange PROGRAM
exchange() {
	MPIB_RUN_DIR=$dir/n0 timeout 60 "$1" receive 2>"$dir/received" |
		MPIB_RUN_DIR=$dir/n1 timeout 60 "$1" send 2>"$dir/sent" ||
		fail "$1: $(cat "$dir/received" "$dir/sent")"
	grep -qx '1048576 bytes, all right' "$dir/received" ||
		fail "$1 received: $(cat "$dir/received")"
}

pair_start
exchange "$build/docs/example/mpib-send"
if ! command -v pkg-config >/dev/null || [ "${3:-}" ]; then
	echo "SKIPPED: building it by pkg-config: ${3:-there is none}"
	[ "$failed" -eq 0 ] && exit 77
	exit 1
fi
for component in lib dev; do
	DESTDIR=$dir/root cmake --install "$build" --component $component \
		>"$dir/install" || fail "install: $(cat "$dir/install")"
done
pc=$(find "$dir/root" -name mpib.pc)
[ -n "$pc" ] || fail "there is no mpib.pc"
flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs mpib) ||
	fail "pkg-config"
[[ $flags == *$dir/root* ]] || fail "the flags are of another installation: $flags"
libraries=$(dirname "$(dirname "$pc")")
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -Wall -Werror -o "$dir/mpib-send" "$example" $flags ||
	fail "the example does not build outside the tree"
readelf -d "$dir/mpib-send" | has 'NEEDED.*\[libmpib\.so\.0\]' ||
	fail "the example does not use the shared library"
LD_LIBRARY_PATH=$libraries exchange "$dir/mpib-send"
# Link the example statically with the library, as docs/client.md describes.
# shellcheck disable=SC2086
${CC:-cc} -std=c11 -Wall -Werror -o "$dir/mpib-send" "$example" \
	${flags/-lmpib/-l:libmpib.a} || fail "it does not build with the archive"
exchange "$dir/mpib-send"

# Each installed header must compile alone, in C and in C++. Both libraries must
# work in a C++ program that CMake builds.
headers=$libraries/../include
for header in "$headers"/mpib/*.h; do
	for language in c:c11 c++:c++17 c++:c++11; do
		echo "#include <mpib/$(basename "$header")>" |
			${CC:-cc} -x ${language%:*} -std=${language#*:} -Wall -Wextra \
				-Werror -fsyntax-only -I "$headers" - ||
			fail "$(basename "$header") is not $language"
	done
done
mkdir "$dir/project"
cp "$source/tests/unit/abi/test_cxx.cpp" "$dir/project/"
cat >"$dir/project/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.22)
project(outside CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(PkgConfig REQUIRED)
pkg_check_modules(mpib REQUIRED IMPORTED_TARGET mpib mpib-vqp)
add_executable(outside test_cxx.cpp)
target_link_libraries(outside PRIVATE PkgConfig::mpib)
EOF
PKG_CONFIG_PATH=$(dirname "$pc") cmake -S "$dir/project" -B "$dir/project/build" \
	>"$dir/cmake" && cmake --build "$dir/project/build" >>"$dir/cmake" ||
	fail "a project of CMake: $(tail -n 20 "$dir/cmake")"
LD_LIBRARY_PATH=$libraries "$dir/project/build/outside" ||
	fail "a program in C++ ends with $?"
exit "$failed"
