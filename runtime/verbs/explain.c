/* SPDX-License-Identifier: Apache-2.0 */
/* Messages for failed verbs calls, with their usual cause and remedy. */
#include "verbs/explain.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "verbs/rdma/rdma.h"

#define SOFT (1 << MPIB_PROVIDER_SOFT)
#define RDMA (1 << MPIB_PROVIDER_RDMA)

/* Only the first entry that matches is used. `error` 0 matches any error, and
 * `call` NULL matches any call. */
static const struct {
	int providers;
	int error;
	const char *call;
	const char *cause;
} causes[] = {
	{ SOFT, EADDRNOTAVAIL, "ibv_open_device",
	  "the address must be one of this machine; see ip(8) address" },
	{ SOFT, ENODEV, "ibv_open_device",
	  "the address must be one of this machine; see ip(8) address" },
	{ SOFT, EINVAL, "ibv_open_device",
	  "MPIB_SOFT_PORT_BASE is a port from 1 to 65280, MPIB_SOFT_ENGINE "
	  "is io_uring or epoll, MPIB_SOFT_LIMITS is NAME=VALUE, ..." },
	{ SOFT, EADDRINUSE, "ibv_open_device",
	  "all 256 ports for software rails at this address are in use: does "
	  "another proxy use the address?" },
	{ SOFT | RDMA, EMFILE, NULL, "raise LimitNOFILE, or ulimit -n" },
	{ RDMA, EACCES, NULL,
	  "no permission for /dev/infiniband/uverbs*: run as root or in the "
	  "group of these files; a container needs --device "
	  "/dev/infiniband" },
	{ RDMA, EPERM, NULL,
	  "no permission for /dev/infiniband/uverbs*: run as root or in the "
	  "group of these files; a container needs --device "
	  "/dev/infiniband" },
	{ RDMA, ENOSYS, NULL,
	  "the kernel has no user verbs: modprobe ib_uverbs" },
	{ RDMA, EADDRNOTAVAIL, "ibv_query_port",
	  "the port has no RoCE v2 GID: give its network interface an IPv4 "
	  "address" },
	{ RDMA, EINVAL, "ibv_query_port",
	  "the device has no such port; see ibv_devinfo(1)" },
	{ RDMA, EOPNOTSUPP, "ibv_reg_dmabuf_mr",
	  "this rail cannot register dma-bufs: they need Linux 5.12 and a "
	  "driver that supports them; hca.dmabuf = auto works without them" },
	{ RDMA, EFAULT, "ibv_reg_mr", "not all of the memory is mapped" },
	{ RDMA, EINVAL, "ibv_create_qp",
	  "more than the device supports per QP: lower qp.sq_depth" },
	{ RDMA, EINVAL, "ibv_modify_qp",
	  "the two ends are not compatible: compare their GIDs, MTU, "
	  "partition keys and link layers" },
	{ RDMA, ETIMEDOUT, "ibv_modify_qp",
	  "the peer's RoCE address does not answer: are both ports in one "
	  "network, or routed?" },
	{ RDMA, EHOSTUNREACH, "ibv_modify_qp",
	  "no route to the peer's RoCE address" },
	{ RDMA, ENETUNREACH, "ibv_modify_qp",
	  "no route to the peer's RoCE address" },
	{ RDMA, EIO, NULL,
	  "the device was removed or reset, or does not answer; see dmesg(1)" },
	{ RDMA, ENODEV, NULL, "the device was removed or reset; see dmesg(1)" },
};

static const char *known_cause(const struct mpib_rail_spec *spec,
			       const char *call, int error)
{
	for (unsigned i = 0; i < sizeof(causes) / sizeof(causes[0]); i++) {
		if (causes[i].providers & 1 << spec->provider &&
		    causes[i].error == error &&
		    (!causes[i].call || !strcmp(causes[i].call, call)))
			return causes[i].cause;
	}
	return NULL;
}

/* If a call that pins memory fails with ENOMEM, RLIMIT_MEMLOCK is usually too
 * low. */
static void explain_memlock(char *buf, size_t len)
{
	struct rlimit lim = { RLIM_INFINITY, RLIM_INFINITY };

	getrlimit(RLIMIT_MEMLOCK, &lim);
	if (lim.rlim_cur == RLIM_INFINITY)
		snprintf(buf, len,
			 "RLIMIT_MEMLOCK is unlimited, so memory or the "
			 "device's objects ran out: use fewer QPs or regions");
	else
		snprintf(buf, len,
			 "RLIMIT_MEMLOCK is %llu KiB: give the proxy "
			 "LimitMEMLOCK=infinity, or ulimit -l unlimited",
			 (unsigned long long)lim.rlim_cur / 1024);
}

/* Device limits that make a call fail with this error. */
static const struct {
	const char *call;
	int error;
	const char *name;
	size_t at; /* offset of an int in struct ibv_device_attr */
} limits[] = {
#define LIMIT(call, error, name)                                               \
	{                                                                      \
		call, error, #name, offsetof(struct ibv_device_attr, name)     \
	}
	LIMIT("ibv_alloc_pd", ENOMEM, max_pd),
	LIMIT("ibv_create_cq", ENOMEM, max_cq),
	LIMIT("ibv_create_srq", ENOMEM, max_srq),
	LIMIT("ibv_create_qp", ENOMEM, max_qp),
	LIMIT("ibv_create_qp", EINVAL, max_qp_wr),
	LIMIT("ibv_reg_mr", ENOMEM, max_mr),
	LIMIT("ibv_reg_dmabuf_mr", ENOMEM, max_mr),
#undef LIMIT
};

/* Append the device limit that the call may have exceeded to the cause. */
static void explain_limit(const struct ibv_device_attr *most, const char *call,
			  int error, char *cause, size_t len)
{
	size_t at = strlen(cause);

	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (limits[i].error != error || strcmp(limits[i].call, call))
			continue;
		snprintf(cause + at, len - at, "%sthe device's %s is %d",
			 at ? "; " : "", limits[i].name,
			 *(const int *)((const char *)most + limits[i].at));
	}
}

void mpib_verbs_explain(const struct mpib_rail_spec *spec,
			const struct ibv_device_attr *most, const char *call,
			int rc, char *why, size_t why_len)
{
	bool soft = spec->provider == MPIB_PROVIDER_SOFT;
	char cause[256] = "", names[128], port[8] = "";

	if (!soft)
		snprintf(port, sizeof(port), ":%u", spec->port);
	if (!soft && rc == -ENODEV && !strcmp(call, "ibv_open_device")) {
		mpib_rdma_device_names(names, sizeof(names));
		snprintf(cause, sizeof(cause),
			 "no RDMA device has this name; there are %s", names);
	} else if (!soft && rc == -ENOMEM) {
		explain_memlock(cause, sizeof(cause));
	} else if (known_cause(spec, call, -rc)) {
		snprintf(cause, sizeof(cause), "%s",
			 known_cause(spec, call, -rc));
	}
	if (most)
		explain_limit(most, call, -rc, cause, sizeof(cause));
	snprintf(why, why_len, "%s:%s%s: %s: %s%s%s%s", soft ? "soft" : "rdma",
		 spec->name, port, call, strerror(-rc), cause[0] ? " (" : "",
		 cause, cause[0] ? ")" : "");
}

const char *mpib_link_layer_name(uint8_t link_layer)
{
	return link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet"
						     : "InfiniBand";
}
