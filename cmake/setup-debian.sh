#!/usr/bin/env bash
# setup-debian.sh [tests|bench]: install what building mpib needs, on Debian 12,
# and nothing when it is there; with "tests" what all tests need, too, with
# "bench" what the commands of bench/ put beside mpib.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

lists=("$here/debian-packages.txt")
[ -n "${1:-}" ] && lists+=("$here/debian-packages-$1.txt")

missing=()
while read -r package; do
	dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null |
		grep -q '^install ok installed$' || missing+=("$package")
done < <(cat "${lists[@]}")
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ]; then
	echo "setup: these packages are missing: ${missing[*]}" >&2
	echo "setup: run this as root once, or: apt-get install ${missing[*]}" >&2
	exit 1
fi
echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { apt-get update -qq && apt-get install -y -qq \
	--no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	echo "setup: apt-get failed" >&2
	exit 1
fi
