#!/usr/bin/env bash
# containers.sh BUILD SOURCE: run the objects of kubernetes.yaml with podman.
# Two proxies run in containers with the image that the Containerfile makes. The
# proxies have only the privileges of the DaemonSet. Ranks run in containers of
# another distribution. These containers have their own pid, mount, user and
# network namespaces and no privileges. Every byte must be correct, and the
# proxy must refuse every operation that a pod is not permitted.
set -uo pipefail
build=$(realpath "$1") source=$(realpath "$2")
here=$(dirname "$0")
. "$here/../support/lines.sh"
. "$here/../support/addr.sh"
. "$here/../support/workdir.sh"
chmod 755 "$dir" # the root of a user namespace is another user here
at_end() {
	pod_end
}
. "$here/images.sh"
trap 'exit 130' INT TERM

. /etc/os-release
other=trixie
[ "$VERSION_CODENAME" = "$other" ] && other=bookworm
image "$VERSION_CODENAME" "localhost/debian:$VERSION_ID" ""
image "$other" localhost/training:latest libjansson4

mkdir "$dir/context"
(cd "$build" && cpack -G DEB -D CPACK_OUTPUT_FILE_PREFIX="$dir/context" \
	-D "CPACK_COMPONENTS_ALL=proxy;tools") >"$dir/log" 2>&1 ||
	fail "cpack: $(tail -n 5 "$dir/log")"
examples=$source/proxy/packaging/examples
cp "$examples/Containerfile" "$dir/context"
pod build --network=host "${limits[@]}" --tag localhost/mpib-proxy \
	--build-arg "BASE=localhost/debian:$VERSION_ID" "$dir/context" \
	>"$dir/log" 2>&1 || {
	tail -n 20 "$dir/log"
	echo "FAIL: the Containerfile makes no image"
	exit 1
}

# Set up the cluster. Each node has a folder for its files and its secrets.
command -v openssl >/dev/null && openssl req -x509 -newkey rsa:2048 -nodes \
	-subj /CN=node -days 2 -keyout "$dir/tls.key" -out "$dir/tls.crt" 2>/dev/null
head -c 32 /dev/urandom | base64 >"$dir/key"
for node in 0 1; do
	mkdir -p "$dir/n$node/secrets"/{mpib-peer,mpib-metrics,mpib-metrics-tls}
	cp "$dir/key" "$dir/n$node/secrets/mpib-peer/key"
	head -c 32 /dev/urandom | base64 >"$dir/n$node/secrets/mpib-metrics/token"
	cp "$dir"/tls.??? "$dir/n$node/secrets/mpib-metrics-tls"
done
chown -R root:root "$dir"/n?

# arguments KIND NODE [ready]: set $args to podman's arguments for this object
# of kubernetes.yaml.
arguments() {
	local file=$dir/args.$BASHPID
	python3 "$here/pod.py" "$examples/kubernetes.yaml" "$1" "$dir/n$2" "${@:3}" \
		>"$file" || fail "kubernetes.yaml: $1"
	mapfile -t args <"$file"
}
for node in 0 1; do
	arguments DaemonSet "$node"
	pod run --name "proxy$node" "${limits[@]}" "${args[@]}" \
		--env="MPIB_HCA_SOUT=soft:$net.$((node + 1))" \
		--env="MPIB_HCA_SUP=soft:$net.$((node + 11))" \
		--env="MPIB_METRICS_LISTEN=$net.$((node + 1)):9495" \
		localhost/mpib-proxy --run-dir /run/mpib >"$dir/out$node" 2>&1 &
	await_ready "$dir/out$node" $! ||
		fail "the proxy of node $node: $(<"$dir/out$node")"
	arguments DaemonSet "$node" ready
	pod exec "proxy$node" "${args[@]}" >"$dir/log" 2>&1 ||
		fail "node $node is not ready: $(<"$dir/log")"
	grep -i 'warn' "$dir/out$node" | grep -v 'software' &&
		fail "node $node starts with a warning"
done
[ "$(stat -c '%a %g' "$dir/n0/run/mpib/proxy.sock")" = "660 947" ] ||
	fail "proxy.sock: $(stat -c '%a %u:%g' "$dir/n0/run/mpib/proxy.sock")"
