#!/usr/bin/env bash
# documented.sh BUILD SOURCE: check that the manual has every setting with its
# actual default, every option and command, every field of an answer, and every
# event. metrics.sh checks the metrics, and messages.pl checks the messages.
set -uo pipefail
proxy=$1/proxy/mpib-proxy ctl=$1/proxy/mpibctl man=$2/proxy/man
completion=$2/proxy/ctl/completion
missing=0

need() {
	grep -qF -- "$2" "$1" && return
	echo "$1 does not have: $2"
	missing=1
}

section=
while read -r key equals value _; do
	case $key in
	'['*) section=$key && need "$man/mpib.conf.5.scd" "## $section" ;;
	?*)
		[ "$equals" = = ] || continue
		need "$man/mpib.conf.5.scd" "*${key//_/\\_}*, *--"
		case $section$value in
		*';' | '[hca]'*) ;;
		*) need "$man/mpib.conf.5.scd" "[$value]" ;;
		esac
		;;
	esac
done < <(env -i "$proxy" --config /dev/null --sout soft --check-config)
[ -n "$section" ] || { echo "no settings"; exit 1; }

for option in $("$proxy" --help | grep -oE '^  --[a-z-]+' | tr -d ' '); do
	grep -qF -- "*$option*" "$man"/mpib-proxy.8.scd \
		"$man"/mpib.conf.5.scd && continue
	echo "$man does not have the option: $option"
	missing=1
done
[ -z "$("$proxy" --help | awk 'length > 80')" ] || { echo "--help is wider than 80"; missing=1; }
while read -r noun verb _; do
	[ "${noun#--}" = "$noun" ] || continue
	grep -qF "*$noun* [*$verb*]" "$man/mpibctl.1.scd" ||
		need "$man/mpibctl.1.scd" "*$noun $verb*"
done < <("$ctl" --commands)
for option in $("$ctl" --help | grep -oE -- '--[a-z-]+') $("$ctl" --commands | grep ^--); do
	need "$man/mpibctl.1.scd" "*$option*"
	need "$completion/_mpibctl" "$option"
done
# The completion scripts for shells must offer the values of each argument,
# except for numbers and free text.
values=$(sed -n "s/^	\([^ ].*\)) .*;;/\1/p" "$completion/mpibctl.bash" | tr -d "'" |
	sed 's/ | /\n/g')
for arg in $("$ctl" --commands | grep -v ^-- | cut -d' ' -f3- | tr ' ' '\n' | sort -u); do
	case $arg in
	'[SECONDS]' | SECONDS | '[MINUTES]' | '[SINCE]' | VALUE | '[PATH]') ;;
	*)
		grep -qxF -- "$arg" <<<"$values" && continue
		echo "$completion/mpibctl.bash does not complete $arg"
		missing=1
		;;
	esac
done
for option in $("$1/proxy/mpib-top" --help | grep -oE -- '--[a-z-]+'); do
	need "$man/mpib-top.1.scd" "*$option*"
done
for option in $("$1/proxy/mpib-agent" --help | grep -oE -- '--[a-z-]+'); do
	need "$man/mpib-agent.8.scd" "*$option*"
done
commands=$(grep -oE '^	\{ "[a-z]+", "' "$2/proxy/stats/command.c" | grep -oE '[a-z]+')
[ -n "$commands" ] || { echo "no commands"; exit 1; }
for command in $commands; do
	need "$man/mpib-protocol.7.scd" "*$command*"
done
# The fields and words of answers are the lower-case strings in the files that
# write answers, and the names of the counters. The field "lifespan" is left
# out, because the proxy removes it from answers.
words=$({
	cat "$2"/proxy/view/*.c "$2"/proxy/cluster/*.c | sed 's:/\*.*\*/::' |
		grep -oE '"[a-z][a-z0-9_]*"' | tr -d '"' | grep -vx lifespan
	sed -nE 's/^	[MX]\((\w+), "(\w+)".*/\1\n\2/p' \
		"$2/runtime/engine/measure/counters.h" | grep -v '_ns$'
} | sort -u)
[ "$(wc -l <<<"$words")" -gt 100 ] || { echo "no fields"; exit 1; }
for word in $words; do
	grep -qE "(^|[_*\"( ])$word([_*\"), .]|\$)" "$man/mpib-protocol.7.scd" &&
		continue
	echo "$man/mpib-protocol.7.scd does not have the field or word: $word"
	missing=1
done
events=$(find "$2"/{proxy,runtime} -name '*.c' -exec cat {} + | tr '\n\t' '  ' |
	grep -oE 'mpib_event\([A-Z_a-z> -]*,[^&;]*' | grep -oE '"[a-z_]+"' |
	tr -d '"' | sort -u)
[ "$(wc -l <<<"$events")" -gt 10 ] || { echo "no events"; exit 1; }
for event in $events; do
	need "$man/mpib-protocol.7.scd" "*$event*"
done
# docs/versioning.md must list the versions that the code supports.
while read -r name number; do
	need "$2/docs/versioning.md" "\`$name\` $number"
done < <(grep -rhoE '#define MPIB_(ABI|PEER|HINT)_VERSION(_MIN)? [0-9]+' \
	"$2"/include/mpib "$2"/runtime/peer | cut -d' ' -f2-)
# The programs, the changelog and the examples must have the same version.
version=$("$proxy" --version | cut -d' ' -f2)
section=$(grep -m1 '^## ' "$2/CHANGELOG.md")
case $section in
"## [$version]" | "## [$version] - "*) ;;
*)
	echo "CHANGELOG.md begins with $section, but the programs are $version"
	missing=1
	;;
esac
need "$man/mpib-protocol.7.scd" "{\"mpib\":\"$version\","
need "$2/proxy/packaging/examples/kubernetes.yaml" "mpib-proxy:$version"
need "$2/proxy/packaging/helm/mpib-proxy/Chart.yaml" "appVersion: $version"
for alert in $(awk '/- alert:/ { if (name) print name; name = $3 }
	/description:/ { name = "" } END { print name }' \
	"$2"/proxy/metrics/share/*.yml); do
	echo "$alert has no description"
	missing=1
done
for option in $("$1/bench/mpib-perf" --help | grep -oE -- ' --[a-z-]+'); do
	need "$man/mpib-perf.1.scd" "*$option*"
done
# The list of known environment variables must have exactly the variables that
# programs read.
environ=$1/environ_names.c
read=$({
	"$proxy" --help | grep -oE 'MPIB_[A-Z_]+'
	grep -rhoE '(getenv\(|VARIABLE )"MPIB_[A-Z_]+' --include='*.c' "$2/runtime" \
		"$2/plugin" "$2/proxy" | grep -oE 'MPIB_.*'
} | sort -u)
for name in $read; do
	need "$environ" "\"$name\","
done
for name in $(grep -oE '^	"MPIB_[A-Z_]+' "$environ" | tr -d '	"'); do
	grep -qx "$name" <<<"$read" && continue
	echo "$environ has a name that no program reads: $name"
	missing=1
done
exit $missing
