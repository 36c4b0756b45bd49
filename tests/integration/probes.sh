#!/usr/bin/env bash
# probes.sh PROXY DOCS: check that the proxy has exactly the probes that
# docs/tracing.md names.
set -uo pipefail
command -v readelf >/dev/null || { echo "skipped: no readelf"; exit 77; }
echo '#include <sys/sdt.h>' | "${CC:-cc}" -E - >/dev/null 2>&1 ||
	{ echo "skipped: no sys/sdt.h (systemtap-sdt-dev)"; exit 77; }
there=$(readelf -n "$1" | awk '/Provider: mpib$/ { getline; print $2 }' |
	sort -u)
named=$(grep -oE '^\| `mpib:[a-z_]+`' "$2" | grep -oE ':[a-z_]+' | tr -d : |
	sort -u)
echo "in the proxy:" $there
[ -n "$named" ] && [ "$there" = "$named" ] && exit 0
echo "in $2:" $named
exit 1
