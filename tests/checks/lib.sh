# Sourced by the checks in this folder. A check reads the tree in CHECK_TOP. If
# CHECK_TOP is not set, the check reads the tree that contains this folder. A
# check prints one line per finding and fails if there is a finding.
# shellcheck shell=bash
set -uo pipefail
here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=${CHECK_TOP:-$(cd "$here/../.." && pwd)}
start=$PWD
cd "$top" || exit 1
jobs=$(nproc) build=

# need COMMAND PACKAGE: if COMMAND is missing, end the check as skipped.
need() {
	command -v "$1" >/dev/null && return
	echo "SKIP: no $1 (apt-get install $2)"
	exit 77
}

# build_at DIR: set $build. DIR may be relative to the folder in which the check
# was called.
build_at() {
	build=$(cd "$start" && CDPATH='' cd "${1:?which build}" && pwd) || exit 1
}

# files GLOB...: print the files of the tree whose last component matches, in
# sorted order. Files made by a build are not listed.
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

# Print the scripts for bash and sh: all files whose first line names bash or
# sh, or whose name ends with ".sh".
scripts() {
	files '*' | xargs -d '\n' awk 'FNR == 1 {
		if (/^#!.*[\/ ](ba|da)?sh( |$)/)
			print FILENAME
		nextfile
	}'
	files '*.sh'
}

# verdict FILE: print the findings, one per line, and end the check.
verdict() {
	local n
	n=$(wc -l <"$1")
	cat "$1"
	[ "$n" -eq 0 ] && exit 0
	echo "$(basename "$0"): $n findings"
	exit 1
}

. "$here/../support/workdir.sh"
