# shellcheck shell=bash
# For scripts that check which rails send. Such a script sources lines.sh first,
# and defines ctl(), which runs mpibctl for a node.

# sent RAIL: print how many bytes the rail has sent.
sent() {
	ctl rails -o label,tx_bytes | awk -v r="$1" '$1 == r { print $2 }'
}
# more RAIL THAN: return whether the rail has sent more than THAN bytes.
more() {
	[ "$(sent "$1")" -gt "$2" ]
}
# moves RAIL: wait until the rail has sent more bytes.
moves() {
	await more "$1" "$(sent "$1")" || fail "$1 sends nothing"
}
