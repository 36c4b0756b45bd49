#!/usr/bin/env bash
# forks.sh DIR: check that a forked child initializes each static mutex of the
# plugin again, because the thread that held the mutex does not exist in the
# child.
set -eu

bad=0
found=0
for file in "$1"/*.c; do
	while read -r name; do
		found=$((found + 1))
		grep -q "pthread_mutex_init(&$name," "$file" && continue
		echo "$file: $name stays locked in a forked child"
		bad=1
	done < <(sed -n 's/^static pthread_mutex_t \([a-z_]*\) =.*/\1/p' "$file")
done
[ "$found" -gt 0 ] || { echo "$1: no mutex at all?"; bad=1; }
exit "$bad"
