#!/usr/bin/env bash
# forked.sh CLIENT_H TEST_ATTACH_C: check that the test of a forked child calls
# every function of CLIENT_H, so that new functions are not forgotten.
set -eu
. "$(dirname "$0")/../../support/lines.sh"

bad=0
found=0
while read -r name; do
	found=$((found + 1))
	case $name in
	mpib_attach | mpib_run_dir | mpib_strerror) continue ;; # no client
	esac
	sed -n '/^static int ask_of_the_parents/,/^static void/p' "$2" |
		has "[^_a-z]$name(" && continue
	echo "$name(): not tested in a forked child"
	bad=1
done < <(grep -oE '^[a-z].*[ *]mpib_[a-z_]+\(' "$1" | grep -v typedef |
	grep -oE 'mpib_[a-z_]+\(' | tr -d '(' | sort -u)
[ "$found" -gt 20 ] || { echo "$1: no calls?"; bad=1; }
exit "$bad"
