#!/usr/bin/env bash
# liar.sh BUILD: check that mpib-perf finds each message that support/liar.c
# corrupts: in warm-up, timed and last iterations, in every pattern, and with
# every version of NCCL's plugin interface. mpib-perf must print the number of
# corrupted messages and exit with 1. Without corruption mpib-perf must exit
# with 0.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"
export LIAR_PLUGIN=$build/plugin/libnccl-net-mpib.so LIAR_LOG=$dir/lies
pair_start

# perf OPTION...: run mpib-perf. By default, mpib-perf moves 32 warm-up messages
# and 64 timed messages.
perf() {
	rm -f "$LIAR_LOG"
	timeout 120 "$build/bench/mpib-perf" --timeout 100 \
		--plugin "$build/tests/integration/libliar.so" \
		--nodes "$dir/n0,$dir/n1" --min 16K --max 16K --chunk 4K \
		--warmup 8 --iters 16 --json "$dir/json" "$@" >"$dir/perf" 2>&1
	rc=$?
	lies=$(wc -l 2>/dev/null <"$LIAR_LOG" || echo 0)
	json=$(tr -d '", ' <"$dir/json" |
		awk -F: '$1 == "wrong_messages" { n = $2 } END { print n }')
}

# lies_at BASE KIND...: print a list of corruptions, one of each kind. The first
# is of message BASE, the next of BASE + 2, and so on.
lies_at() {
	local at=$1 list='' kind
	shift
	for kind in "$@"; do
		list=$list,$kind@$at
		at=$((at + 2))
	done
	echo "$list"
}

# all_lies KIND...: set LIAR_DOES to corruptions of each kind in warm-up
# messages, in timed messages and in the last messages.
all_lies() {
	local list
	list=$(lies_at 0 "$@")$(lies_at 40 "$@")$(lies_at $((96 - 2 * $#)) "$@")
	LIAR_DOES=${list#,}
}

# found NAME LEAST OPTION...: check that mpib-perf finds every corrupted
# message, and that at least LEAST messages were corrupted.
found() {
	local name=$1 least=$2
	shift 2
	perf "$@"
	[ "$rc" -eq 1 ] && [ "$lies" -ge "$least" ] && [ "$json" = "$lies" ] &&
		grep -q "^# wrong : [0-9]* bytes in $lies messages$" "$dir/perf" &&
		return
	cat "$dir/perf"
	fail "$name: status $rc, lies $lies (of $least), found $json"
}

export LIAR_DOES=
perf
[ "$rc" -eq 0 ] && grep -q '^# wrong : 0$' "$dir/perf" &&
	grep -q '^# checked : 192 messages, 786432 bytes' "$dir/perf" ||
	fail "a correct plugin: status $rc: $(<"$dir/perf")"

perf --json /dev/full
[ "$rc" -eq 1 ] && grep -q "^mpib-perf: --json /dev/full: .*No space" "$dir/perf" ||
	fail "a full disk: status $rc: $(<"$dir/perf")"

bytes=(first middle last drop tail double swap)
all_lies "${bytes[@]}" short long
perf --check 0
[ "$rc" -eq 0 ] && grep -q '^# checked : nothing (--check 0)$' "$dir/perf" &&
	[ "$json" = null ] || fail "--check 0: $rc, $(<"$dir/perf")"

for abi in 8 9 10 11 12; do
	found "v$abi" 60 --abi "$abi"
done
found stream 30 --pattern stream
found reduce-scatter 20 --pattern reduce-scatter
found all-gather 20 --pattern all-gather
found pingpong 60 --pattern pingpong
found alltoall 360 --pattern alltoall --ranks-per-node 2 --min 64K --max 64K
found channels 40 --channels 2
found sealed 60 --memory sealed
found grouped 60 --group 4
found churn 60 --churn
found "small messages" 30 --min 32 --max 32 --chunk 8
found "several batches" 60 --min 8M --max 8M --chunk 2M
found "steady, counted" 60 --steady 24
found "steady, for a time" 60 --steady 0.2s
found "random sizes" 20 --random-sizes 96 --max 20K
found "random sizes, grouped" 20 --random-sizes 96 --max 20K --group 5
found nccl 30 --pattern nccl --channels 1
found "nccl, grouped" 60 --pattern nccl --channels 1 --group 4
found "nccl, steady" 30 --pattern nccl --channels 2 --group 3 --steady 48
# If only node 1 has LIAR_DOES, half of the corruptions remain. --env also takes
# an empty value and a value with "=".
LIAR_LOG=$dir/lies=1
export -n LIAR_LOG
found "--env" 30 --env "LIAR_LOG=$LIAR_LOG" --env 0:LIAR_DOES=
[ "$lies" -lt 60 ] || fail "--env: node 0 has the variable of node 1"
export LIAR_LOG
# With early completion, the plugin reports no size of a message, so do not
# corrupt sizes.
all_lies "${bytes[@]}"
found "early completion" 40 --early-completion

# A rank with a wrong sum sends it to other ranks, so mpib-perf may count more
# errors than there are corruptions.
i=0
for kind in "${bytes[@]}" short long; do
	for base in 1 30 94; do
		[ $((i++ % 3)) -eq 0 ] || continue
		LIAR_DOES=$kind@$base
		perf --pattern ring --ranks-per-node 2 --max 32K --min 32K \
			--channels 2 --chunk 1K --iters 2 --warmup 1
		[ "$rc" -eq 1 ] && [ "$lies" -gt 0 ] && [ "$json" -ge "$lies" ] ||
			fail "ring: $LIAR_DOES: status $rc, lies $lies, found $json"
	done
done
exit "$failed"
