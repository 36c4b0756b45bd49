#!/usr/bin/env bash
# manual.sh HEADERS... PAGES...: check that each function of the headers has
# exactly one page in section 3, that the pages describe no other functions, and
# that each error of the headers is documented.
set -eu
header=()
while [[ $1 == *.h ]]; do
	header+=("$1")
	shift
done

bad=0
declared=$(cat "${header[@]}" | tr '\n' ' ' | sed 's,/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/,,g' |
	grep -oE '\bmpib_[a-z_]+\(' | tr -d '(' | grep -v '_fn$' | sort -u)
named=$(for page in "$@"; do
	sed -n '/^# NAME/,/^# SYNOPSIS/p' "$page" | grep -oE '\bmpib_[a-z_]+' ||
		true
done | sort)
for f in $declared; do
	n=$(grep -cx "$f" <<<"$named" || true)
	[ "$n" -eq 1 ] && continue
	echo "$f() is declared in ${header[*]} and documented by $n pages"
	bad=1
done
for f in $named; do
	grep -qx "$f" <<<"$declared" && continue
	echo "$f() is documented by a page and not declared in ${header[*]}"
	bad=1
done
for e in $(grep -ohE -- '-E[A-Z0-9]+' "${header[@]}" | sort -u); do
	grep -q -- "\\*$e\\*" "$@" && continue
	echo "$e is listed in ${header[*]} and by no page"
	bad=1
done
[ "$(wc -w <<<"$declared")" -gt 20 ] || { echo "no functions at all?"; bad=1; }
exit "$bad"
