#!/usr/bin/env bash
# unit_calls.sh BUILD SOURCE: check that the systemd unit's system call filter
# allows every call that the proxy's own filter allows. The only exceptions are
# the calls by which the proxy becomes another user.
set -uo pipefail
. "$(dirname "$0")/../support/lines.sh"
source=$2
unit=$source/proxy/packaging/systemd/mpib-proxy.service.in

if ! systemd-analyze syscall-filter >/dev/null 2>&1; then
	echo "SKIPPED: the unit's calls: systemd-analyze does not list its sets"
	exit 77
fi

# refused: read a unit from standard input. Print the calls listed in
# proxy/privileges.c that the unit does not permit, in sorted order. The calls
# of @default are always permitted.
refused() {
	awk '
	function take(name, permitted, i, part, n) {
		if (name !~ /^@/) {
			may[name] = permitted
			return
		}
		n = split(of[name], part, " ")
		for (i = 1; i <= n; i++)
			take(part[i], permitted)
	}
	FILENAME == ARGV[1] && /^@/ { set = $1 }
	FILENAME == ARGV[1] && /^ +[@a-z_]/ { of[set] = of[set] " " $1 }
	FILENAME == ARGV[2] && sub(/^SystemCallFilter=/, "") {
		permitted = !sub(/^~/, "")
		for (i = 1; i <= NF; i++)
			take($i, permitted)
	}
	FILENAME == ARGV[3] && FNR == 1 { take("@default", 1) }
	FILENAME == ARGV[3] && /^\t"[a-z0-9_ ]+",$/ {
		gsub(/[",]/, "")
		for (i = 1; i <= NF; i++)
			if (!may[$i])
				print $i
	}' <(systemd-analyze syscall-filter 2>/dev/null) - "$source/proxy/privileges.c" |
		sort
}

# Under systemd, the proxy does not need the system calls listed here, because
# the unit sets the user and the limits.
other_user='capset chown fchown fchownat lchown seccomp setgid setgroups setresgid
setresuid setrlimit setuid'
for call in $(refused <"$unit"); do
	has -w "$call" <<<"$other_user" || fail "the unit refuses $call"
done
sed '/^SystemCallFilter=.*mbind/d' "$unit" | refused | has -x mbind ||
	fail "a call that the unit refuses was not detected"
exit "$failed"
