# shellcheck shell=bash
# This file sets $net to the first three bytes of
# addresses that no other test or bench uses. Tests run at the same time, and a
# proxy listens at the address of its rail. The script that sources this file
# owns all addresses that begin with ${net%.*}, so the script may also use other
# values of the third byte. The claim is a lock on a file, which is held until
# this shell and the programs that it started have ended. addr.h does the same
# for programs.
net_files=()

# net_claim: claim one more network for this shell, and set $net to it.
net_claim() {
	local i n file
	for ((i = 0; i < 60000; i++)); do
		n=$((128 + ($$ + i) % 100)) file=/tmp/mpib-net.$n
		[ -e "$file" ] || (umask 022 && set -C && : >"$file") 2>/dev/null
		if { exec {net_lock}<"$file"; } 2>/dev/null; then
			# Do not use a file that the last process with the lock
			# has removed.
			flock -n "$net_lock" && [ "$file" -ef "/proc/self/fd/$net_lock" ] &&
				break
			exec {net_lock}<&-
		fi
		[ $((i % 100)) -lt 99 ] || sleep 0.1
	done
	[ "$i" -lt 60000 ] || {
		echo "no network of 127.128 to 127.227 is free (fuser -v /tmp/mpib-net.*), or /tmp cannot be written" >&2
		exit 1
	}
	net_files+=("$file")
	# shellcheck disable=SC2034
	net=127.$n.$(($$ % 250))
}

# net_release: remove the lock files after the last program has stopped using
# the addresses.
net_release() {
	rm -f "${net_files[@]}" 2>/dev/null
	net_files=()
}
net_claim
