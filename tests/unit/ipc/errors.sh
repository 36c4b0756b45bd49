#!/usr/bin/env bash
# errors.sh CLIENT_H SOURCES...: each error that the client library makes by
# itself is listed in the header, and each that the header lists is made.
set -eu
. "$(dirname "$0")/../../support/lines.sh"
header=$1
shift

bad=0
made=$(cat "$@" | tr -d '\n\t' | grep -oE 'mpib_fail\( *-E[A-Z0-9]+' |
	grep -oE 'E[A-Z0-9]+$' | sort -u)
listed=$(grep -oE -- '-E[A-Z0-9]+' "$header" | tr -d - | sort -u)
for e in $made; do
	grep -qx "$e" <<<"$listed" && continue
	echo "-$e is made and not listed in $header"
	bad=1
done
for e in $listed; do
	case $e in
	# connect(2), accept() of a descriptor, and what the proxy answers.
	EACCES | ENOENT | ECONNREFUSED | ECONNRESET | EDQUOT | EFBIG | EPERM) continue ;;
	esac
	cat "$@" | has -w "$e" && continue
	echo "-$e is listed in $header and nothing makes it"
	bad=1
done
[ "$(wc -w <<<"$made")" -gt 5 ] || { echo "no errors at all?"; bad=1; }
exit "$bad"
