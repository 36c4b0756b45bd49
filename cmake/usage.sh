# shellcheck shell=bash
# Sourced by scripts that users run. --help prints the comment at the head of the
# script. Errors are one line: "name: what failed: why (remedy)".

# Use a decimal point in every locale: in a German locale awk reads 0.15 as 0.
export LC_ALL=C
usage_name=$(basename "$0")

# usage_wrong WHY: report a wrong command line and exit with status 2.
usage_wrong() {
	echo "$usage_name: command line: $1 (see $0 --help)" >&2
	exit 2
}

# usage_option OPTION: handle an option that the script itself does not know,
# and exit.
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

# usage_count OPTION VALUE: check that the value is a whole number, 1 to 999999.
# usage_seconds OPTION VALUE: check a number of seconds, with or without a
# decimal point.
usage_count() {
	[[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || usage_wrong "$1: \"$2\" is not 1..999999"
}
usage_seconds() {
	[[ $2 =~ ^[0-9]{1,5}(\.[0-9]+)?$ && $2 =~ [1-9] ]] ||
		usage_wrong "$1: \"$2\" is no number of seconds above 0"
}

# usage_file OPTION PATH: check that the file can be read.
usage_file() {
	[ -r "$2" ] || usage_wrong "$1: \"$2\" is no file to read"
}

# usage_value OPTION [VALUE]...: check that the option has a value.
usage_value() {
	[ $# -ge 2 ] || usage_wrong "$1 wants a value"
}
