# shellcheck shell=bash
# Sourced by scripts that write files: they have a folder $dir, which is removed when
# they end. A script with more to end defines at_end, which comes before that.
workdir=$(mktemp -d "/tmp/mpib-$(basename "$0" .sh).XXXXXX") || exit 1
dir=$workdir

workdir_end() {
	# A child that is killed before it is the program it is to be comes here, too.
	[ "$BASHPID" -eq "$$" ] || return
	! declare -F at_end >/dev/null || at_end
	# A function that ends the script may have a $dir of its own.
	rm -rf "$workdir"
}
trap workdir_end EXIT
