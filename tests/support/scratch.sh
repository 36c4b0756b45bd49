# shellcheck shell=bash
# Sourced by scripts that start programs. $dir is a temporary directory, and
# $net has addresses. pids has the programs, as a list or by name. At the end
# the programs are killed and $dir is removed. The exit status is $failed, which
# fail() sets.

. "$(dirname "${BASH_SOURCE[0]}")/workdir.sh"

scratch_end() {
	local pid
	# The number of an ended process may already belong to another process.
	for pid in $(jobs -pr; jobs -ps); do
		kill -9 "$pid"
		wait "$pid"
	done 2>/dev/null
}
at_end() {
	scratch_end
}
. "$(dirname "${BASH_SOURCE[0]}")/addr.sh"
. "$(dirname "${BASH_SOURCE[0]}")/lines.sh"

# ready NAME: wait until pids[NAME], which writes to $dir/NAME.out and .log, is
# ready. If it is not, end the script.
ready() {
	await_ready "$dir/$1.out" "${pids[$1]}" && return
	cat "$dir/$1.log"
	fail "$1 is not ready"
	exit 1
}
