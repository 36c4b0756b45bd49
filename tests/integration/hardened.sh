#!/usr/bin/env bash
# hardened.sh BUILD: check that every installed program and library has these
# protections: a random load address (PIE), tables that are read-only after the
# start (RELRO, BIND_NOW), a stack that is guarded and not executable, and
# checked copies (FORTIFY). To test itself, the script also checks a program
# without these protections.
set -uo pipefail
build=$(realpath "$1")
. "$(dirname "$0")/../support/workdir.sh"
. "$(dirname "$0")/../support/lines.sh"

# lacks FILE: print a word for each missing protection.
lacks() {
	local all
	all=$(readelf -hldW --dyn-syms "$1")
	grep -qE 'Type: +DYN' <<<"$all" || echo PIE
	grep -q GNU_RELRO <<<"$all" || echo RELRO
	grep -qE 'BIND_NOW|FLAGS_1.* NOW' <<<"$all" || echo BIND_NOW
	grep -qE 'GNU_STACK .* RW ' <<<"$all" || echo NX
	grep -q __stack_chk_fail <<<"$all" || echo CANARY
	grep -qE '__[a-z]+_chk@' <<<"$all" || echo FORTIFY
}

DESTDIR=$dir/root cmake --install "$build" >"$dir/log" 2>&1 ||
	{ cat "$dir/log"; exit 1; }
looked=
while read -r file; do
	readelf -h "$file" >/dev/null 2>&1 || continue
	looked+=" $(basename "$file") "
	for what in $(lacks "$file"); do
		fail "${file#"$dir/root"} has no $what"
	done
done < <(find "$dir/root" -type f ! -name '*.a')
for name in mpib-proxy mpibctl mpib-top mpib-agent mpib-perf \
	libnccl-net-mpib.so; do
	[[ $looked == *" $name "* ]] || fail "$name is not installed"
done
[[ $looked == *" libmpib.so."* ]] || fail "libmpib.so is not installed"
symbols=$(find "$dir/root" -name '*.a' -exec nm {} +)
grep -q 'U __stack_chk_fail' <<<"$symbols" || fail "libmpib.a has no CANARY"

# Build a program without the protections.
echo 'int main(void) { return 0; }' >"$dir/open.c"
compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
"$compiler" -U_FORTIFY_SOURCE -fno-stack-protector -no-pie -o "$dir/open" \
	-Wl,-z,norelro,-z,lazy,-z,execstack "$dir/open.c" >"$dir/log" 2>&1 ||
	fail "no counterexample: $(<"$dir/log")"
[ "$(lacks "$dir/open" | tr '\n' ' ')" = \
	"PIE RELRO BIND_NOW NX CANARY FORTIFY " ] ||
	fail "an unprotected program is said to lack only: $(lacks "$dir/open")"
exit "$failed"
