# shellcheck shell=bash
# Sourced by scripts that write files. $dir is a temporary directory, which is
# removed when they end. A script that must release other things defines at_end,
# which runs before that.
workdir=$(mktemp -d "/tmp/mpib-$(basename "$0" .sh).XXXXXX") || exit 1
dir=$workdir

workdir_end() {
	# A child that is killed before its exec runs this trap, too.
	[ "$BASHPID" -eq "$$" ] || return
	! declare -F at_end >/dev/null || at_end
	# The function that ends the script may have its own local $dir.
	rm -rf "$workdir"
}
trap workdir_end EXIT
