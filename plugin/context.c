/* SPDX-License-Identifier: Apache-2.0 */
#include "context.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

nccl_log_fn mpib_nccl_log;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mpib_session_ref *current;
static struct mpib_net_ctx *default_ctx;

static enum nccl_result result_of(int rc)
{
	switch (rc) {
	case -ECONNRESET:
	case -ECONNREFUSED:
	case -EHOSTUNREACH:
	case -ETIMEDOUT:
	case -EIO:
		return NCCL_REMOTE_ERROR;
	case -EMSGSIZE:
		return NCCL_INVALID_USAGE;
	case -EINVAL:
	case -EFAULT:
		return NCCL_INVALID_ARGUMENT;
	default:
		return NCCL_SYSTEM_ERROR;
	}
}

enum nccl_result mpib_net_fail(const char *call, int rc)
{
	mpib_net_warn("%s: %s", call, mpib_strerror());
	return result_of(rc);
}

static int attach(uint64_t job, struct mpib_session_ref **out)
{
	struct mpib_attach_opts opts = { .size = sizeof(opts), .job = job };
	struct mpib_session_ref *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -ENOMEM;
	rc = mpib_attach(&opts, &s->client);
	if (rc < 0) {
		free(s);
		return rc;
	}
	*out = s;
	return 0;
}

static void put_session(struct mpib_session_ref *s)
{
	if (--s->refs > 0)
		return;
	if (current == s)
		current = NULL;
	mpib_detach(s->client);
	free(s);
}

/* Under the lock. */
static int get_session(uint64_t job, struct mpib_session_ref **out)
{
	struct mpib_session_ref *s = current;
	int rc;

	if (!s || mpib_alive(s->client) < 0) {
		rc = attach(job, &s);
		if (rc < 0)
			return rc;
		current = s;
	}
	s->refs++;
	*out = s;
	return 0;
}

enum nccl_result mpib_net_init(void **ctx, uint64_t comm_id, int traffic_class,
			       nccl_log_fn log)
{
	struct mpib_net_ctx *c = calloc(1, sizeof(*c));
	int rc;

	mpib_nccl_log = log;
	if (!c)
		return NCCL_SYSTEM_ERROR;
	c->traffic_class = traffic_class;
	pthread_mutex_lock(&lock);
	rc = get_session(comm_id, &c->session);
	pthread_mutex_unlock(&lock);
	if (rc < 0) {
		free(c);
		return mpib_net_fail("init", rc);
	}
	*ctx = c;
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_init_default(nccl_log_fn log)
{
	void *ctx;
	enum nccl_result res = mpib_net_init(&ctx, 0, -1, log);

	if (res == NCCL_SUCCESS)
		default_ctx = ctx;
	return res;
}

void *mpib_net_default(void)
{
	return default_ctx;
}

enum nccl_result mpib_net_finalize(void *ctx)
{
	struct mpib_net_ctx *c = ctx;

	pthread_mutex_lock(&lock);
	put_session(c->session);
	pthread_mutex_unlock(&lock);
	free(c);
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_devices(int *ndev)
{
	*ndev = 1; /* both rails behind one device */
	return NCCL_SUCCESS;
}

/* Alike in all processes of a node, different between nodes. */
static uint64_t guid_of(const char *name)
{
	uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 0x100000001b3ull;
	return h;
}

/* NCCL keeps the pointers, so they live as long as the library. */
static char device_name[2 * 64 + 2];
static char device_path[128];

static void fill_names(const struct mpib_node_info *info)
{
	snprintf(device_path, sizeof(device_path), "%s",
		 info->rail[0].pci_path);
	if (info->rails > 1)
		snprintf(device_name, sizeof(device_name), "%s+%s",
			 info->rail[0].name, info->rail[1].name);
	else
		snprintf(device_name, sizeof(device_name), "%s",
			 info->rail[0].name);
}

enum nccl_result mpib_net_properties(int dev, mpib_net_props *props)
{
	struct mpib_node_info info;

	if (dev != 0) {
		mpib_net_warn("getProperties: there is no device %d, only 0",
			      dev);
		return NCCL_INVALID_ARGUMENT;
	}
	pthread_mutex_lock(&lock);
	if (!current) {
		pthread_mutex_unlock(&lock);
		return NCCL_INVALID_USAGE;
	}
	mpib_query(current->client, &info);
	fill_names(&info);
	pthread_mutex_unlock(&lock);

	memset(props, 0, sizeof(*props));
	props->name = device_name;
	props->pciPath = device_path[0] ? device_path : NULL;
	props->guid = guid_of(device_name);
	props->ptrSupport = NCCL_PTR_HOST | (info.dmabuf ? NCCL_PTR_DMABUF : 0);
	props->regIsGlobal = 1;
	for (int r = 0; r < info.rails; r++)
		props->speed += (int)info.rail[r].speed_mbps;
	props->port = 1;
	props->latency = 2.0f; /* a hop through the proxy each way */
	props->maxComms = 65536;
	props->maxRecvs = MPIB_GROUP_MAX;
	props->netDeviceType = NCCL_NET_DEVICE_HOST;
	props->netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION;
	/* NCCL sees a plain device, which lists itself: the rails have no
	 * indices of their own that it could ask about. */
	props->vProps.ndevs = 1;
	props->maxP2pBytes = MPIB_SIZE_MAX;
	props->maxCollBytes = MPIB_SIZE_MAX;
	props->maxMultiRequestSize = 1;
	props->railId = NCCL_NET_ID_UNDEF;
	props->planeId = NCCL_NET_ID_UNDEF;
	return NCCL_SUCCESS;
}

enum nccl_result mpib_net_no_vdevice(void)
{
	return NCCL_INVALID_USAGE; /* the rails are fused already */
}

void mpib_session_hold(struct mpib_session_ref *s)
{
	pthread_mutex_lock(&lock);
	s->refs++;
	pthread_mutex_unlock(&lock);
}

void mpib_session_drop(struct mpib_session_ref *s)
{
	pthread_mutex_lock(&lock);
	put_session(s);
	pthread_mutex_unlock(&lock);
}
