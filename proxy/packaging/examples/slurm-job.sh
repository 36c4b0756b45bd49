#!/bin/bash
#SBATCH --job-name=all_reduce
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
# sbatch slurm-job.sh: run nccl-tests over mpib. On the nodes, mpib-proxy must run
# (see slurm-prolog), and ld.so must find libnccl-net-mpib.so.
export NCCL_NET_PLUGIN=mpib NCCL_NET=MPIB MPIB_RUN_DIR=/run/mpib
srun --export=ALL --mpi=pmix all_reduce_perf -b 8 -e 1G -f 2 -g 1
status=$?
# Print one node's bytes per rail.
mpibctl rails
exit "$status"
