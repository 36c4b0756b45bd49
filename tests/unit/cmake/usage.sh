#!/usr/bin/env bash
# usage.sh SOURCE: check that scripts for users find their own folder when they
# are called as documented. They must find it even if CDPATH is exported,
# because CDPATH makes cd print the directory. Scripts must print numbers with a
# decimal point in any locale.
. "$(dirname "$0")/../../support/lines.sh"
cd "$1" || exit 1
said=$(LC_ALL=de_DE.UTF-8 bash -c '. cmake/usage.sh && echo "$LC_ALL"' 2>/dev/null)
[ "$said" = C ] || fail "figures are those of $said"

export CDPATH=.:/
commands=$(grep -lrE --exclude-dir='build*' '^\. "\$(top/cmake/usage|\(dirname "\$0"\)/lib)\.sh"' bench tests/run tests/soak tests/gpu tests/nccl tests/sim)
for command in $commands; do
	[ -x "$command" ] || continue
	said=$(timeout 20 "$command" --help 2>&1 >/dev/null) && [ -z "$said" ] ||
		fail "$command: ${said:0:300}"
done
[[ $commands == *bench/demo* && $commands == *tests/run* ]] ||
	fail "some commands were not found: $commands"
said=$(bash cmake/setup-debian.sh none 2>&1)
[[ $said == *": $1/cmake/debian-packages-none.txt: "* ]] || fail "setup: ${said:0:300}"
exit "$failed"
