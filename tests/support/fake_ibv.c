/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of the fake devices, which pass their calls on to the software
 * HCA. */
#include "fake_ibv.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/verbs.h"

#undef ibv_get_device_list
#undef ibv_query_port

#define CONTEXTS 32

struct fake_ibv fake_ibv;

static struct {
	struct ibv_context *ctx;
	struct fake_device *device;
} opened[CONTEXTS];

static const struct mpib_verbs *const soft = &mpib_verbs_soft;

/* Protects `opened` and fake_ibv, which the threads of all devices use. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void fake_ibv_reset(void)
{
	memset(&fake_ibv, 0, sizeof(fake_ibv));
	memset(opened, 0, sizeof(opened));
	fake_ibv.max_inline = 128;
}

static struct fake_device *device_of(const struct ibv_context *ctx)
{
	struct fake_device *d = NULL;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < CONTEXTS && !d; i++) {
		if (opened[i].ctx == ctx)
			d = opened[i].device;
	}
	pthread_mutex_unlock(&lock);
	if (!d)
		abort();
	return d;
}

unsigned fake_ibv_contexts(void)
{
	unsigned n = 0;

	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < CONTEXTS; i++)
		n += opened[i].ctx != NULL;
	pthread_mutex_unlock(&lock);
	return n;
}

/* Return the error that the test has set for this call, or 0. */
static int fails(const char *call)
{
	if (!fake_ibv.fail || strcmp(fake_ibv.fail, call) ||
	    fake_ibv.times == 0)
		return 0;
	fake_ibv.times--;
	errno = fake_ibv.error;
	return fake_ibv.error;
}

/* Convert `rc`, which is 0 or -errno, to the convention of libibverbs: set
 * errno, and return 0 or a positive errno. */
static int told(int rc)
{
	if (rc < 0)
		errno = -rc;
	return -rc;
}

struct ibv_device **ibv_get_device_list(int *num)
{
	struct ibv_device **list;

	if (fails("ibv_get_device_list"))
		return NULL;
	list = calloc(FAKE_DEVICES + 1, sizeof(*list));
	for (unsigned i = 0; i < fake_ibv.devices; i++)
		list[i] = &fake_ibv.device[i].ibv;
	if (num)
		*num = (int)fake_ibv.devices;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct mpib_rail_spec spec = { .provider = MPIB_PROVIDER_SOFT,
				       .port = 1 };
	struct fake_device *d = (struct fake_device *)device;
	struct ibv_context *ctx;
	unsigned i = 0;

	snprintf(spec.name, sizeof(spec.name), "%s", d->soft);
	fake_ibv_call(d, "ibv_open_device");
	if (fails("ibv_open_device") || told(soft->open(&spec, &ctx)))
		return NULL;
	pthread_mutex_lock(&lock);
	while (opened[i].ctx)
		i++;
	opened[i].ctx = ctx;
	opened[i].device = d;
	pthread_mutex_unlock(&lock);
	ctx->device = device;
	ctx->num_comp_vectors = 4;
	/* If this is NULL, the inline ibv_query_port() calls the function in
	 * this file. */
	ctx->abi_compat = NULL;
	return ctx;
}

int ibv_close_device(struct ibv_context *ctx)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < CONTEXTS; i++) {
		if (opened[i].ctx == ctx)
			opened[i].ctx = NULL;
	}
	pthread_mutex_unlock(&lock);
	return told(soft->close(ctx)) ? -1 : 0;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	*attr = device_of(ctx)->attr;
	return fails("ibv_query_device");
}

int ibv_query_port(struct ibv_context *ctx, uint8_t port,
		   struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)out;
	struct fake_device *d = device_of(ctx);

	fake_ibv_call(d, "ibv_query_port");
	if (port < 1 || port > d->attr.phys_port_cnt)
		return EINVAL;
	*attr = d->port[port - 1].attr;
	if (!attr->gid_tbl_len)
		attr->gid_tbl_len = FAKE_GIDS;
	return fails("ibv_query_port");
}

int ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index,
		  union ibv_gid *gid)
{
	struct fake_port *p = &device_of(ctx)->port[port - 1];

	if (fails("ibv_query_gid"))
		return -1;
	*gid = p->gid[index].gid;
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *out,
			     size_t max, uint32_t flags, size_t size)
{
	struct fake_device *d = device_of(ctx);
	size_t n = 0;

	(void)flags;
	if (fails("ibv_query_gid_table") || size != sizeof(*out))
		return -errno;
	for (unsigned p = 0; p < d->attr.phys_port_cnt; p++) {
		for (unsigned i = 0; i < d->port[p].gids; i++) {
			if (n == max)
				return -EINVAL;
			out[n++] = d->port[p].gid[i];
		}
	}
	return (ssize_t)n;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd;

	return fails("ibv_alloc_pd") || told(soft->alloc_pd(ctx, &pd)) ? NULL
								       : pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return told(soft->dealloc_pd(pd));
}

