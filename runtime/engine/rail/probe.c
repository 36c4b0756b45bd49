/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what the opened rails support, so that an unsuitable machine is refused
 * at start and not in the middle of a job. Control thread. */
#include <errno.h>
#include <mpib/wire.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/rail/rail.h"
#include "verbs/explain.h"

/* Number of bytes that the probe pins, to check the locked-memory limit. It is
 * about the size of the staging windows of a few connections, and it exceeds
 * the default limits of distributions. So a proxy does not start unless the
 * limit was raised. */
#define PIN_BYTES ((size_t)65 << 20)

static int check_pair(const struct mpib_shard *s, char *why, size_t why_len)
{
	const struct mpib_rail *rail = s->rail;

	if (s->engine->cfg.rails < 2 || !rail[0].ctx || !rail[1].ctx ||
	    rail[0].port.link_layer == rail[1].port.link_layer)
		return 0;
	snprintf(why, why_len,
		 "SOUT %s is %s but SUP %s is %s (both rails need the same "
		 "link layer: name another port, or --sup none)",
		 mpib_rail_spec(s, 0)->name,
		 mpib_link_layer_name(rail[0].port.link_layer),
		 mpib_rail_spec(s, 1)->name,
		 mpib_link_layer_name(rail[1].port.link_layer));
	return -EINVAL;
}

/* Return the number of CQ places that a user's first lane needs. */
static uint32_t first_places(const struct mpib_engine_config *cfg, unsigned r)
{
	return cfg->srq_high + cfg->qps[r] * MPIB_BUDGET_PER_QP;
}

/* Check the configuration against the device's limits. */
static int check_settings(const struct mpib_shard *s, unsigned r, char *why,
			  size_t why_len)
{
	const struct mpib_rail *rail = &s->rail[r];
	const struct ibv_device_attr *most = &rail->port.dev;
	const struct mpib_engine_config *cfg = &s->engine->cfg;
	const char *name = mpib_rail_spec(s, r)->name;

	if (cfg->sq_depth > (uint32_t)most->max_qp_wr)
		snprintf(why, why_len,
			 "%s: qp.sq_depth = %u is more than the device's "
			 "max_qp_wr = %d (lower it)",
			 name, cfg->sq_depth, most->max_qp_wr);
	else if (cfg->srq_high > (uint32_t)most->max_srq_wr)
		snprintf(why, why_len,
			 "%s: srq.high = %u is more than the device's "
			 "max_srq_wr = %d (lower it)",
			 name, cfg->srq_high, most->max_srq_wr);
	else if (cfg->qps[r] > (uint32_t)most->max_qp)
		snprintf(why, why_len,
			 "%s: %u QPs a lane are more than the device's "
			 "max_qp = %d (lower %s.qp)",
			 name, cfg->qps[r], most->max_qp,
			 r == MPIB_RAIL_SOUT ? "sout" : "sup");
	else if (first_places(cfg, r) >
		 mpib_places_for(mpib_budget_most(&rail->budget), 1))
		snprintf(why, why_len,
			 "%s: a CQ of %u, the device's max_cqe = %d, is too "
			 "small for srq.high = %u and %u QPs (lower srq.high)",
			 name, rail->budget.size, most->max_cqe, cfg->srq_high,
			 cfg->qps[r]);
	else if (cfg->pkey_index > 0 && cfg->pkey_index >= rail->port.pkeys)
		snprintf(why, why_len,
			 "%s: qp.pkey_index = %u is beyond the port's %u "
			 "partition keys (lower it)",
			 name, cfg->pkey_index, rail->port.pkeys);
	else
		return 0;
	return -EINVAL;
}

/* Check the properties that mpib needs with any configuration. */
static int check_device(const struct mpib_shard *s, unsigned r, char *why,
			size_t why_len)
{
	const struct mpib_port_info *port = &s->rail[r].port;
	const char *name = mpib_rail_spec(s, r)->name;

	if (port->max_msg_sz < MPIB_MSG_LEAST)
		snprintf(why, why_len,
			 "%s: the port's max_msg_sz = %u is less than %u, a "
			 "table of CTS (use another device)",
			 name, port->max_msg_sz, MPIB_MSG_LEAST);
	else if (port->dev.max_qp_rd_atom < 1 ||
		 port->dev.max_qp_init_rd_atom < 1)
		snprintf(why, why_len,
			 "%s: the device has no RDMA READ: max_qp_rd_atom = "
			 "%d, max_qp_init_rd_atom = %d (use another device)",
			 name, port->dev.max_qp_rd_atom,
			 port->dev.max_qp_init_rd_atom);
	else
		return 0;
	return -EINVAL;
}

/* Pin memory. Skip the software HCA, which pins nothing. */
static int try_pin(struct mpib_rail *rail, struct ibv_pd *pd)
{
	size_t bytes = PIN_BYTES < rail->port.dev.max_mr_size
			       ? PIN_BYTES
			       : (size_t)rail->port.dev.max_mr_size;
	struct ibv_mr *mr;
	void *mem;
	int rc;

	if (rail->verbs == &mpib_verbs_soft)
		return 0;
	mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mem == MAP_FAILED)
		return -errno;
	rc = rail->verbs->reg_mr(pd, mem, bytes, (uint64_t)(uintptr_t)mem,
				 IBV_ACCESS_LOCAL_WRITE, &mr);
	if (rc == 0)
		rail->verbs->dereg_mr(mr);
	munmap(mem, bytes);
	return rc;
}

