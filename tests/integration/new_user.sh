#!/usr/bin/env bash
# new_user.sh BUILD SOURCE: try every command as a user who has not read the
# manual. Each error must be one line, "tool: what: why (remedy)". The exit
# status must be 1 for a failure, 2 for wrong usage, and 3 without a proxy.
# Tables must fit into 80 columns.
set -uo pipefail
build=$1 source=$2
. "$(dirname "$0")/../support/workdir.sh"
. "$(dirname "$0")/../support/lines.sh"
at_end() {
	# Read the pid from the file, because `mpibctl upgrade` has replaced the
	# process.
	[ -n "${proxy:-}" ] && kill "$(<"$run/proxy.pid")" && wait "$proxy"
}

# Copy the programs to a folder where every user may run them. The build folder
# may be closed to other users.
chmod 755 "$dir"
cp "$build/proxy/mpibctl" "$dir/"
export PATH=$dir:$PATH
unset MPIB_RUN_DIR NCCL_NET_PLUGIN

# refused STATUS COMMAND...
refused() {
	local want=$1 out err rc
	shift
	out=$("$@" 2>"$dir/err" </dev/null)
	rc=$? err=$(<"$dir/err")
	[ "$rc" -eq "$want" ] || fail "$*: status $rc, not $want: $err"
	[ -z "$out" ] || fail "$*: says on stdout: $out"
	[[ $err =~ ^mpib[a-z-]+:\ [^$'\n']+:\ [^$'\n']+\ \([^$'\n']+\)$ ]] ||
		fail "$*: not one line with what, why and remedy: $err"
}

# shown COMMAND...: check that the command succeeds and that its output fits a
# terminal.
shown() {
	local rc wide
	"$@" >"$dir/out" 2>"$dir/err" </dev/null
	rc=$?
	[ "$rc" -eq 0 ] || fail "$*: status $rc: $(<"$dir/err")"
	[ -s "$dir/out" ] || fail "$*: prints nothing"
	script -qec "$(printf '%q ' "$@")" /dev/null </dev/null |
		sed 's/\r//; s/\x1b\[[0-9;]*[a-zA-Z]//g' >"$dir/seen"
	wide=$(awk 'length > 80' "$dir/seen")
	[ -z "$wide" ] || fail "$*: wider than 80 columns: $wide"
}

# Print "1" for each required argument of a command.
words() {
	local word
	for word in $1; do
		[[ $word == \[* ]] || echo 1
	done
}

mpibctl --commands | grep -v ^-- >"$dir/commands" || fail "mpibctl --commands"
[ -s "$dir/commands" ] || fail "no commands"

refused 3 mpibctl -s "$dir/none"
refused 2 mpibctl nonsense
refused 2 mpibctl rials
refused 2 mpibctl --nonsense rails
refused 2 mpibctl rails -o
grep -q 'did you mean rails?' < <(mpibctl rials 2>&1) || fail "rials: no hint"
for option in --help --version; do
	shown mpibctl $option
done

none=$dir/none run=$dir/run
while read -r noun verb args; do
	need=$(words "$args")
	[[ $args == *'...]' ]] || refused 2 mpibctl -s "$none" "$noun" "$verb" 1 2 3 4
	[ -z "$need" ] || refused 2 mpibctl -s "$none" "$noun" "$verb"
	# Skip doctor and report, which do not fail immediately without a proxy.
	[[ $noun = doctor || $noun = report ]] || refused 3 mpibctl -s "$none" "$noun" "$verb" $need
done <"$dir/commands"
MPIB_RUN_DIR=$(printf 'x%.0s' {1..200}) refused 3 mpibctl rails
mpibctl -s "$none" doctor >"$dir/out"
[ $? -eq 3 ] || fail "doctor without a proxy does not end with 3"
grep -q '^FAIL  socket' "$dir/out" || fail "doctor does not find it missing"

. "$(dirname "$0")/../support/addr.sh"
MPIB_SUPBW=1 MPIB_AGENT_DIR=$dir/agent \
	"$build/proxy/mpib-proxy" --config /dev/null --run-dir "$run" \
	--sout "soft:$net.1" --sup "soft:$net.2" >"$dir/proxy.out" 2>&1 &
proxy=$!
await_ready "$dir/proxy.out" "$proxy" || { cat "$dir/proxy.out"; exit 1; }

# The proxy and a rank report an unknown variable and suggest the right name.
grep -q 'nothing reads MPIB_SUPBW (did you mean MPIB_SUP_BW?)' \
	"$dir/proxy.out" || fail "proxy: $(<"$dir/proxy.out")"
MPIB_RUNDIR=$run "$build/bench/mpib-perf" \
	--plugin "$build/plugin/libnccl-net-mpib.so" --nodes "$run" \
	--ranks-per-node 2 --max 1K --iters 1 --warmup 0 >"$dir/perf" 2>&1 ||
	fail "mpib-perf: $(<"$dir/perf")"
grep -q 'nothing reads MPIB_RUNDIR (did you mean MPIB_RUN_DIR?)' \
	"$dir/perf" || fail "plugin: $(<"$dir/perf")"

# Wait until the child runs mpibctl: a child that is killed before exec would
# run this script's trap.
begun() {
	[ "$(cat "/proc/$endless/comm")" = mpibctl ] &&
		{ [ "$noun" = events ] || [ -s "$dir/out" ]; }
}

export MPIB_RUN_DIR=$run
while read -r noun verb args; do
	[ -z "$(words "$args")" ] || continue
	case $noun-$verb in
	events-follow) # does not end by itself
		mpibctl "$noun" "$verb" >"$dir/out" 2>"$dir/err" &
		endless=$!
		await begun
		kill "$endless" || fail "$noun $verb ends: $(<"$dir/err")"
		wait "$endless"
		[ "$noun" = events ] || [ -s "$dir/out" ] || fail "$noun: nothing"
		[ "$noun" = events ] || [ -z "$(awk 'length > 80' "$dir/out")" ] ||
			fail "$noun: too wide"
		;;
	metrics-*) mpibctl "$noun" "$verb" | tail -n 1 | has -x '# EOF' ||
		fail "the answer to $noun $verb is not complete" ;;
	agent-*) refused 1 mpibctl agent ;; # no agent runs
	events-*) mpibctl events >"$dir/out" || fail "events" ;;
	*) shown mpibctl "$noun" "$verb" ;;
	esac
