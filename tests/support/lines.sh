# shellcheck shell=bash
# Sourced by scripts that search text and wait. They end with $failed, which fail
# sets.
failed=0
fail() {
	echo "FAIL: $*"
	failed=1
}

# has GREP-ARGUMENT...: whether standard input has such a line. All of it is read,
# which grep -q at the end of a pipe does not: its writer then dies of SIGPIPE,
# and with pipefail what was found counts as not found.
has() {
	grep -q "$@" <<<"$(cat)"
}

# await COMMAND...: until it succeeds, a minute at most. Fails if it never does.
await() {
	local tries
	for ((tries = 0; tries < 1200; tries++)); do
		"$@" && return
		sleep 0.05
	done
	"$@"
}

# lives PID
lives() {
	kill -0 "$1" 2>/dev/null
}

# await_ready OUT PID: the first line of a program that says when it serves. Fails
# if it never does, or ends.
await_ready() {
	local tries
	for ((tries = 0; tries < 1200; tries++)); do
		grep -qs '^ready' "$1" && return
		lives "$2" || break
		sleep 0.05
	done
	grep -qs '^ready' "$1"
}