/* Try to register fd -1. The kernel answers EBADF if it supports dma-buf, else
 * EOPNOTSUPP or EPROTONOSUPPORT. */
static bool try_dmabuf(struct mpib_rail *rail, struct ibv_pd *pd,
		       enum mpib_dmabuf_mode mode)
{
	struct ibv_mr *mr;

	/* The software HCA calls mmap() on a dma-buf, but GPU drivers do not
	 * support mmap() on theirs. So the software HCA uses dma-bufs only if
	 * the configuration demands them. */
	if (rail->verbs == &mpib_verbs_soft)
		return mode == MPIB_DMABUF_YES;
	return rail->verbs->reg_dmabuf_mr(pd, 0, 4096, 0, -1,
					  IBV_ACCESS_LOCAL_WRITE,
					  &mr) == -EBADF;
}

/* Find the inline limit, which verbs cannot query. Halve the requested size
 * until ibv_create_qp() succeeds and returns the QP's actual limit. */
static int try_qp(struct mpib_rail *rail, struct ibv_pd *pd, uint32_t depth)
{
	uint32_t ask = MPIB_INLINE_MAX;
	struct ibv_qp *qp;
	int rc;

	for (;; ask /= 2) {
		struct ibv_qp_init_attr init = {
			.send_cq = rail->cq,
			.recv_cq = rail->cq,
			.cap = { .max_send_wr = depth,
				 .max_recv_wr = 1,
				 .max_send_sge = 1,
				 .max_recv_sge = 1,
				 .max_inline_data = ask },
			.qp_type = IBV_QPT_RC,
		};

		rc = rail->verbs->create_qp(pd, &init, &qp);
		if (rc == 0) {
			ask = init.cap.max_inline_data;
			break;
		}
		if (ask == 0)
			return rc;
	}
	rail->port.max_inline = ask < MPIB_INLINE_MAX ? ask : MPIB_INLINE_MAX;
	return rail->verbs->destroy_qp(qp);
}

static int probe_one(struct mpib_shard *s, unsigned r, char *why,
		     size_t why_len)
{
	struct mpib_engine *e = s->engine;
	struct mpib_rail *rail = &s->rail[r];
	const char *call = "ibv_alloc_pd";
	struct ibv_pd *pd;
	int rc = rail->verbs->alloc_pd(rail->ctx, &pd);

	if (rc < 0)
		goto err_why;
	call = "ibv_create_qp";
	rc = try_qp(rail, pd, e->cfg.sq_depth);
	if (rc < 0)
		goto err_pd;
	call = "ibv_reg_mr";
	rc = try_pin(rail, pd);
	if (rc < 0)
		goto err_pd;
	e->dmabuf = e->dmabuf && try_dmabuf(rail, pd, e->cfg.dmabuf);
	call = "ibv_reg_dmabuf_mr";
	rc = e->cfg.dmabuf == MPIB_DMABUF_YES && !e->dmabuf ? -EOPNOTSUPP : 0;
	if (rc < 0)
		goto err_pd;
	rail->verbs->dealloc_pd(pd);
	/* Copy the results to the device's other shards, which use the same
	 * HCA. */
	for (unsigned i = 1; i < e->cfg.shards; i++)
		s[i].rail[r].port.max_inline = rail->port.max_inline;
	return 0;

err_pd:
	rail->verbs->dealloc_pd(pd);
err_why:
	mpib_verbs_explain(mpib_rail_spec(s, r), &rail->port.dev, call, rc, why,
			   why_len);
	return rc;
}

static void settle_routing(struct mpib_engine *e)
{
	for (unsigned i = 0; i < e->shards; i++) {
		struct mpib_shard *s = &e->shard[i];
		bool on = e->cfg.ar == MPIB_AR_ON ||
			  (e->cfg.ar == MPIB_AR_AUTO &&
			   s->rail[0].port.link_layer ==
				   IBV_LINK_LAYER_INFINIBAND);

		s->ar_above = on ? e->cfg.ar_threshold : UINT32_MAX;
	}
}

static bool all_silent(struct mpib_shard *s, unsigned r, int rc)
{
	bool silent = false;

	for (unsigned i = 0; i < s->engine->cfg.shards; i++)
		silent = mpib_rail_silent(&s[i], r, rc);
	return silent;
}

/* Probe a device. s is the first of its shards. */
static int probe_device(struct mpib_shard *s, char *why, size_t why_len)
{
	int rc = check_pair(s, why, why_len);

	for (unsigned r = 0; rc == 0 && r < s->engine->cfg.rails; r++) {
		if (!s->rail[r].ctx)
			continue;
		rc = check_settings(s, r, why, why_len);
		if (rc == 0)
			rc = check_device(s, r, why, why_len);
		if (rc == 0)
			rc = probe_one(s, r, why, why_len);
		if (rc < 0 && all_silent(s, r, rc))
			rc = 0;
	}
	return rc;
}

int mpib_engine_probe(struct mpib_engine *e, char *why, size_t why_len)
{
	int rc = 0;

	e->dmabuf = e->cfg.dmabuf != MPIB_DMABUF_NO;
	for (unsigned i = 0; rc == 0 && i < e->shards; i += e->cfg.shards)
		rc = probe_device(&e->shard[i], why, why_len);
	settle_routing(e);
	return rc;
}
