#!/usr/bin/env bash
# exports.sh PRELOAD DROPIN: check that both libraries export all public
# functions of libibverbs and no others, and that the functions have the same
# symbol versions in the drop-in as in libibverbs.
set -uo pipefail
export LC_ALL=C
preload=$1 dropin=$2

defined() {
	nm -D --defined-only --with-symbol-versions "$1" |
		awk '$2 != "A" { print $3 }' | sed 's/@@/@/' | sort
}

# List the functions that programs may call. Leave out functions that only
# providers call, and versions before 1.1.
real=$(ldconfig -p | awk '/libibverbs\.so\.1 / { print $NF; exit }')
public=$(defined "$real" | grep -v -e IBVERBS_PRIVATE -e '^ibv_copy_' \
	-e ibv_register_driver)
current=$(awk -F@ '$2 != "IBVERBS_1.0" || !($1 in v) { v[$1] = $2 }
	END { for (n in v) print n "@" v[n] }' <<<"$public" | sort)

if ! diff <(echo "$current") <(defined "$dropin"); then
	echo "the drop-in (>) differs from $real (<)"
	exit 1
fi
missing=$(comm -23 <(cut -d@ -f1 <<<"$current" | sort) <(defined "$preload"))
if [ -n "$missing" ]; then
	echo "the preload library lacks $missing"
	exit 1
fi
if defined "$preload" | grep -vE '^_?ibv_|^(mbps|mult)_to_ibv_rate$'; then
	echo "the preload library exports more than ibv_*"
	exit 1
fi
