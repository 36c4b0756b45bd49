# shellcheck shell=bash
# For scripts that start programs. $dir is a temporary
# directory, and $net is the start of the addresses (addr.sh). The script stores
# the process IDs in $pids, as a list or by name. When the script ends, the
# programs are killed and $dir is removed. The exit status is $failed, which
# fail() sets.

. "$(dirname "${BASH_SOURCE[0]}")/workdir.sh"

scratch_end() {
	local pid
	# Kill only jobs of this shell: the ID of an ended process may already
	# belong to another process.
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

# ready NAME: wait until the program ${pids[NAME]}, which writes to
# $dir/NAME.out and $dir/NAME.log, is ready. If the program fails, end the
# script.
ready() {
	await_ready "$dir/$1.out" "${pids[$1]}" && return
	cat "$dir/$1.log"
	fail "$1 is not ready"
	exit 1
}