static void note_access(int access)
{
	pthread_mutex_lock(&lock);
	fake_ibv.access = access;
	pthread_mutex_unlock(&lock);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len,
				uint64_t iova, unsigned access)
{
	struct ibv_mr *mr;

	fake_ibv_call(device_of(pd->context), "ibv_reg_mr");
	note_access((int)access);
	return fails("ibv_reg_mr") || told(soft->reg_mr(pd, addr, len, iova,
							(int)access, &mr))
		       ? NULL
		       : mr;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len,
				 uint64_t iova, int fd, int access)
{
	struct ibv_mr *mr;

	note_access(access);
	return fails("ibv_reg_dmabuf_mr") ||
			       told(soft->reg_dmabuf_mr(pd, offset, len, iova,
							fd, access, &mr))
		       ? NULL
		       : mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	fake_ibv_call(device_of(mr->context), "ibv_dereg_mr");
	return told(soft->dereg_mr(mr));
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *ch;

	return fails("ibv_create_comp_channel") ||
			       told(soft->create_comp_channel(ctx, &ch))
		       ? NULL
		       : ch;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ch)
{
	return told(soft->destroy_comp_channel(ch));
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_ctx,
			     struct ibv_comp_channel *ch, int vector)
{
	struct ibv_cq *cq;

	pthread_mutex_lock(&lock);
	fake_ibv.vectors |= 1u << vector;
	pthread_mutex_unlock(&lock);
	return fails("ibv_create_cq") ||
			       told(soft->create_cq(ctx, cqe, cq_ctx, ch, &cq))
		       ? NULL
		       : cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	return told(soft->destroy_cq(cq));
}

int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq,
		     void **cq_ctx)
{
	return told(soft->get_cq_event(ch, cq, cq_ctx)) ? -1 : 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	soft->ack_cq_events(cq, n);
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *a)
{
	struct ibv_srq *srq;

	return fails("ibv_create_srq") || told(soft->create_srq(pd, a, &srq))
		       ? NULL
		       : srq;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	return told(soft->modify_srq(srq, attr, mask));
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	return told(soft->query_srq(srq, attr));
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	return told(soft->destroy_srq(srq));
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp;

	if (attr->cap.max_inline_data > fake_ibv.max_inline) {
		errno = EINVAL;
		return NULL;
	}
	fake_ibv_call(device_of(pd->context), "ibv_create_qp");
	return fails("ibv_create_qp") || told(soft->create_qp(pd, attr, &qp))
		       ? NULL
		       : qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr below = *attr;
	int rc = mask & IBV_QP_STATE ? 0 : EINVAL;

	if (attr->qp_state == IBV_QPS_RTR)
		fake_ibv_call(device_of(qp->context), "RTR");
	if (attr->qp_state == IBV_QPS_ERR)
		fake_ibv_call(device_of(qp->context), "ERR");
	pthread_mutex_lock(&lock);
	if (attr->qp_state == IBV_QPS_INIT) {
		fake_ibv.init = *attr;
		rc = fails("INIT");
	} else if (attr->qp_state == IBV_QPS_RTR) {
		fake_ibv.rtr = *attr;
		rc = fails("RTR");
	} else if (attr->qp_state == IBV_QPS_RTS) {
		fake_ibv.rts = *attr;
		rc = fails("RTS");
	}
	pthread_mutex_unlock(&lock);
	/* The software HCA that carries the traffic is always RoCE, even if the
	 * fake device is InfiniBand. */
	below.ah_attr.is_global = 1;
	below.ah_attr.grh.sgid_index = 1;
	below.pkey_index = 0;
	return rc ? rc : told(soft->modify_qp(qp, &below, mask));
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	return told(soft->query_qp(qp, attr, mask, init));
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	fake_ibv_call(device_of(qp->context), "ibv_destroy_qp");
	return told(soft->destroy_qp(qp));
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	if (!fake_ibv.ece)
		return EOPNOTSUPP;
	/* After ibv_set_ece(), report only the options that both ends
	 * support. */
	*ece = (struct ibv_ece){ .vendor_id = 0x15b3, .options = 0x3 };
	if (fake_ibv.ece_sets)
		ece->options &= fake_ibv.set.options;
	return 0;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp;
	if (!fake_ibv.ece)
		return EOPNOTSUPP;
	if (fails("ibv_set_ece"))
		return fake_ibv.error;
	fake_ibv.set = *ece;
	fake_ibv.ece_sets++;
	return 0;
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *ev)
{
	return told(soft->get_async_event(ctx, ev)) ? -1 : 0;
}

void ibv_ack_async_event(struct ibv_async_event *ev)
{
	soft->ack_async_event(ev);
}