pid=$(pod inspect --format '{{.State.Pid}}' proxy0)
awk '/^Cap(Inh|Prm|Eff|Amb)/ && $2 !~ /^0*4200$/ && $2 !~ /^0*$/ { bad = 1; print }
	END { exit bad }' "/proc/$pid/status" || fail "the proxy has more than IPC_LOCK and LINUX_IMMUTABLE"

# rank RANK NODE ARGUMENT...: start one of 4 ranks in its own container. Root in
# the container has no rights outside. Group ids are the same inside and
# outside, so that the sockets keep their group. An id-mapped mount would do the
# same, but this runc does not support it.
rank() {
	local rank=$1 node=$2
	shift 2
	arguments Pod "$node"
	# The other ranks share the first rank's network namespace, which has
	# only loopback.
	pod run --rm --name "rank$rank" "${limits[@]}" "${args[@]}" \
		--uidmap=0:200000:65536 --gidmap=0:0:65536 \
		"--network=$([ "$rank" = 0 ] && echo none || echo container:rank0)" \
		--volume="$build/bench/mpib-perf:/usr/bin/mpib-perf:ro" \
		--volume="$build/plugin/libnccl-net-mpib.so:/usr/lib/libnccl-net-mpib.so:ro" \
		--env=RANK="$rank" --env=WORLD_SIZE=4 --env=LOCAL_RANK=$((rank % 2)) \
		--env=MASTER_ADDR=127.0.0.1 --env=MASTER_PORT=29500 \
		localhost/training:latest sh -c 'echo ready; exec "$@"' rank "$@" \
		>"$dir/rank$rank" 2>&1
}
pids=()
for number in 0 1 2 3; do
	rank "$number" $((number / 2)) mpib-perf -b 8 -e 4M -f 8 -n 5 -w 1 \
		--timeout 200 &
	pids+=($!)
	[ "$number" -gt 0 ] || await_ready "$dir/rank0" $! ||
		fail "the first rank: $(<"$dir/rank0")"
done
for pid in "${pids[@]}"; do
	wait "$pid" || fail "a rank ended with $?"
done
grep -q '^# wrong : 0$' "$dir/rank0" || fail "$(cat "$dir"/rank?)"
grep -E '^# (checked|wrong|4 ranks)' "$dir/rank0"
for node in 0 1; do
	moved=$(pod exec "proxy$node" mpibctl -s /run/mpib rails -o name,tx_bytes)
	[ "$(awk '$2 > 0' <<<"$moved" | wc -l)" -eq 2 ] ||
		fail "node $node moved nothing over a rail: $moved"
done
pod exec proxy0 mpibctl -s /run/mpib jobs | tail -n 1

# A rank of another group may not use the proxy and gets an error. No rank may
# write to the directory of the sockets or use the admin socket.
arguments Pod 0
pod run --rm "${limits[@]}" --network=none \
	"${args[@]/#--group-add=*/--env=NOTHING=}" \
	--volume="$build/bench/mpib-perf:/usr/bin/mpib-perf:ro" \
	--volume="$build/plugin/libnccl-net-mpib.so:/usr/lib/libnccl-net-mpib.so:ro" \
	localhost/training:latest mpib-perf --nodes /run/mpib >"$dir/log" 2>&1 &&
	fail "a user outside the group can attach"
grep -q 'mpib' "$dir/log" || fail "an outsider's message is: $(<"$dir/log")"
pod run --rm "${limits[@]}" --network=none "${args[@]}" --user 0:947 \
	localhost/training:latest sh -c 'touch /run/mpib/x || rm /run/mpib/proxy.sock' \
	>"$dir/log" 2>&1 && fail "a pod may change the run directory"
# Even root in the container is not an administrator.
pod run --rm "${limits[@]}" --network=none "${args[@]}" --user 0:947 \
	--entrypoint=mpibctl localhost/mpib-proxy rails drain SUP >"$dir/log" 2>&1 &&
	fail "a pod can drain a rail"
pod exec proxy0 mpibctl -s /run/mpib rails drain SUP >"$dir/log" ||
	fail "the proxy's own pod cannot use the admin socket: $(<"$dir/log")"
pod exec proxy0 mpibctl -s /run/mpib rails resume SUP >"$dir/log"
pod stop --time 5 proxy0 proxy1 >/dev/null 2>&1 || fail "the proxies do not stop"
[ -S "$dir/n0/run/mpib/proxy.sock" ] && fail "a proxy leaves its socket"
exit "$failed"
