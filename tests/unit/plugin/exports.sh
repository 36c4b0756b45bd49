#!/usr/bin/env bash
# exports.sh PLUGIN | exports.sh LIBRARY CLIENT_H
#
# Check that the plugin exports the five tables and nothing else, and that the
# loader never unmaps the plugin. Check that the client library exports exactly
# the functions that the header declares, each with a version. Both must load
# wherever NCCL loads, so they may need only the C library, in version 2.17 or
# older. RHEL 7 and all later images have version 2.17.
set -euo pipefail
. "$(dirname "$0")/../../support/lines.sh"
exported=$(nm -D --defined-only "$1")
if [ $# -eq 1 ]; then
	wanted=$(printf 'ncclNetPlugin_v%s\n' 8 9 10 11 12 | sort)
	found=$(awk '{ print $3 }' <<<"$exported" | sort)
else
	# The compiler removes the comments.
	wanted=$(${CC:-cc} -E -P -I "$(dirname "$2")/.." "$2" |
		sed '/^ *typedef/d' | grep -oE '\bmpib_[a-z_]+\(' | tr -d '(' | sort)
	[[ $wanted == *mpib_attach* ]] || {
		echo "$2 declares nothing?"
		exit 1
	}
	# The versions are symbols, too, but belong to no section.
	found=$(awk '$2 != "A" { print $3 }' <<<"$exported" |
		sed 's/@@MPIB_[0-9.]*$//' | sort)
fi
diff <(echo "$wanted") <(echo "$found") || {
	echo "exports differ: expected left, found right"
	exit 1
}
[ $# -eq 2 ] || readelf -d "$1" | has NODELETE || {
	echo "not marked nodelete: NCCL would unload it while its threads run"
	exit 1
}
# A sanitizer adds its runtime library, which needs newer versions.
nm -D --undefined-only "$1" | has -E ' __(asan|tsan|ubsan)_' && exit 0
libraries=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
	grep -vE '^(libc\.so\.6|ld-linux.*)$' || true)
[ -z "$libraries" ] || {
	echo "it needs more than the C library: $libraries"
	exit 1
}
versions=$(readelf -W --version-info "$1" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu)
newest=$(tail -n 1 <<<"$versions")
[ -n "$newest" ] || {
	echo "it refers to no version of the C library"
	exit 1
}
[ "$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.17 ] || {
	echo "it needs $newest of the C library, for:"
	nm -D --undefined-only "$1" | grep -F "@$newest"
	exit 1
}
# In versions before 2.34, these symbols are not in libc but in other libraries,
# which the program may not have loaded. Only weak symbols may be missing.
elsewhere=$(nm -D --undefined-only "$1" | grep -v ' w ' |
	grep -oE ' (pthread_(once|mutex_trylock|mutex_timedlock|create|join|key_create|getspecific|setspecific|rwlock_[a-z]*)|sem_[a-z]*|dl(open|sym|close|error)|shm_open|clock_nanosleep|lio_listio)(@|$)' || true)
[ -z "$elsewhere" ] || {
	echo "on older systems these are in another library than libc:$elsewhere"
	exit 1
}
