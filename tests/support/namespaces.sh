# shellcheck shell=bash
# Scripts that use separate namespaces source this file first.

# enter_namespaces WHAT ARGUMENT...: start this script again as the first
# process of new mount, pid and network namespaces, which end with that process.
# If the machine does not allow this, skip the test, which WHAT describes.
enter_namespaces() {
	if [ "$(id -u)" -ne 0 ] || ! unshare -nmpf --mount-proc true 2>/dev/null; then
		echo "SKIPPED: $1, which needs root and namespaces"
		exit 77
	fi
	if [ -z "${MPIB_TEST_INSIDE:-}" ]; then
		MPIB_TEST_INSIDE=1 exec unshare -nmpf --kill-child --mount-proc \
			--propagation private "$(realpath "$0")" "${@:2}"
	fi
	# Stop if the variable was set outside of the namespaces, because the
	# script would kill all processes of this machine.
	[ $$ -eq 1 ] || {
		echo "FAIL: MPIB_TEST_INSIDE is set outside of the namespaces"
		exit 1
	}
	unset MPIB_TEST_INSIDE
}
