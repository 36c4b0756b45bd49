# shellcheck shell=bash
# Sourced by scripts that start programs: they have a folder $dir and addresses from
# $net, and what they put into pids, a list or by name, ends with them, as $dir does.
# They end with $failed, which fail sets.

. "$(dirname "${BASH_SOURCE[0]}")/workdir.sh"

scratch_end() {
	local pid
	# Of those that have ended the number may be another's by now.
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

# ready NAME: pids[NAME], which writes to $dir/NAME.out and .log, is; else all ends.
ready() {
	await_ready "$dir/$1.out" "${pids[$1]}" && return
	cat "$dir/$1.log"
	fail "$1 is not ready"
	exit 1
}
