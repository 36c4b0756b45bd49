/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of the software HCA: what it can, or less, as MPIB_SOFT_LIMITS says. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "verbs/soft/cq.h"
#include "verbs/soft/ctx.h"
#include "verbs/soft/mr.h"
#include "verbs/soft/qp.h"
#include "verbs/soft/srq.h"
#include "verbs/soft/wire/wire.h"

/* An OUI, locally administered, as that of the MAC that the GUID is made of. */
#define VENDOR_LOCAL 0x020000

#define DEV(member)                                                            \
	{                                                                      \
#member, offsetof(struct mpib_soft_limits, dev.member),        \
			sizeof(((struct ibv_device_attr *)NULL)->member)       \
	}
#define OWN(member)                                                            \
	{                                                                      \
#member, offsetof(struct mpib_soft_limits, member),            \
			sizeof(((struct mpib_soft_limits *)NULL)->member)      \
	}

static const struct {
	const char *name;
	size_t at, size; /* of the member */
} lowered[] = {
	OWN(max_msg_sz), OWN(max_inline_data), DEV(max_mr_size),
	DEV(max_qp),	 DEV(max_qp_wr),       DEV(max_sge),
	DEV(max_cq),	 DEV(max_cqe),	       DEV(max_mr),
	DEV(max_pd),	 DEV(max_qp_rd_atom),  DEV(max_qp_init_rd_atom),
	DEV(max_srq),	 DEV(max_srq_wr),
};

static void limits_init(struct mpib_soft_limits *l)
{
	l->max_msg_sz = SOFT_MAX_MSG;
	l->max_inline_data = SOFT_MAX_INLINE;
	l->dev = (struct ibv_device_attr){
		.max_mr_size = UINT64_MAX,
		.page_size_cap = UINT64_MAX & ~0xfffull,
		.vendor_id = VENDOR_LOCAL,
		.vendor_part_id = 1,
		.hw_ver = 1,
		.max_qp = SOFT_NQP - 2,
		.max_qp_wr = SOFT_MAX_WR,
		.device_cap_flags = IBV_DEVICE_SYS_IMAGE_GUID |
				    IBV_DEVICE_RC_RNR_NAK_GEN |
				    IBV_DEVICE_PORT_ACTIVE_EVENT,
		.max_sge = SOFT_MAX_SGE,
		.max_sge_rd = SOFT_MAX_SGE,
		.max_cq = SOFT_NQP,
		.max_cqe = SOFT_MAX_CQE,
		.max_mr = SOFT_MAX_MR,
		.max_pd = SOFT_NQP,
		.max_qp_rd_atom = SOFT_MAX_RD,
		.max_res_rd_atom = SOFT_MAX_RD * (SOFT_NQP - 2),
		.max_qp_init_rd_atom = SOFT_MAX_RD,
		.atomic_cap = IBV_ATOMIC_GLOB,
		.max_srq = SOFT_NQP,
		.max_srq_wr = SOFT_MAX_WR,
		.max_srq_sge = SOFT_MAX_SGE,
		.max_pkeys = 1,
		.phys_port_cnt = 1,
	};
	snprintf(l->dev.fw_ver, sizeof(l->dev.fw_ver), "soft.1");
}

/* Set the limit to a value that is no more than it is. */
static int limit_lower(struct mpib_soft_limits *l, const char *name,
		       const char *text)
{
	for (unsigned i = 0; i < sizeof(lowered) / sizeof(lowered[0]); i++) {
		char *member = (char *)l + lowered[i].at;
		uint64_t was = 0, value;

		if (strcmp(name, lowered[i].name) != 0)
			continue;
		/* Little-endian, like every machine that this builds for. */
		memcpy(&was, member, lowered[i].size);
		if (!mpib_number(text, 0, was, &value))
			return -EINVAL;
		memcpy(member, &value, lowered[i].size);
		return 0;
	}
	return -EINVAL;
}

/* One entry: [ADDRESS/]NAME=VALUE. */
static int limit_take(struct soft_ctx *ctx, char *entry)
{
	char *slash = strchr(entry, '/'), *equals = strchr(entry, '=');
	char address[INET_ADDRSTRLEN];

	if (!equals)
		return -EINVAL;
	*equals = '\0';
	if (!slash)
		return limit_lower(&ctx->limits, entry, equals + 1);
	*slash = '\0';
	inet_ntop(AF_INET, &ctx->addr, address, sizeof(address));
	return strcmp(entry, address) != 0
		       ? 0
		       : limit_lower(&ctx->limits, slash + 1, equals + 1);
}

int soft_limits_init(struct soft_ctx *ctx)
{
	const char *env = getenv("MPIB_SOFT_LIMITS");
	char *text, *entry, *rest;
	int rc = 0;

	limits_init(&ctx->limits);
	if (!env || !*env)
		return 0;
	text = strdup(env);
	if (!text)
		return -ENOMEM;
	for (entry = strtok_r(text, ",", &rest); entry && rc == 0;
	     entry = strtok_r(NULL, ",", &rest))
		rc = limit_take(ctx, entry);
	free(text);
	return rc;
}

const struct mpib_soft_limits *mpib_soft_limits(struct ibv_context *c)
{
	return &to_ctx(c)->limits;
}
