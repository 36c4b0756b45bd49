#!/usr/bin/env bash
# history.sh BUILD: check the records that an operator can query afterwards: the
# history of the last hour, counters, and the bytes of a job. When the proxy is
# killed and started again, event numbers must continue, and "mpibctl events
# follow" must print each event once.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"
pair_start --log-events "$dir/events"
# Set the variables of a Slurm job. Ranks report this job to the proxy.
export SLURM_JOB_ID=77 SLURM_STEP_ID=0
pair_traffic 1
last() {
	ctl -j events | sed -n 's/.*"last": \([0-9]*\).*/\1/p'
}
moved() {
	ctl rails -o tx_bytes | awk '{ n += $1 } END { printf "%.0f\n", n }'
}

# The proxy takes a sample every five seconds, and a row of the table covers two
# samples.
rows() {
	ctl history -o time 2>/dev/null | wc -l
}
some_rows() {
	[ "$(rows)" -ge 1 ] && ctl history -o tx_mbps | tail -n 1 | has -E ':[1-9][0-9]*'
}
await some_rows || fail "history: $(ctl history)"
ctl history | has -E '^[0-9-]{5} [0-9:]{8} +[0-9]+\.[0-9]{2} ' || fail "history: $(ctl history)"
ctl history | has "slurm 77" || fail "history has no job: $(ctl history)"
ctl history 61 2>/dev/null
[ $? -eq 1 ] || fail "more than an hour"

grows() {
	[ "$(ctl counters -o counter,value | awk '$1 == "tx_bytes" { n += $2 } END { print (n > 0) }')" = 1 ]
}
await grows || fail "no counter grows"

ctl -j events follow >"$dir/followed" 2>"$dir/follower" &
follower=$!
await grep -q '"kind":"client_attaches"' "$dir/followed"
[ "$(ctl counters -o counter,value | grep -c '^failovers	[1-9]')" -eq 0 ] ||
	fail "a fail-over without cause"
[ "$(ctl jobs -o label,attached,ended)" = $'slurm 77.0\t1\t-' ] || fail "jobs: $(ctl -j jobs)"
ctl clients --wide | has 'slurm 77.0' || fail "no job of the client: $(ctl clients --wide)"
kill "${pids[perf]}"
over() {
	[ "$(ctl jobs -o attached)" = 0 ]
}
await over || fail "the job does not end: $(ctl -j jobs)"
[ "$(ctl jobs -o tx_bytes)" -eq "$(moved)" ] || fail "the job sent $(ctl jobs -o tx_bytes) of $(moved)"
[ "$(ctl jobs -o ended)" != - ] || fail "it has no end"
ctl events | has 'job slurm 77.0 of uid .* ended after .* clients here (1) sent' ||
	fail "no event of the job's end: $(ctl events)"

pid=$(ctl ping -o pid)
kill -9 "$pid" "${pids[0]}" 2>/dev/null
first=$(last 2>/dev/null)
[ -z "$first" ] || fail "a killed proxy answers"
first=$(tail -n 1 "$dir/followed" | sed 's/.*"seq":\([0-9]*\).*/\1/')
gone() {
	! kill -0 "$pid" 2>/dev/null
}
await gone
node 0 --log-events "$dir/events"
nodes_ready 0
[ "$(last)" -ge "$first" ] || fail "event numbers restart at $(last) after $first"
ctl events | has 'ended after' || fail "the events before the kill are lost"
crashes() {
	ctl events -o text | grep -c 'the previous mpib-proxy, pid .* was killed or crashed'
}
[ "$(crashes)" -eq 1 ] || fail "the kill is no event: $(ctl events)"
ctl rails drain SUP >"$dir/o" || fail "drain"
# "mpibctl events follow" prints the reason and ends if it gets no answer for
# three seconds.
if kill -0 "$follower" 2>/dev/null; then
	await grep -q '"kind":"drain"' "$dir/followed" || fail "not followed: $(tail -n 3 "$dir/followed")"
else
	echo "the follower gave up: $(<"$dir/follower")"
fi
sed 's/.*"seq":\([0-9]*\).*/\1/' "$dir/followed" | awk '
	NR > 1 && $1 != was + 1 { print "event " $1 " behind " was; bad = 1 }
	{ was = $1 }
	END { exit bad || NR < 3 }' || fail "the follower has gaps, or an event twice"

# Neither a stop nor an upgrade is a crash.
kill "${pids[0]}"
wait "${pids[0]}"
node 0 --log-events "$dir/events"
nodes_ready 0
ctl upgrade >"$dir/o" 2>&1 || fail "upgrade: $(<"$dir/o")"
[ "$(crashes)" -eq 1 ] || fail "a stop or an upgrade is a crash: $(ctl events)"
pid=$(ctl ping -o pid)
kill "$pid"
await gone || fail "the successor does not stop"
exit "$failed"
