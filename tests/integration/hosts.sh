#!/usr/bin/env bash
# hosts.sh BUILD: run mpib-perf on several "hosts", which are processes that
# communicate only over TCP: first a server and a client, then each pair of
# servers, then the ranks of a launcher. If an error occurs on a host, the
# process that prints the report must also print the error, and the run must
# end.
set -uo pipefail
build=$1
. "$(dirname "$0")/../support/nodes.sh"
pair_start
perf=$build/bench/mpib-perf plugin=$build/plugin/libnccl-net-mpib.so
quick=(--plugin "$plugin" -b 4K -e 64k -f 4 -n 5 -w 1 --timeout 100)

# serve NODE ADDRESS PLUGIN: start a server on the node and set $port.
serve() {
	MPIB_RUN_DIR=$dir/n$1 "$perf" --server --listen "$net.$2" --port 0 \
		--plugin "$3" --timeout 100 >"$dir/server$2" 2>&1 &
	server=$!
	await_ready "$dir/server$2" $server ||
		fail "server $2 is not ready: $(<"$dir/server$2")"
	port=$(sed -n 's/^ready: port //p' "$dir/server$2")
}
serve 0 1 "$plugin" && first=$net.1:$port
serve 1 2 "$plugin" && second=$net.2:$port

# client NAME OPTIONS...: run mpib-perf --client on node 0 against the server of
# node 1.
client() {
	local name=$1
	shift
	MPIB_RUN_DIR=$dir/n0 timeout 120 "$perf" "${quick[@]}" "$@" \
		>"$dir/$name" 2>&1
}
client two --client "$second" --json "$dir/json" ||
	fail "client: $(<"$dir/two")"
grep -q '^# checked : 36 messages' "$dir/two" || fail "$(<"$dir/two")"
grep -q '^# wrong : 0$' "$dir/two" || fail "client: data was wrong"
[ "$(grep -c '^ ' "$dir/two")" -eq 3 ] || fail "not three rows"
grep -q '(B)  (elements)  *(us)  *(GB/s)' "$dir/two" || fail "no units"
grep -q '"busbw"' "$dir/json" || fail "no JSON"
grep -qE '"p50_us": [0-9.]*[1-9]' "$dir/json" || fail "sends were not timed"
client ring --client "$first,$second" --pattern ring --ranks-per-node 2 \
	--seed 18446744073709551615 || fail "three hosts: $(<"$dir/ring")"
grep -q '^# 6 ranks on ' "$dir/ring" || fail "not six ranks"
MPIB_RUN_DIR=$dir/n0 "$perf" --plugin "$plugin" --timeout 100 \
	--client "$second" -b 64K -e 64K --steady 1000s >"$dir/steady" 2>&1 &
steady=$!
await grep -q ' s of 65536 bytes: ' "$dir/steady" ||
	fail "a long run prints nothing: $(<"$dir/steady")"
kill -INT "$steady"
wait "$steady" || fail "interrupted: $(<"$dir/steady")"
grep -q '^# wrong : 0$' "$dir/steady" || fail "interrupted: no report"

# Run "mpib-perf check" on each pair of hosts, and with a host that does not
# answer.
timeout 120 "$perf" check "$first" "$second" --steady 0.2s --timeout 100 \
	-c 1 --group 1 --json "$dir/json" >"$dir/check" 2>&1 ||
	fail "check: $(<"$dir/check")"
grep -q '^# check : PASS, 1 of 1 pairs' "$dir/check" || fail "check prints no summary"
grep -q "^$first .* ok  *right .*SOUT .*SUP " "$dir/check" ||
	fail "check: $(<"$dir/check")"
grep -q '"pairs_failed": 0' "$dir/json" || fail "no JSON of check"
timeout 120 "$perf" check "$first" "$second" "$net.3:9" --steady 0.2s \
	--timeout 100 >"$dir/check" 2>&1 && fail "check passes without a host"
grep -q '^# check : FAIL, 1 of 3 pairs' "$dir/check" || fail "$(<"$dir/check")"
grep -q "    the test failed: .*$net.3" "$dir/check" || fail "no reason: $(<"$dir/check")"
timeout 120 "$perf" check "$first" "$second" --steady 0.2s --expect 100000 \
	--timeout 100 >"$dir/check" 2>&1 && fail "a slow pair passes"
grep -q 'GB/s is 0 % of the 100000.00 GB/s expected' "$dir/check" ||
	fail "slow: $(<"$dir/check")"

# Run two ranks as separate processes, with the environment variables that each
# of four launchers sets. ranks NAME VARIABLE=VALUE...: run two ranks with
# these variables. %d in a value is replaced by the rank.
ranks() {
	local name=$1 rank rc=0 all=()
	shift
	for rank in 0 1; do
		env "${@//%d/$rank}" MPIB_RUN_DIR="$dir/n$rank" timeout 120 \
			"$perf" "${quick[@]}" >"$dir/$name$rank" 2>&1 &
		all+=($!)
	done
	wait "${all[0]}" || rc=1
	wait "${all[1]}" || rc=1
	[ "$rc" -eq 0 ] && grep -q '^# wrong : 0$' "$dir/${name}0" &&
		[ ! -s "$dir/${name}1" ] && return
	fail "$name: $(<"$dir/${name}0") $(<"$dir/${name}1")"
}
ranks torchrun RANK=%d WORLD_SIZE=2 LOCAL_RANK=%d MASTER_ADDR=127.0.0.1 \
	"TORCHELASTIC_RUN_ID=$dir" SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 \
	SLURM_STEP_NODELIST=nowhere
ranks mpirun OMPI_COMM_WORLD_RANK=%d OMPI_COMM_WORLD_SIZE=2 \
	OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=%d \
	"PMIX_NAMESPACE=$dir.mpirun" SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1
ranks pmi PMI_RANK=%d PMI_SIZE=2 "SLURM_JOB_NODELIST=127.0.0.[1,7]" \
	"SLURM_JOB_ID=$dir.pmi" SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1
ranks srun SLURM_PROCID=%d SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=0 \
	"SLURM_STEP_NODELIST=127.0.0.[1,7]" "SLURM_JOB_ID=$dir"

# Send invalid data to a server. The server must keep running, and the next test
# with this server must succeed.
for text in x "$(head -c 9000 /dev/zero | tr '\0' G)" ""; do
	timeout 20 bash -c 'exec 3<>"/dev/tcp/${0%:*}/${0#*:}"
		printf %s "$1" >&3' "$second" "$text" 2>/dev/null
done
# Test a server whose plugin corrupts data, and a server that dies.
if [ -e "$build/tests/integration/libliar.so" ]; then
	LIAR_PLUGIN=$plugin LIAR_LOG=$dir/lies LIAR_DOES=drop@3 \
		serve 1 4 "$build/tests/integration/libliar.so"
	client liar --client "$net.4:$port" && fail "a lie passes"
	grep -q '^# wrong : [1-9]' "$dir/liar" || fail "liar: $(<"$dir/liar")"
fi
client gone --client "$net.5" && fail "a test without its server passes"
grep -q "^mpib-perf: host $net.5: port 18600: Connection refused (start" \
	"$dir/gone" || fail "gone: $(<"$dir/gone")"
serve 1 6 "$plugin"
client killed --client "$net.6:$port" --steady 100s &
killed=$!
await grep -q 'test begins' "$dir/server6"
kill -9 "$server"
wait "$killed" && fail "a test whose server died passes"
grep -q '^mpib-perf: ' "$dir/killed" || fail "killed: $(<"$dir/killed")"
client again --client "$second" || fail "the server is gone: $(<"$dir/again")"
exit "$failed"
