#!/usr/bin/env bash
# steer.sh BUILD: two proxies in adaptive mode and an agent with rules, ports (a
# tree of files in place of sysfs) and a list of maintenance. Where failures of
# a rail are not outlived a job dies with a QP; with the agent, which saw the
# port sicken, it goes on.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/steered.sh"
proxy_options=(--mode adaptive --failover=no --resume-grace=0 --fault=yes)
agent_options=(--sysfs "$dir/sys" --config "$dir/conf")

# told WHAT TEXT COMMAND...: until its output has the text.
told() {
	local what=$1 text=$2
	shift 2
	says() {
		"$@" >"$dir/told" 2>&1
		grep -q -- "$text" "$dir/told"
	}
	await says "$@" && return
	cat "$dir/told"
	fail "$what: nobody says: $text"
}
gone() {
	! lives "$1"
}
port() {
	mkdir -p "$dir/sys/class/infiniband/$1/ports/1/"{counters,hw_counters}
	cd "$dir/sys/class/infiniband/$1/ports/1" || exit 1
	echo "4: ACTIVE" >state
	echo "400 Gb/sec (4X NDR)" >rate
	echo 7 >counters/symbol_error
	echo 0 >hw_counters/np_cnp_sent
	cd - >/dev/null || exit 1
}
count() { # PORT COUNTER NUMBER
	echo "$3" >"$dir/new"
	mv "$dir/new" "$dir/sys/class/infiniband/$1/ports/1/$2"
}

port mlx5_0
port mlx5_1
cat >"$dir/conf" <<EOF
port sout mlx5_0 1 400   # with its speed
port sup mlx5_1 1
sick symbol_error 10
congested np_cnp_sent 1000
hold 100000
lead 0
maintenance $dir/windows
EOF
: >"$dir/windows"
"$build/proxy/mpib-agent" --config "$dir/conf" --check-config ||
	fail "the file is good and refused"

# Alone: a QP of SUP dies, and the job with it.
proxy 0
proxy 1
traffic
expect "no agent" '$1 > 0 && $2 > 0'
ctl fault play qp-kill SUP 1 >/dev/null || fail "no fault"
await gone "${pids[perf]}" || fail "the job outlived its QP alone"

traffic
agent
expect "an agent without a reason" '$1 > 0 && $2 > 0'
told "the status" '^1 connections are split as measured' agent_status
told "why" adaptive ctl why

# Congested: a quarter, and again as measured when it is over.
n=0
for _ in $(seq 100); do
	n=$((n + 20000))
	count mlx5_1 hw_counters/np_cnp_sent $n
	[ "$(ctl why -o source)" = hint ] && break
	sleep 0.1
done
expect "congested" '$1 == 3 * $2'
told "the status" 'SUP eased: mlx5_1/1: np_cnp_sent' ctl agent
sed -i 's/^hold .*/hold 1/' "$dir/conf"
kill -HUP "${pids[agent]}"
told "well again" adaptive ctl why

# A reload that is refused changes nothing; one that is not, does.
cp "$dir/conf" "$dir/good"
echo "rule peer nowhere static 1" >>"$dir/conf"
"$build/proxy/mpib-agent" --config "$dir/conf" --check-config \
	2>"$dir/refused" && fail "a rule for nowhere was taken"
grep -q "conf:8: peer nowhere: it takes" "$dir/refused" ||
	fail "refused without the line: $(cat "$dir/refused")"
kill -HUP "${pids[agent]}"
told "the reload" 'not reloaded: .*conf:8: peer nowhere' agent_status
expect "a bad file" '$1 > 0 && $2 > 0'
# Where it cannot be written that is told once, not at every look.
mkdir "$dir/agent/status.new"
holds() {
	[ "$(grep -c 'rules hold' "$dir/agent.log")" -eq "$1" ]
}
cp "$dir/good" "$dir/conf"
n=$(grep -c 'rules hold' "$dir/agent.log")
for i in 1 2 3; do
	kill -HUP "${pids[agent]}"
	await holds $((n + i)) || fail "no reload $i"
done
told "no status" 'is the disk full' cat "$dir/agent.log"
[ "$(grep -c 'is the disk full' "$dir/agent.log")" -eq 1 ] ||
	fail "told more than once: $(cat "$dir/agent.log")"
rmdir "$dir/agent/status.new"
(cat "$dir/good" && echo "rule uid 4242 static 0" &&
	echo "rule network $net.0/24 uid $(id -u) static 256") >"$dir/conf"
kill -HUP "${pids[agent]}"
expect "a rule by network and user" '$1 == 3 * $2'
told "the line of the rule" 'rule of line 9' agent_status
told "a field" 'rule of line 9' ctl agent -o why
cp "$dir/good" "$dir/conf"
kill -HUP "${pids[agent]}"
expect "the first file again" '$1 > 0 && $2 > 0 && $1 != 3 * $2'

# Maintenance of SOUT's way to that peer, then of nobody's.
echo "$net.2 sout 2001-01-01T00:00:00Z 2101-01-01T00:00:00Z" >"$dir/windows"
expect "maintenance" '$1 == 0'
told "the status" 'SOUT left: maintenance, line 1' agent_status
echo "$net.99 sout 2001-01-01T00:00:00Z 2101-01-01T00:00:00Z" >"$dir/windows"
told "another's maintenance" adaptive ctl why

# A dry run says the same and steers nothing.
end -TERM agent
agent --dry-run
echo "$net.2 sout 2001-01-01T00:00:00Z 2101-01-01T00:00:00Z" >"$dir/windows"
told "a dry run" 'SOUT left: maintenance, line 1' agent_status
told "a dry run" 'dry run: nothing is steered' agent_status
told "a dry run" adaptive ctl why
expect "a dry run" '$1 > 0 && $2 > 0'
: >"$dir/windows"
end -TERM agent
sed -i 's/^hold .*/hold 100000/' "$dir/conf"
agent

# The port sickens, its rail is left; then its QP dies, and the job does not.
n=7
for _ in $(seq 100); do
	n=$((n + 1000))
	count mlx5_1 counters/symbol_error $n
	[ "$(ctl why -o source)" = hint ] && break
	sleep 0.1
done
expect "sick" '$2 == 0'
told "the status" 'SUP left: mlx5_1/1: symbol_error' ctl agent
ctl fault play qp-kill SUP 1 >/dev/null || fail "no fault"
told "the fault" 'rehearsal: qp-kill on SUP is over' cat "$dir/log0"
expect "saved" '$1 > 0 && $2 == 0'
lives "${pids[perf]}" || fail "the job died with a QP it left"

end -TERM agent
[ -z "$(ls "$dir/agent")" ] || fail "the agent left $(ls "$dir/agent")"
exit "$failed"
