# shellcheck shell=bash
# Sourced by scripts that people run: --help is the comment at their head, and
# what is wrong is one line, "name: what failed: why (remedy)".

# Figures have a decimal point in any locale: awk in a German locale reads 0.15
# as 0.
export LC_ALL=C
usage_name=$(basename "$0")

# usage_wrong WHY: the command line cannot be used. Ends with 2.
usage_wrong() {
	echo "$usage_name: command line: $1 (see $0 --help)" >&2
	exit 2
}

# usage_option OPTION: one that the script itself does not know. Ends.
usage_option() {
	case $1 in
	-h | --help)
		sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "$0"
		exit 0
		;;
	-V | --version)
		echo "$usage_name $(sed -n 's/^project(mpib VERSION \([^ ]*\) .*/\1/p' \
			"$(dirname "${BASH_SOURCE[0]}")/../CMakeLists.txt")"
		exit 0
		;;
	-*) usage_wrong "$1 is no option" ;;
	esac
}

# usage_count OPTION VALUE: 1 to 999999, of digits. usage_seconds: they may have
# a point.
usage_count() {
	[[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || usage_wrong "$1: \"$2\" is not 1..999999"
}
usage_seconds() {
	[[ $2 =~ ^[0-9]{1,5}(\.[0-9]+)?$ && $2 =~ [1-9] ]] ||
		usage_wrong "$1: \"$2\" is no number of seconds above 0"
}

# usage_file OPTION PATH: it can be read.
usage_file() {
	[ -r "$2" ] || usage_wrong "$1: \"$2\" is no file to read"
}

# usage_value OPTION [VALUE]...: it must have one.
usage_value() {
	[ $# -ge 2 ] || usage_wrong "$1 wants a value"
}
