#!/usr/bin/env bash
# Run the seeds of seeds.txt twice each. No seed may fail, and both runs of a
# seed must be equal.
set -euo pipefail
CDPATH='' cd "$(dirname "$0")"
rc=0
while read -r seed _; do
	messages=${seed#*/}
	[ "$messages" != "$seed" ] || messages=1000
	./run --seed "${seed%/*}" --messages "$messages" >/dev/null || rc=1
done < <(sed '/^#/d;/^$/d' seeds.txt)
exit $rc
