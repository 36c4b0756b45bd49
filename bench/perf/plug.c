/* SPDX-License-Identifier: Apache-2.0 */
/* Load a plugin, and call the table of its ABI version. */
#include "perf/plug.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "perf/options.h"

/* The table with the type of version `n`, for members that differ between
 * versions. */
#define TABLE(p, n) ((const struct nccl_net_v##n *)(p)->table)
/* For members that are the same in every version. */
#define ANY(p) TABLE(p, 12)

int perf_plug_load(struct perf_plug *p, const char *path, int abi)
{
	char symbol[32];

	memset(p, 0, sizeof(*p));
	p->lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!p->lib)
		return perf_bad(
			"plugin: %s (install it, or give its path by --plugin; is it built for this machine?)",
			dlerror());
	for (int v = NCCL_NET_ABI_NEWEST; v >= NCCL_NET_ABI_OLDEST; v--) {
		if (abi && v != abi)
			continue;
		snprintf(symbol, sizeof(symbol), NCCL_NET_SYMBOL_PREFIX "%d",
			 v);
		p->table = dlsym(p->lib, symbol);
		if (p->table) {
			p->abi = v;
			p->name = ANY(p)->name;
			return 0;
		}
	}
	if (abi)
		return perf_bad(
			"plugin: %s has no ncclNetPlugin_v%d (leave --abi out)",
			path, abi);
	return perf_bad(
		"plugin: %s has no ncclNetPlugin_v%d to v%d (is it an NCCL network plugin?)",
		path, NCCL_NET_ABI_OLDEST, NCCL_NET_ABI_NEWEST);
}

static enum nccl_result no_profiler(void **event, int type, void *phandle,
				    int64_t plugin_id, void *data)
{
	(void)event;
	(void)type;
	(void)phandle;
	(void)plugin_id;
	(void)data;
	return NCCL_SUCCESS;
}

static enum nccl_result init(struct perf_plug *p)
{
	static struct nccl_net_comm_config config = {
		NCCL_NET_TRAFFIC_CLASS_UNDEF
	};

	switch (p->abi) {
	case 8:
	case 9:
		return TABLE(p, 8)->init(p->log);
	case 10:
		return TABLE(p, 10)->init(p->log, no_profiler);
	default:
		/* The number of the job is the parent's pid, which is the same
		 * for all ranks of this run on this host. */
		return TABLE(p, 12)->init(
			&p->ctx, 0x6d70696200000000 | (uint64_t)getppid(),
			&config, p->log, no_profiler);
	}
}

#define TAKE_PROPS(version)                                                    \
	do {                                                                   \
		res = TABLE(p, version)->getProperties(dev, &props);           \
		if (res == NCCL_SUCCESS) {                                     \
			p->speed = props.speed;                                \
			p->max_recvs = props.maxRecvs;                         \
			snprintf(p->dev_name, sizeof(p->dev_name), "%s",       \
				 props.name ? props.name : "?");               \
		}                                                              \
	} while (0)

enum nccl_result perf_plug_properties(struct perf_plug *p, int dev)
{
	enum nccl_result res;

	if (p->abi == 8) {
		struct nccl_net_properties_v8 props = { 0 };

		TAKE_PROPS(8);
	} else if (p->abi <= 10) {
		struct nccl_net_properties_v9 props = { 0 };

		TAKE_PROPS(9);
	} else if (p->abi == 11) {
		struct nccl_net_properties_v11 props = { 0 };

		TAKE_PROPS(11);
	} else {
		struct nccl_net_properties_v12 props = { 0 };

		TAKE_PROPS(12);
	}
	return res;
}

