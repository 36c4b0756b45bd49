#!/usr/bin/env bash
# setup-debian.sh [tests|bench]: install the Debian 12 packages that building
# mpib needs, if any is missing. With "tests", also install the packages that
# the tests need. With "bench", also install the packages that the commands of
# bench/ need.
set -euo pipefail
here=$(CDPATH='' cd "$(dirname "$0")" && pwd)

lists=("$here/debian-packages.txt")
[ -n "${1:-}" ] && lists+=("$here/debian-packages-$1.txt")

missing=()
while read -r package; do
	status=$(dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null) || status=
	grep -q '^install ok installed$' <<<"$status" || missing+=("$package")
done < <(cat "${lists[@]}")
[ ${#missing[@]} -eq 0 ] && exit 0

# Skip packages that only some tests or benches need and that this distribution
# does not have.
leave_unknown() {
	local package known=()
	# If apt has no package lists yet, it knows no package. In this case
	# skip no package.
	[ -n "$(apt-cache madison dpkg 2>/dev/null)" ] || return 0
	for package in "${missing[@]}"; do
		if grep -qxF "$package" "${lists[0]}" ||
			[ -n "$(apt-cache madison "$package" 2>/dev/null)" ]; then
			known+=("$package")
		else
			echo "setup: there is no package $package here" >&2
		fi
	done
	missing=("${known[@]}")
}

if [ "$(id -u)" -ne 0 ]; then
	leave_unknown
	[ ${#missing[@]} -eq 0 ] && exit 0
	echo "setup: these packages are missing: ${missing[*]}" >&2
	echo "setup: run this as root once, or: apt-get install ${missing[*]}" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed() {
	tail -n 20 "$log" >&2
	echo "setup: apt-get failed" >&2
	exit 1
}
apt-get update -qq >"$log" 2>&1 || failed
leave_unknown
[ ${#missing[@]} -eq 0 ] && exit 0
echo "setup: installing ${missing[*]}"
apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$log" 2>&1 || failed
