# shellcheck shell=bash
# Sourced by scripts that start programs. $dir is a temporary directory, $net
# has addresses, and pids (a list, or by name) has the programs. The programs
# and $dir are removed at the end. The exit status is $failed, which fail sets.

. "$(dirname "${BASH_SOURCE[0]}")/workdir.sh"

scratch_end() {
	local pid
	# The number of an ended process may already belong to another.
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
# ready, or end the script.
ready() {
	await_ready "$dir/$1.out" "${pids[$1]}" && return
	cat "$dir/$1.log"
	fail "$1 is not ready"
	exit 1
}
