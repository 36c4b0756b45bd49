# shellcheck shell=bash
# Sourced by scripts that search text and wait. They exit with $failed, which
# fail() sets to 1.
failed=0
fail() {
	echo "FAIL: $*"
	failed=1
}

# has GREP-ARGUMENT...: return whether standard input has a matching line. It
# reads all input. grep -q at the end of a pipe stops earlier. The writer is
# then killed by SIGPIPE, and with pipefail a match counts as a failure.
has() {
	grep -q "$@" <<<"$(cat)"
}

# await COMMAND...: run the command until it succeeds, for at most a minute.
# Return failure if it never succeeds.
await() {
	local tries
	for ((tries = 0; tries < 1200; tries++)); do
		"$@" && return
		sleep 0.05
	done
	"$@"
}

# lives PID: return whether the process is running.
lives() {
	kill -0 "$1" 2>/dev/null
}

# await_ready OUT PID: wait for the first line of a program that prints a line
# when it is ready. Return failure if it prints no line or ends.
await_ready() {
	local tries
	for ((tries = 0; tries < 1200; tries++)); do
		grep -qs '^ready' "$1" && return
		lives "$2" || break
		sleep 0.05
	done
	grep -qs '^ready' "$1"
}
