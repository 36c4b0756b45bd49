#!/usr/bin/env bash
# The seeds of seeds.txt, each twice: none fails, and each is the same both times.
set -euo pipefail
CDPATH='' cd "$(dirname "$0")"
rc=0
while read -r seed _; do
	messages=${seed#*/}
	[ "$messages" != "$seed" ] || messages=1000
	./run --seed "${seed%/*}" --messages "$messages" >/dev/null || rc=1
done < <(sed '/^#/d;/^$/d' seeds.txt)
exit $rc
