#!/usr/bin/env bash
# no_rail.sh BUILD: while two ranks exchange messages, no rail of a node carries
# data any more. The ranks must get an error, even though the proxies can still
# connect lanes and connections over these rails. Before that, the proxy must
# refuse to drain the only rail that still works.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"

export MPIB_SOFT_FAULTS=$dir/faults
mkdir "$MPIB_SOFT_FAULTS"

sup_is_down() {
	ctl rails -o name,state | grep 'SUP.*down' >/dev/null
}

for fault in link-down black-hole; do
	for node in 0 1; do
		node $node --failover-grace 500 --resume-grace 2 \
			--qp-timeout 10
	done
	nodes_ready 0 1
	job perf "0 1" --pattern ring --min 1M --max 1M --iters 1000000 \
		--warmup 1 --timeout 600
	await pair_moves || fail "$fault: no bytes move"
	if [ $fault = link-down ]; then
		echo $fault >"$MPIB_SOFT_FAULTS/$net.11"
		await sup_is_down || fail "SUP is not down"
		ctl rails drain SOUT 2>"$dir/refused" &&
			fail "the last rail that works was drained"
		grep -q 'SOUT is the only rail in use' "$dir/refused" ||
			fail "$(cat "$dir/refused")"
	fi
	echo $fault | tee "$MPIB_SOFT_FAULTS/$net.1" \
		>"$MPIB_SOFT_FAULTS/$net.11"
	if wait "${pids[perf]}"; then
		fail "$fault: the ranks saw no error"
	fi
	grep -q 'no rail to .*: check links and cables' "$dir/perf" ||
		fail "$fault: $(tail -n 5 "$dir/perf")"
	for node in 0 1; do
		kill "${pids[$node]}"
		wait "${pids[$node]}"
	done
	rm "$MPIB_SOFT_FAULTS"/*
done
grep -E 'ERROR: |WARNING: ThreadSanitizer|runtime error' "$dir"/log? &&
	fail "a sanitizer reported an error"
exit "$failed"
