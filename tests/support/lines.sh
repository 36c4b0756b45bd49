# shellcheck shell=bash
# Sourced by scripts that search text and wait. They exit with $failed, which
# fail sets.
failed=0
fail() {
	echo "FAIL: $*"
	failed=1
}

# has GREP-ARGUMENT...: return whether standard input has such a line. It reads
# all input. grep -q at the end of a pipe does not: the writer then dies of
# SIGPIPE, and with pipefail a match counts as a failure.
has() {
	grep -q "$@" <<<"$(cat)"
}

# await COMMAND...: run it until it succeeds, for at most a minute. Returns
# failure if it never does.
await() {
	local tries
	for ((tries = 0; tries < 1200; tries++)); do
		"$@" && return
		sleep 0.05
	done
	"$@"
}

# lives PID: return whether the process lives.
lives() {
	kill -0 "$1" 2>/dev/null
}

# await_ready OUT PID: wait for the first line of a program that prints when it
# is ready. Returns failure if it never does, or ends.
await_ready() {
	local tries
	for ((tries = 0; tries < 1200; tries++)); do
		grep -qs '^ready' "$1" && return
		lives "$2" || break
		sleep 0.05
	done
	grep -qs '^ready' "$1"
}