done <"$dir/commands"
refused 2 mpibctl rails -o nmae
refused 2 mpibctl rails -o ,
[ "$(mpibctl rails -o name,state | tr '\t\n' ' ;')" = "SOUT active;SUP active;" ] ||
	fail "fields: $(mpibctl rails -o name,state)"
mpibctl metrics >"$dir/m.prom" || fail "metrics"
grep -q '^mpib_rail_up{rail="SUP"} 1$' "$dir/m.prom" || fail "metrics: a rail"
refused 1 sh -c 'exec mpibctl rails >/dev/full'

# Use the commands that change state, first correctly, then incorrectly.
mpibctl rails drain SUP >"$dir/out" || fail "drain"
grep -q 'SUP' "$dir/out" || fail "drain says nothing"
mpibctl rails | has '^SUP .* drained' || fail "SUP is not drained"
refused 1 mpibctl rails drain SOUT
refused 1 mpibctl rails drain SIDEWAYS
mpibctl rails resume SUP >"$dir/out" || fail "resume"
mpibctl rails | has '^SUP .* active' || fail "SUP is not back"
mpibctl events -o text | has 'SUP is drained' || fail "no event of it"
mpibctl config set limit.readers 64 >"$dir/out" || fail "config set"
[ "$(mpibctl config -o key,value | sed -n "s/^readers\t//p")" = 64 ] ||
	fail "limit.readers is not set"
mpibctl config set log.level debug >"$dir/out" || fail "log"
refused 1 mpibctl config set log.level shouting
refused 1 mpibctl config set sup.bandwidth 1
refused 1 mpibctl config set limit.readers none
refused 1 mpibctl clients kick 77
refused 1 mpibctl conns 77
refused 1 mpibctl events yesterday
refused 1 mpibctl rails drain SUP SOUT
grep -q 'the reason "SOUT" is the name of a rail' "$dir/err" || fail "drain: $(<"$dir/err")"
refused 2 mpibctl rails drian SUP
grep -q 'rails does not take "drian" (did you mean drain?)' "$dir/err" ||
	fail "drian: $(<"$dir/err")"
refused 2 mpibctl conns 1 2
grep -q 'conns does not take "2"' "$dir/err" || fail "conns: $(<"$dir/err")"
if [ "$(id -u)" -eq 0 ]; then # in the group, without other rights
	member=(setpriv --reuid=65534 --regid=0 --clear-groups)
	"${member[@]}" "$dir/mpibctl" ping >"$dir/out" || fail "the group"
	refused 1 "${member[@]}" mpibctl rails drain SUP
	# Without the group mpib, only root can attach. Nobody may join root.
	if ! getent group mpib >/dev/null; then
		grep -q 'only root can attach: there is no group mpib' "$dir/proxy.out" ||
			fail "no group: $(<"$dir/proxy.out")"
		mpibctl doctor | grep -A2 'only root can attach' | has 'do not add users' ||
			fail "no group: $(mpibctl doctor)"
	fi
	cp "$build/proxy/mpib-proxy" "$dir/"
	refused 1 setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$dir/mpib-proxy" --config /dev/null \
		--run-dir "$run" --sout soft:127.0.0.1
	grep -q 'Permission denied (run mpib-proxy as its owner' "$dir/err" ||
		fail "root's directory: $(<"$dir/err")"
fi

# Try the same commands as a user without permission.
if [ "$(id -u)" -eq 0 ]; then
	other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
else
	other=() && chmod 0 "$run/stats.sock" "$run.admin/admin.sock"
fi
while read -r noun verb args; do
	[ "$noun" != report ] || continue
	# shellcheck disable=SC2046 # an argument for each
	[ "$noun" = doctor ] ||
		refused 3 "${other[@]}" mpibctl "$noun" "$verb" $(words "$args")
	grep -q 'Permission denied' "$dir/err" || fail "$noun: $(<"$dir/err")"
done <"$dir/commands"

# Completion must offer nouns and verbs.
complete_at() {
	bash -c 'source "$1"; shift; COMP_WORDS=("$@" ""); COMP_CWORD=$#
		_mpibctl; echo "${COMPREPLY[@]}"' bash \
		"$source/proxy/ctl/completion/mpibctl.bash" "$@"
}
[[ " $(complete_at mpibctl) " == *" clients "* ]] || fail "completion: nouns"
[[ " $(complete_at mpibctl -s x rails) " == *" drain "* ]] ||
	fail "completion: verbs"
exit "$failed"
