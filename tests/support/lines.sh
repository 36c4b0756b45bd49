# shellcheck shell=bash
# Functions for scripts that search text and wait for
# programs. The scripts exit with $failed, which fail() sets to 1.
failed=0
fail() {
	echo "FAIL: $*"
	failed=1
}

# has GREP-ARGUMENT...: return whether standard input has a matching line. Read
# all input, because "grep -q" in a pipe ends at the first match: SIGPIPE would
# then kill the writer, and with pipefail the pipe would fail.
has() {
	grep -q "$@" <<<"$(cat)"
}

# await COMMAND...: run the command until it succeeds, for at most a minute.
# Otherwise fail.
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

# await_ready OUT PID: wait until the program has written a line that begins
# with "ready" to OUT. Fail if the program ends without this line or does not
# write it within a minute.
await_ready() {
	local tries
	for ((tries = 0; tries < 1200; tries++)); do
		grep -qs '^ready' "$1" && return
		lives "$2" || break
		sleep 0.05
	done
	grep -qs '^ready' "$1"
}
