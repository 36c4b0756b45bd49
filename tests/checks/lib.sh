# Sourced by the checks of this room. They look at the tree in CHECK_TOP, or at
# the one they lie in, print one line a finding, and fail if there was any.
# shellcheck shell=bash
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=${CHECK_TOP:-$(cd "$here/../.." && pwd)}
start=$PWD
cd "$top" || exit 1
jobs=$(nproc) build=

# need COMMAND PACKAGE: without it the check is skipped.
need() {
	command -v "$1" >/dev/null && return
	echo "SKIP: no $1 (apt-get install $2)"
	exit 77
}

# build_at DIR: the build folder, named from where the check was called.
build_at() {
	build=$(cd "$start" && cd "${1:?which build}" && pwd) || exit 1
}

# files GLOB...: of the tree, sorted, by their last component; what a build
# made is none of it.
files() {
	local names=() glob
	if [ -e .git ] && git ls-files >/dev/null 2>&1; then
		git ls-files -co --exclude-standard -- "$@"
	else
		for glob in "$@"; do
			names+=(-o -name "$glob")
		done
		find . \( -name .git -o -path './build*' \) -prune -o \
			-type f \( "${names[@]:1}" \) -printf '%P\n'
	fi | sort -u | while read -r file; do
		[ -f "$file" ] && echo "$file"
	done
}

# The scripts for bash and sh, by their first line.
scripts() {
	files '*' | xargs -d '\n' awk 'FNR == 1 {
		if (/^#!.*[\/ ](ba|da)?sh( |$)/)
			print FILENAME
		nextfile
	}'
	files '*.sh'
}

# verdict FILE: what the check found, a line each; ends it.
verdict() {
	local n
	n=$(wc -l <"$1")
	cat "$1"
	[ "$n" -eq 0 ] && exit 0
	echo "$(basename "$0"): $n findings"
	exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
