# shellcheck shell=bash
# Sourced. Run two nodes, each with a proxy on rails of the software HCA.
#
#   nodes_start [options]  start proxies 0 and 1: run directories $dir/n0 and
#                          $dir/n1, rails ${sout[i]} and ${sup[i]}, process IDs
#                          ${pids[i]}; return 1 if they do not become ready
#   nodes_fall             each second until killed: kill one of the proxies and
#                          start it again
#   nodes_kill             kill nodes_fall and the proxies
#   nodes_stop             stop them; print a message and return 1 if a proxy
#                          does not end cleanly
#   ctl NODE ...           run mpibctl for a node
#   moved                  print the bytes of payload that both have sent
#
# With faults=1, a device has the faults of the file in the folder
# $MPIB_SOFT_FAULTS whose name is the device's address, see mpib-softverbs(7).
# The functions need $build and $dir.
. "$top/tests/support/addr.sh"
. "$top/tests/support/lines.sh"
pids=() sout=() sup=()
nodes_set=0 # the sourcing script counts starts

# node_up NODE: start the node with the options of nodes_start.
node_up() {
	"$build/proxy/mpib-proxy" --config /dev/null --run-dir "$dir/n$1" \
		--sout "soft:${sout[$1]}" --sup "soft:${sup[$1]}" \
		"${node_options[@]}" >"$dir/out$1" 2>>"$dir/proxy$1.log" &
	pids[$1]=$!
	echo "${pids[$1]}" >"$dir/pid$1"
}

nodes_fall() {
	local i
	while sleep 1; do
		i=$((RANDOM % 2))
		kill -KILL "${pids[$i]}" 2>/dev/null
		# Poll the pid, since the first two processes are not children
		# of this shell.
		while kill -0 "${pids[$i]}" 2>/dev/null; do
			sleep 0.05
		done
		node_up "$i"
	done
}

nodes_start() {
	local i
	node_options=("$@")
	if [ "${faults:-0}" -eq 1 ]; then
		export MPIB_SOFT_FAULTS=$dir/faults
		rm -rf "$MPIB_SOFT_FAULTS"
		mkdir -p "$MPIB_SOFT_FAULTS"
	fi
	for i in 0 1; do
		sout[i]=$net.$((nodes_set * 4 + i * 2 + 1))
		sup[i]=$net.$((nodes_set * 4 + i * 2 + 2))
		rm -rf "$dir/n$i" "$dir/out$i" "$dir/proxy$i.log"
		node_up "$i"
	done
	for i in 0 1; do
		await_ready "$dir/out$i" "${pids[$i]}" || {
			cat "$dir/proxy$i.log"
			echo "the proxy of node $i did not become ready"
			return 1
		}
	done
}

ctl() {
	"$build/proxy/mpibctl" -s "$dir/n$1" "${@:2}"
}

nodes_kill() {
	local i
	[ -n "${falls:-}" ] && kill "$falls" && wait "$falls" 2>/dev/null
	falls=
	for i in "${!pids[@]}"; do
		kill -KILL "$(<"$dir/pid$i")" 2>/dev/null
	done
	pids=()
}

nodes_stop() {
	local i pid rc=0
	for i in 0 1; do
		[ -n "${pids[$i]:-}" ] || continue
		pid=${pids[$i]}
		kill -TERM "$pid" 2>/dev/null
		for _ in $(seq 600); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.05
		done
		kill -KILL "$pid" 2>/dev/null && rc=1 &&
			echo "the proxy of node $i did not end"
		wait "${pids[$i]}" 2>/dev/null
		grep -hE 'ERROR: |WARNING: ThreadSanitizer|runtime error' \
			"$dir/proxy$i.log" && rc=1
	done
	pids=()
	return "$rc"
}

moved() {
	for i in 0 1; do
		ctl "$i" -j rails
	done 2>/dev/null | tr -d , | awk '/"tx_bytes"/ { n += $2 }
		END { printf "%d\n", n }'
}
