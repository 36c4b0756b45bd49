# shellcheck shell=bash
# For scripts that write files. $dir is a temporary directory, which is removed
# when the script ends. If the script defines a function at_end, this function
# runs before $dir is removed.
workdir=$(mktemp -d "/tmp/mpib-$(basename "$0" .sh).XXXXXX") || exit 1
dir=$workdir

workdir_end() {
	# A child that is killed before its exec also runs this trap. Do nothing
	# there.
	[ "$BASHPID" -eq "$$" ] || return
	! declare -F at_end >/dev/null || at_end
	# Do not use $dir here, because the function that ended the script may
	# have a local variable $dir.
	rm -rf "$workdir"
}
trap workdir_end EXIT
