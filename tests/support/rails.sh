# shellcheck shell=bash
# Sourced after lines.sh by scripts that check which rails send. They define
# fail, and ctl to run mpibctl of a node.

# sent RAIL: print the bytes that it has sent.
sent() {
	ctl rails -o label,tx_bytes | awk -v r="$1" '$1 == r { print $2 }'
}
# more RAIL THAN: return whether it has sent more.
more() {
	[ "$(sent "$1")" -gt "$2" ]
}
# moves RAIL: wait until it has sent more.
moves() {
	await more "$1" "$(sent "$1")" || fail "$1 sends nothing"
}
