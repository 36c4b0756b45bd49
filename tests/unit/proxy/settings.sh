#!/usr/bin/env bash
# settings.sh PROXY [--update]: run each case of settings.cases. A line that
# begins with a bar has a line of the configuration file. A line
# "$ [VARIABLE=VALUE...] OPTION..." lets the proxy check this file, with these
# variables and options. The lines that follow are the expected answer: the
# settings that do not have their built-in values, each with its source. If the
# proxy exits with status 78, the answer is its errors. --update writes the
# answers.
set -uo pipefail
proxy=$1
cases=$(dirname "$0")/settings.cases
. "$(dirname "$0")/../../support/workdir.sh"

# settings FILE: print the settings of FILE, with their sources, except those
# that are also in the answer to the first case. The first case has only
# built-in values.
settings() {
	awk -v first="$dir/first" '
		/^\[/ { section = substr($0, 2, length($0) - 2); next }
		!/ =/ { next }
		{
			gsub(/ +;/, " ;")
			is = section "." $0
			if (FILENAME == first)
				built_in[is] = 1
			else if (!(is in built_in) && !/ ; environment MPIB_(HCA_SOUT|PEER_NETWORKS)$/)
				print is
		}' "$dir/first" "$1"
}

# run WORD...: run the proxy with these variables, followed by options. If the
# words name no device, use one software HCA.
run() {
	local rc=0 right=0 with=(--config /dev/null) hca=()
	[ ! -s "$dir/conf" ] || with=(--config "$dir/conf")
	[[ "$*$(tr -d '\0' <"${with[1]}")" =~ --sout|--device|'[device' ]] ||
		hca=(MPIB_HCA_SOUT=soft)
	[[ " $* " != *' --config '* ]] || with=()
	timeout 20 env -i "${hca[@]}" MPIB_PEER_NETWORKS=any "${@:1:vars}" \
		"$proxy" --check-config "${with[@]}" "${@:vars+1}" \
		>"$dir/out" 2>"$dir/err" || rc=$?
	[ -s "$dir/first" ] || cp "$dir/out" "$dir/first"
	{
		sed 's/^mpib-proxy: //' "$dir/err"
		settings "$dir/out"
		grep -q '^mpib-proxy: ' "$dir/err" && right=78
		[ $rc -eq "$right" ] || echo "exit $rc"
	} | sed "s:$dir/::g"
}

vars=0
run >/dev/null
while IFS= read -r line; do
	case $line in
	'|'*) printf '%b\n' "${line#|?}" >>"$dir/conf" ;;
	'$'*)
		read -ra words <<<"${line#?}"
		vars=0
		while [[ ${words[vars]:-} == *=* && ${words[vars]} != -* ]]; do
			vars=$((vars + 1))
		done
		;;
	'#'* | '') ;;
	*) continue ;;
	esac
	echo "$line"
	[ "${line:0:1}" = '$' ] || continue
	run "${words[@]}"
	rm -f "$dir/conf"
done <"$cases" >"$dir/all"
[ "${2-}" != --update ] || cp "$dir/all" "$cases"
diff -u "$cases" "$dir/all" || {
	echo "the answers differ from $cases (--update writes them)"
	exit 1
}
