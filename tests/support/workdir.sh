# shellcheck shell=bash
# For scripts that write files. $dir is a temporary directory, which is removed
# when the script ends. If the script defines a function at_end, this function
# runs before $dir is removed.
workdir=$(mktemp -d "/tmp/mpib-$(basename "$0" .sh).XXXXXX") || exit 1
dir=$workdir

workdir_end() {
	# Do nothing in a child that is killed before its exec.
	[ "$BASHPID" -eq "$$" ] || return
	! declare -F at_end >/dev/null || at_end
	# Do not use $dir: the function that ends the script may have a local
	# variable $dir.
	rm -rf "$workdir"
}
trap workdir_end EXIT
