# shellcheck shell=bash
#
# The scripts in this folder source this file, after they have set $lib to the
# preload library and have sourced addr.sh, which sets $net.
export MPIB_SOFT_DEVICES=soft0=$net.1,soft1=$net.2

# If the library is built with a sanitizer and the program is not, the
# sanitizer's runtime must be loaded first. Leaks of these programs are not
# reported. A program of this project contains the software HCA, as the library
# does. The sanitizer must accept that the symbols of the HCA are defined twice.
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
