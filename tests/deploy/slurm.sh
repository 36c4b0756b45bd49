#!/usr/bin/env bash
# slurm.sh BUILD SOURCE: run slurm-job.sh with slurm-prolog on a private
# slurmctld and slurmd from this machine's packages. The prolog starts the
# proxy. The job's ranks find each other by the variables of srun, and every
# byte must be correct. If srun fails, the job fails. If slurm-prolog refuses a
# rail, Slurm drains the node. Everything runs in separate network, mount and
# pid namespaces, and ends with them.
set -uo pipefail
build=$(realpath "$1") source=$(realpath "$2")
here=$(realpath "$(dirname "$0")")
for tool in slurmctld slurmd munged sbatch; do
	command -v "$tool" >/dev/null && continue
	echo "SKIPPED: Slurm: there is no $tool (apt-get install slurm-wlm)"
	exit 77
done
. "$here/../support/namespaces.sh"
enter_namespaces Slurm "$build" "$source"
. "$here/../support/lines.sh"
ip link set lo up
# Make a network: without one, Slurm does not look up addresses.
ip link add slurm0 type veth peer name slurm1 && ip link set slurm0 up &&
	ip link set slurm1 up && ip address add 192.0.2.1/24 dev slurm0 || {
	echo "SKIPPED: Slurm: there is no veth"
	exit 77
}
net=127.0.0
. "$here/../support/workdir.sh"
at_end() {
	cp "$dir"/*.log "${MPIB_SLURM_LOGS:-$dir}" 2>/dev/null
	exec 2>/dev/null
	kill -9 -1 # all of this namespace
	umount -l /usr/bin /run 2>/dev/null
}

# Fill $dir/bin with the files that the packages would install in /usr/bin. This
# directory is mounted over /usr/bin below. systemd is not process 1 here, so a
# fake systemctl starts what the unit would start. A program that needs no GPU
# replaces nccl-tests.
mkdir "$dir/bin" "$dir/state" "$dir/spool"
cp "$build/proxy/mpib-proxy" "$build/proxy/mpibctl" "$build/bench/mpib-perf" \
	"$dir/bin"
cat >"$dir/bin/systemctl" <<END
#!/bin/sh
[ "\$*" = "start mpib-proxy.service" ] || exit 1
[ -S /run/mpib/proxy.sock ] && exit
setsid mpib-proxy --config /dev/null --run-dir /run/mpib \
	--sout soft:$net.1 --sup soft:$net.2 >$dir/proxy.log 2>&1 </dev/null &
END
cat >"$dir/bin/all_reduce_perf" <<END
#!/bin/sh
[ -e $dir/broken ] && exit 3
[ "\$*" = "-b 8 -e 1G -f 2 -g 1" ] || exit 2
exec mpib-perf -b 8 -e 1M -f 8 -n 3 -w 1 --timeout 200
END
chmod +x "$dir/bin"/*
mount -t tmpfs -o mode=755 none /run
mount -t overlay -o "lowerdir=$dir/bin:/usr/bin" none /usr/bin || {
	echo "SKIPPED: Slurm: there is no overlay"
	exit 77
}
export LD_LIBRARY_PATH=$build/plugin SLURM_CONF=$dir/slurm.conf

mkdir -m 755 /run/munge
dd if=/dev/urandom bs=64 count=1 of="$dir/munge.key" 2>/dev/null
chmod 600 "$dir/munge.key"
cat >"$dir/slurm.conf" <<END
ClusterName=mpib
SlurmctldHost=$(hostname -s)(192.0.2.1)
SlurmctldPort=6817
SlurmdPort=6818
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=/run/munge/socket
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/ctld.pid
SlurmdPidFile=$dir/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=0
SlurmdParameters=config_overrides
SelectType=select/cons_tres
Prolog=$dir/prolog
PrologFlags=Alloc
NodeName=localhost NodeHostname=$(hostname -s) NodeAddr=192.0.2.1 CPUs=16 State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES OverSubscribe=FORCE
END
printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' >"$dir/cgroup.conf"
# A strict check must refuse software rails. The first job does not use
# --strict.
sed 's/ --strict//' "$source/proxy/packaging/examples/slurm-prolog" >"$dir/prolog"
chmod +x "$dir/prolog"

munged --foreground --force --socket=/run/munge/socket --key-file="$dir/munge.key" \
	--log-file="$dir/munge.log" --pid-file="$dir/munge.pid" \
	--seed-file="$dir/munge.seed" >"$dir/munged.log" 2>&1 &
await test -S /run/munge/socket || fail "munged: $(cat "$dir"/munge*.log)"
slurmctld -D >"$dir/slurmctld.log" 2>&1 &
slurmd -D -N localhost >"$dir/slurmd.log" 2>&1 &
state() {
	sinfo -h -N -o %T 2>/dev/null | has "^$1"
}
await state idle || {
	tail -n 5 "$dir/slurmctld.log" "$dir/slurmd.log"
	echo "FAIL: the node of Slurm does not get ready"
	exit 1
}

# job NAME: run slurm-job.sh on one node. Return its exit status.
job() {
	(cd "$dir" && timeout 300 sbatch --wait --nodes=1 --ntasks-per-node=4 \
		--output="$dir/$1.out" "$dir/job.sh") >"$dir/$1.sbatch" 2>&1
}
# There are no GPUs and no MPI, so ranks use the variables of srun.
sed 's/ --mpi=pmix//; /gpus-per-node/d' "$source/proxy/packaging/examples/slurm-job.sh" >"$dir/job.sh"
job good || fail "the job: $(cat "$dir/good.sbatch" "$dir/good.out" "$dir/slurmd.log")"
grep -E '^# (checked|wrong|4 ranks)' "$dir/good.out"
grep -q '^# wrong : 0$' "$dir/good.out" || fail "the job's bytes are wrong"
grep -q '^SUP ' "$dir/good.out" || fail "the job does not show the rails"
mpibctl -s /run/mpib jobs | has '^slurm' ||
	mpibctl -s /run/mpib jobs | has '^[0-9]' || fail "$(mpibctl -s /run/mpib jobs)"
mpibctl -s /run/mpib jobs

touch "$dir/broken"
job bad && fail "a job succeeds although its srun fails"
rm "$dir/broken"

cp "$source/proxy/packaging/examples/slurm-prolog" "$dir/prolog"
job refused &
await state drain || fail "a bad rail drains no node: $(sinfo -N -l)"
sinfo -h -R -o %E | head -n 1
exit "$failed"
