# shellcheck shell=bash
# Sourced by the scripts in this folder, with the preload library as $lib and
# after the script that claims $net.
export MPIB_SOFT_DEVICES=soft0=$net.1,soft1=$net.2

# A sanitized library needs its runtime to be loaded first in programs that have
# none. Leaks of these programs are not reported. The software HCA is loaded a
# second time in programs of this project, which is not an error.
runtime=$(ldd "$lib" | awk '/lib(a|t|ub)san/ { print $3 }' | tr '\n' ' ')
preload=$runtime$lib
options=detect_leaks=0:detect_odr_violation=0
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}$options

need() {
	command -v "$1" >/dev/null && return
	echo "SKIP: $1 is not installed; Debian has it in $2"
	exit 77
}

listens() {
	grep -qiE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$1") [0-9A-F]+:0000 0A" \
		/proc/net/tcp /proc/net/tcp6
}
