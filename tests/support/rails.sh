# shellcheck shell=bash
# Sourced behind lines.sh by scripts that watch what rails send. They have ctl, which
# is mpibctl of a node, and fail.

# sent RAIL
sent() {
	ctl rails -o label,tx_bytes | awk -v r="$1" '$1 == r { print $2 }'
}
# more RAIL THAN
more() {
	[ "$(sent "$1")" -gt "$2" ]
}
# moves RAIL: until it has sent more.
moves() {
	await more "$1" "$(sent "$1")" || fail "$1 sends nothing"
}
