/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "engine/shard.h"

static void say(char *why, size_t len, const struct mpib_rail_spec *spec,
		const char *call, int rc, const char *remedy)
{
	snprintf(why, len, "rail %s: %s: %s%s%s%s", spec->name, call,
		 strerror(-rc), remedy ? " (" : "", remedy ? remedy : "",
		 remedy ? ")" : "");
}

int mpib_rail_open(struct mpib_rail *rail, const struct mpib_rail_spec *spec,
		   uint32_t cqe, char *why, size_t why_len)
{
	const struct mpib_verbs *v = mpib_verbs_of(spec);
	int rc;

	*rail = (struct mpib_rail){ .verbs = v, .port_num = spec->port };
	rc = v->open(spec, &rail->ctx);
	if (rc < 0) {
		say(why, why_len, spec, "cannot open the device", rc,
		    spec->provider == MPIB_PROVIDER_SOFT
			    ? "the address must be one of this machine"
			    : "see ibv_devices(1) and the rights of "
			      "/dev/infiniband");
		return rc;
	}
	rc = v->query_port(rail->ctx, spec->port, &rail->port);
	if (rc < 0) {
		say(why, why_len, spec, "cannot query the port", rc, NULL);
		goto err_close;
	}
	/* What QPs are made with: a few CTS in one write. */
	if (rail->port.max_inline > MPIB_INLINE_MAX)
		rail->port.max_inline = MPIB_INLINE_MAX;
	rail->cq_size = cqe < rail->port.max_cqe ? cqe : rail->port.max_cqe;
	rc = v->create_comp_channel(rail->ctx, &rail->channel);
	if (rc < 0) {
		say(why, why_len, spec, "no completion channel", rc, NULL);
		goto err_close;
	}
	fcntl(rail->channel->fd, F_SETFL, O_NONBLOCK);
	rc = v->create_cq(rail->ctx, (int)rail->cq_size, rail, rail->channel,
			  &rail->cq);
	if (rc < 0) {
		say(why, why_len, spec, "no completion queue", rc,
		    "raise RLIMIT_MEMLOCK");
		goto err_channel;
	}
	fcntl(rail->ctx->async_fd, F_SETFL,
	      fcntl(rail->ctx->async_fd, F_GETFL) | O_NONBLOCK);
	return 0;

err_channel:
	v->destroy_comp_channel(rail->channel);
err_close:
	v->close(rail->ctx);
	rail->ctx = NULL;
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
