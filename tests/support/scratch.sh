# shellcheck shell=bash
# Sourced by scripts that start programs: they have a folder $dir and addresses from
# $net, and what they put into pids, a list or by name, ends with them, as $dir does.
# They end with $failed, which fail sets.
dir=$(mktemp -d /tmp/mpib-test.XXXXXX) || exit 1

scratch_end() {
	local pid
	# One that is killed before it is the program it is to be comes here, too.
	[ "$BASHPID" -eq "$$" ] || return
	# Of those that have ended the number may be another's by now.
	for pid in $(jobs -pr; jobs -ps); do
		kill -9 "$pid"
		wait "$pid"
	done 2>/dev/null
	rm -rf "$dir"
}
trap scratch_end EXIT
. "$(dirname "${BASH_SOURCE[0]}")/addr.sh"
. "$(dirname "${BASH_SOURCE[0]}")/lines.sh"

# ready NAME: pids[NAME], which writes to $dir/NAME.out and .log, is; else all ends.
ready() {
	await_ready "$dir/$1.out" "${pids[$1]}" && return
	cat "$dir/$1.log"
	fail "$1 is not ready"
	exit 1
}
