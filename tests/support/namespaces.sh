# shellcheck shell=bash
# Sourced first by scripts that have namespaces of their own.

# enter_namespaces WHAT ARGUMENT...: go on as the first process of mount, pid and
# network namespaces, which end with it, in this script anew. Else WHAT is skipped.
enter_namespaces() {
	if [ "$(id -u)" -ne 0 ] || ! unshare -nmpf --mount-proc true 2>/dev/null; then
		echo "SKIPPED: $1, which wants root and namespaces"
		exit 77
	fi
	if [ -z "${MPIB_TEST_INSIDE:-}" ]; then
		MPIB_TEST_INSIDE=1 exec unshare -nmpf --kill-child --mount-proc \
			--propagation private "$(realpath "$0")" "${@:2}"
	fi
	# Whoever comes here otherwise, by a variable that was set, would kill all
	# that this machine runs.
	[ $$ -eq 1 ] || {
		echo "FAIL: MPIB_TEST_INSIDE is set outside of the namespaces"
		exit 1
	}
	unset MPIB_TEST_INSIDE
}
