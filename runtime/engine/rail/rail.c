/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and closing one rail of one shard: context, completion channel and
 * CQ. Control thread.
 */
#include <errno.h>
#include <fcntl.h>

#include "engine/shard.h"
#include "verbs/explain.h"

const char *mpib_rail_name(unsigned rail)
{
	return rail == MPIB_RAIL_SOUT ? "SOUT" : "SUP";
}

static int ask_port(struct mpib_rail *rail, const struct mpib_rail_spec *spec,
		    char *why, size_t why_len)
{
	int rc = rail->verbs->query_port(rail->ctx, spec->port, &rail->port);

	if (rc < 0)
		mpib_verbs_explain(spec, NULL, "ibv_query_port", rc, why,
				   why_len);
	return rc;
}

int mpib_rail_open(struct mpib_rail *rail, const struct mpib_rail_spec *spec,
		   uint32_t cqe, char *why, size_t why_len)
{
	const struct mpib_verbs *v = mpib_verbs_of(spec);
	const char *call = "ibv_open_device";
	int rc;

	*rail = (struct mpib_rail){ .verbs = v,
				    .port_num = spec->port,
				    .port.numa_node = -1,
				    .budget.size = cqe };
	rc = v->open(spec, &rail->ctx);
	if (rc < 0)
		goto err_why;
	rc = ask_port(rail, spec, why, why_len);
	if (rc < 0)
		goto err_close;
	if (cqe > (uint32_t)rail->port.dev.max_cqe)
		rail->budget.size = (uint32_t)rail->port.dev.max_cqe;
	call = "ibv_create_comp_channel";
	rc = v->create_comp_channel(rail->ctx, &rail->channel);
	if (rc < 0)
		goto err_say;
	fcntl(rail->channel->fd, F_SETFL, O_NONBLOCK);
	call = "ibv_create_cq";
	rc = v->create_cq(rail->ctx, (int)rail->budget.size, rail,
			  rail->channel, &rail->cq);
	if (rc < 0)
		goto err_channel;
	fcntl(rail->ctx->async_fd, F_SETFL,
	      fcntl(rail->ctx->async_fd, F_GETFL) | O_NONBLOCK);
	return 0;

err_channel:
	v->destroy_comp_channel(rail->channel);
err_say:
	mpib_verbs_explain(spec, &rail->port.dev, call, rc, why, why_len);
err_close:
	v->close(rail->ctx);
	rail->ctx = NULL;
	return rc;
err_why:
	mpib_verbs_explain(spec, NULL, call, rc, why, why_len);
	return rc;
}

int mpib_rail_there(const struct mpib_rail_spec *spec)
{
	const struct mpib_verbs *v = mpib_verbs_of(spec);
	struct mpib_port_info port;
	struct ibv_context *ctx;
	int rc = v->open(spec, &ctx);

	if (rc < 0)
		return rc;
	rc = v->query_port(ctx, spec->port, &port);
	if (rc == 0 && port.state != IBV_PORT_ACTIVE)
		rc = -ENETDOWN;
	v->close(ctx);
	return rc;
}

void mpib_rail_close(struct mpib_rail *rail)
{
	if (!rail->ctx)
		return;
	rail->verbs->destroy_cq(rail->cq);
	rail->verbs->destroy_comp_channel(rail->channel);
	rail->verbs->close(rail->ctx);
	rail->ctx = NULL;
}
