/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call NCCL network plugins of any ABI version by the same functions. Each call
 * returns the plugin's result.
 */
#ifndef PERF_PLUG_H
#define PERF_PLUG_H

#include "nccl_abi.h"

struct perf_plug {
	void *lib;
	int abi;
	const char *name;
	const void *table;
	void *ctx;
	nccl_log_fn log;
	int devices; /* set by perf_plug_init() */
	/* A device's properties, set by perf_plug_properties(). */
	char dev_name[128];
	int speed, max_recvs;
};

/* A logger for perf_plug_init(): print only warnings, to stderr. */
void perf_plug_warn(enum nccl_log_level level, unsigned long flags,
		    const char *where, int line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Load the plugin at `path`. If `abi` is 0, use the newest version that the
 * plugin has. Returns 0, or -EINVAL after a line on stderr. */
int perf_plug_load(struct perf_plug *p, const char *path, int abi);

enum nccl_result perf_plug_init(struct perf_plug *p, nccl_log_fn log);
enum nccl_result perf_plug_properties(struct perf_plug *p, int dev);
enum nccl_result perf_plug_listen(struct perf_plug *p, int dev, void *handle,
				  void **comm);
enum nccl_result perf_plug_connect(struct perf_plug *p, int dev, void *handle,
				   void **comm);
enum nccl_result perf_plug_accept(struct perf_plug *p, void *lcomm,
				  void **comm);
enum nccl_result perf_plug_reg(struct perf_plug *p, void *comm, void *data,
			       size_t size, void **mh);
/* Register `data`. The memory must map the file `fd` from offset 0. Returns
 * NCCL_INVALID_USAGE if the plugin cannot register a descriptor. */
enum nccl_result perf_plug_reg_fd(struct perf_plug *p, void *comm, void *data,
				  size_t size, int fd, void **mh);
enum nccl_result perf_plug_dereg(struct perf_plug *p, void *comm, void *mh);
enum nccl_result perf_plug_isend(struct perf_plug *p, void *comm, void *data,
				 size_t size, int tag, void *mh, void **req);
enum nccl_result perf_plug_irecv(struct perf_plug *p, void *comm, int n,
				 void **data, size_t *sizes, int *tags,
				 void **mh, void **req);
enum nccl_result perf_plug_test(struct perf_plug *p, void *req, int *done,
				int *sizes);
enum nccl_result perf_plug_close_send(struct perf_plug *p, void *comm);
enum nccl_result perf_plug_close_recv(struct perf_plug *p, void *comm);
enum nccl_result perf_plug_close_listen(struct perf_plug *p, void *comm);
enum nccl_result perf_plug_finalize(struct perf_plug *p);

#endif