void perf_plug_warn(enum nccl_log_level level, unsigned long flags,
		    const char *where, int line, const char *fmt, ...)
{
	va_list ap;

	(void)flags;
	(void)where;
	(void)line;
	if (level != NCCL_LOG_WARN)
		return;
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

enum nccl_result perf_plug_init(struct perf_plug *p, nccl_log_fn log)
{
	enum nccl_result res;

	p->log = log;
	res = init(p);
	if (res == NCCL_SUCCESS)
		res = ANY(p)->devices(&p->devices);
	return res;
}

enum nccl_result perf_plug_listen(struct perf_plug *p, int dev, void *handle,
				  void **comm)
{
	return p->abi <= 10 ? TABLE(p, 8)->listen(dev, handle, comm)
			    : TABLE(p, 12)->listen(p->ctx, dev, handle, comm);
}

enum nccl_result perf_plug_connect(struct perf_plug *p, int dev, void *handle,
				   void **comm)
{
	struct nccl_net_comm_config config = { NCCL_NET_TRAFFIC_CLASS_UNDEF };
	struct nccl_net_device_handle *dh = NULL;

	if (p->abi <= 9)
		return TABLE(p, 8)->connect(dev, handle, comm, &dh);
	if (p->abi == 10)
		return TABLE(p, 10)->connect(dev, &config, handle, comm, &dh);
	return TABLE(p, 12)->connect(p->ctx, dev, handle, comm, &dh);
}

enum nccl_result perf_plug_accept(struct perf_plug *p, void *lcomm, void **comm)
{
	struct nccl_net_device_handle *dh = NULL;

	return ANY(p)->accept(lcomm, comm, &dh);
}

enum nccl_result perf_plug_reg(struct perf_plug *p, void *comm, void *data,
			       size_t size, void **mh)
{
	return ANY(p)->regMr(comm, data, size, NCCL_PTR_HOST, mh);
}

enum nccl_result perf_plug_reg_fd(struct perf_plug *p, void *comm, void *data,
				  size_t size, int fd, void **mh)
{
	if (!ANY(p)->regMrDmaBuf)
		return NCCL_INVALID_USAGE;
	return ANY(p)->regMrDmaBuf(comm, data, size, NCCL_PTR_CUDA, 0, fd, mh);
}

enum nccl_result perf_plug_dereg(struct perf_plug *p, void *comm, void *mh)
{
	return ANY(p)->deregMr(comm, mh);
}

enum nccl_result perf_plug_isend(struct perf_plug *p, void *comm, void *data,
				 size_t size, int tag, void *mh, void **req)
{
	if (p->abi == 8)
		return TABLE(p, 8)->isend(comm, data, (int)size, tag, mh, req);
	if (p->abi == 9)
		return TABLE(p, 9)->isend(comm, data, size, tag, mh, req);
	return TABLE(p, 12)->isend(comm, data, size, tag, mh, NULL, req);
}

enum nccl_result perf_plug_irecv(struct perf_plug *p, void *comm, int n,
				 void **data, size_t *sizes, int *tags,
				 void **mh, void **req)
{
	void *phandle[PERF_GROUP_MAX] = { NULL };
	int narrow[PERF_GROUP_MAX];

	if (p->abi == 9)
		return TABLE(p, 9)->irecv(comm, n, data, sizes, tags, mh, req);
	if (p->abi >= 10)
		return TABLE(p, 12)->irecv(comm, n, data, sizes, tags, mh,
					   phandle, req);
	for (int i = 0; i < n; i++)
		narrow[i] = (int)sizes[i];
	return TABLE(p, 8)->irecv(comm, n, data, narrow, tags, mh, req);
}

enum nccl_result perf_plug_test(struct perf_plug *p, void *req, int *done,
				int *sizes)
{
	return ANY(p)->test(req, done, sizes);
}

enum nccl_result perf_plug_close_send(struct perf_plug *p, void *comm)
{
	return ANY(p)->closeSend(comm);
}

enum nccl_result perf_plug_close_recv(struct perf_plug *p, void *comm)
{
	return ANY(p)->closeRecv(comm);
}

enum nccl_result perf_plug_close_listen(struct perf_plug *p, void *comm)
{
	return ANY(p)->closeListen(comm);
}

enum nccl_result perf_plug_finalize(struct perf_plug *p)
{
	return p->abi >= 11 ? TABLE(p, 12)->finalize(p->ctx) : NCCL_SUCCESS;
}
