#!/usr/bin/env bash
# traffic.sh BUILD NAME [proxy options --] mpib-perf options...: run two proxies
# and mpib-perf.
#
# The proxies are real processes with software rails and private run
# directories. mpib-perf uses them through the plugin. When mpib-perf has ended,
# no lane, client or connection remains. The rails' byte counts equal the
# connections' byte counts, and each node has received all bytes that the other
# node sent. The proxies must end without an error, and must leave no file
# behind. MPIB_TEST_RAILS="SOUT,SUP SOUT,SUP" names other rails for both nodes.
# MPIB_TEST_DEVICES=N uses N devices of two software rails each.
# MPIB_TEST_OTHER=BUILD takes the second proxy from another build.
set -uo pipefail
build=$1 name=$2
shift 2
proxy_args=()
perf_args=("$@")
for i in "${!perf_args[@]}"; do
	if [ "${perf_args[$i]}" = -- ]; then
		proxy_args=("${perf_args[@]:0:$i}")
		perf_args=("${perf_args[@]:$((i + 1))}")
		break
	fi
done

. "$(dirname "$0")/../support/nodes.sh"
soft="soft:$net.1,soft:$net.11 soft:$net.2,soft:$net.12"
read -ra rails <<<"${MPIB_TEST_RAILS:-$soft}"
# Do not export these variables, because the programs would warn about unknown
# variables.
export -n MPIB_TEST_RAILS MPIB_TEST_DEVICES MPIB_TEST_OTHER
built=("$build" "${MPIB_TEST_OTHER:-$build}")

for node in 0 1; do
	where=(--sout "${rails[$node]%,*}" --sup "${rails[$node]#*,}")
	for ((i = 0; i < ${MPIB_TEST_DEVICES:-0}; i++)); do
		[ "$i" -gt 0 ] || where=()
		where+=(--device
			"soft:$net.$((1 + 100 * node + i)),soft:$net.$((51 + 100 * node + i))")
	done
	"${built[$node]}/proxy/mpib-proxy" --config /dev/null --run-dir "$dir/n$node" "${where[@]}" \
		--peer-addr "$net.$((node + 1))" \
		${proxy_args[@]+"${proxy_args[@]}"} \
		>"$dir/out$node" 2>"$dir/log$node" &
	pids[$node]=$!
done
nodes_ready 0 1

# A plugin that is built with a sanitizer needs the sanitizer's runtime in the
# program that loads the plugin. mpib-perf is built with the same sanitizer, so
# no runtime must be preloaded.
timeout 280 "$build/bench/mpib-perf" \
	--plugin "$build/plugin/libnccl-net-mpib.so" \
	--nodes "$dir/n0,$dir/n1" --timeout 60 "${perf_args[@]}" \
	>"$dir/perf" 2>&1
rc=$?
cat "$dir/perf"
[ "$rc" -eq 0 ] || fail "$name: mpib-perf ended with $rc"
grep -q '^# checked : [1-9]' "$dir/perf" || fail "$name: nothing was checked"
grep -q '^# wrong : 0$' "$dir/perf" || fail "$name: data was wrong"

no_clients() {
	! ctl_of "$1" -j clients | has '"id"'
}
# Wait, because a proxy removes clients only shortly after their processes end.
for node in 0 1; do
	await no_clients "$node" ||
		fail "$name: node $node still has clients"
done

# Print four byte counts: sent over SOUT, sent over SUP, received over SOUT,
# received over SUP. If there is no SUP rail, print only the two counts of SOUT.
# by_rail() adds the counts of the rails of all devices. by_conn() adds the
# counts of the connections, which are all closed.
by_rail() {
	ctl_of "$1" -j rails | tr -d , | awk '/"name"/ { r = $2 ~ /SUP/ }
		/"tx_bytes"/ { tx[r] += $2 } /"rx_bytes"/ { rx[r] += $2 }
		END { if (1 in tx) printf " %d %d %d %d\n", tx[0], tx[1], rx[0], rx[1]
			else printf " %d %d\n", tx[0], rx[0] }'
}
# Print how many bytes were lost on SOUT, and how many on SUP, when the rail was
# fenced. These bytes were sent again.
lost() {
	ctl_of "$1" -j rails | tr -d , | awk '/"name"/ { r = $2 ~ /SUP/ }
		/"lost_bytes"/ { l[r] += $2 }
		END { printf " %d %d\n", l[0], l[1] }'
}
by_conn() {
	ctl_of "$1" -j conns | tr -d , | awk '/\{$/ { what = $1 }
		/"sout"|"sup"/ && what ~ /x_bytes/ { all = all " " $2 }
		END { print all }'
}
all_counted() {
	[ "$(by_rail "$1")" = "$(by_conn "$1")" ]
}
for node in 0 1; do
	await all_counted "$node" ||
		fail "$name: node $node: rails moved$(by_rail "$node")," \
			"connections$(by_conn "$node")"
done
echo "$(by_rail 0)$(by_rail 1)$(lost 0)$(lost 1)" | awk '
	{ exit !($1 + $5 - $9 - $11 == $3 + $7 &&
		$2 + $6 - $10 - $12 == $4 + $8) }' ||
	fail "$name: sent and received bytes differ:$(by_rail 0) and$(by_rail 1)," \
		"lost:$(lost 0) and$(lost 1)"

# The ranks were spread over all devices, so each device must have moved bytes.
for node in 0 1; do
	for ((i = 0; i < ${MPIB_TEST_DEVICES:-0}; i++)); do
		ctl_of "$node" devices -o tx_bytes |
			sed -n "$((i + 1))p" | has '^[1-9]' ||
			fail "$name: device $i of node $node sent nothing"
	done
done

# A standby HCA carries no byte while the HCA that it replaces works.
case " ${proxy_args[*]-} " in
*' --device-layout each '*)
	for node in 0 1; do
		ctl_of "$node" -j devices | tr -d ' ",' |
			grep -c '^standby:true$' | grep -x 2 >/dev/null ||
			fail "$name: node $node does not have two standby rails"
		ctl_of "$node" rails -o label,tx_bytes |
			awk '/SOUT/ { sout += $2 > 0 } /SUP/ { sup += $2 > 0 }
				END { exit !(sout == 2 && sup == 0) }' ||
			fail "$name: node $node:" "$(ctl_of "$node" -j rails)"
	done
	;;
esac

for node in 0 1; do
	kill -TERM "${pids[$node]}"
done
for node in 0 1; do
	wait "${pids[$node]}"
	rc=$?
	if [ "$rc" -ne 0 ]; then
		tail -n 50 "$dir/log$node"
		fail "$name: proxy $node ended with $rc"
	fi
	[ "$(ls "$dir/n$node")" = $'clients\nevents\nlock' ] ||
		fail "$name: proxy $node left $(ls "$dir/n$node")"
	grep ' leaves: ' "$dir/log$node" | grep -v ' leaves: it hung up$' &&
		fail "$name: a rank's end looks like an error"
	grep -E 'ERROR: |WARNING: ThreadSanitizer|runtime error' \
		"$dir/log$node" && fail "$name: a sanitizer reported an error"
done
[ "$failed" -eq 0 ] || grep -h . "$dir/log0" "$dir/log1"
exit "$failed"
