#!/usr/bin/env bash
# exports.sh PLUGIN
#
# The plugin exports the five tables and nothing else, and the loader never
# unmaps it. It loads wherever NCCL does: it wants no library but that of C, and
# of that nothing newer than 2.17, which RHEL 7 and all images since have.
set -euo pipefail
. "$(dirname "$0")/../../support/lines.sh"
wanted=$(printf 'ncclNetPlugin_v%s\n' 10 11 12 8 9)
found=$(nm -D --defined-only "$1" | awk '{ print $3 }' | sort)
diff <(echo "$wanted") <(echo "$found") || {
	echo "exports differ: wanted left, found right"
	exit 1
}
readelf -d "$1" | has NODELETE || {
	echo "not marked nodelete: NCCL would unload it under its threads"
	exit 1
}
# A sanitizer's runtime is another library, and newer.
nm -D --undefined-only "$1" | has -E ' __(asan|tsan|ubsan)_' && exit 0
libraries=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
	grep -vE '^(libc\.so\.6|ld-linux.*)$' || true)
[ -z "$libraries" ] || {
	echo "it wants more than the C library: $libraries"
	exit 1
}
versions=$(readelf -W --version-info "$1" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu)
newest=$(tail -n 1 <<<"$versions")
[ -n "$newest" ] || {
	echo "no version of the C library is found in it"
	exit 1
}
[ "$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.17 ] || {
	echo "it wants $newest of the C library, for:"
	nm -D --undefined-only "$1" | grep -F "@$newest"
	exit 1
}
# Before 2.34 these are in libpthread alone, which a program need not have.
elsewhere=$(nm -D --undefined-only "$1" |
	grep -oE ' (pthread_(once|mutex_trylock|mutex_timedlock|create|join|key_create|getspecific|setspecific|rwlock_[a-z]*)|sem_[a-z]*|dl(open|sym|close|error)|shm_open|clock_nanosleep|lio_listio)(@|$)' || true)
[ -z "$elsewhere" ] || {
	echo "older systems have it in another library than that of C:$elsewhere"
	exit 1
}
