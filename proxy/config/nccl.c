/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of NCCL's own transport that say the same of an HCA as the proxy's.
 * A cluster has them in /etc/nccl.conf or in the environment, tuned for its
 * fabric. Names and meanings are those of NCCL_PARAM() in NCCL 2.30's
 * transport/net_ib.
 */
#include "config/config.h"

#include <string.h>

static const struct nccl_setting {
	const char *name, *section, *key;
	const char *const *values; /* what the digits 0, 1 ... are here */
} nccl_settings[] = {
	{ "NCCL_IB_HCA", "hca", "filter", NULL },
	{ "NCCL_IB_ADDR_RANGE", "hca", "gid_net", NULL },
	{ "NCCL_IB_TIMEOUT", "qp", "timeout", NULL },
	{ "NCCL_IB_RETRY_CNT", "qp", "retry_cnt", NULL },
	{ "NCCL_IB_TC", "qp", "traffic_class", NULL },
	{ "NCCL_IB_SL", "qp", "service_level", NULL },
	{ "NCCL_IB_PKEY", "qp", "pkey_index", NULL },
	{ "NCCL_IB_ECE_ENABLE", "qp", "ece",
	  (const char *const[]){ "no", "yes", NULL } },
	{ "NCCL_IB_ADAPTIVE_ROUTING", "ar", "mode",
	  (const char *const[]){ "off", "on", NULL } },
	{ "NCCL_IB_AR_THRESHOLD", "ar", "threshold", NULL },
};

static const char *nccl_value(const struct nccl_setting *n, const char *value)
{
	for (unsigned i = 0; n->values && n->values[i]; i++) {
		if (value[0] == '0' + (char)i && !value[1])
			return n->values[i];
	}
	return value;
}

int mpib_config_read_nccl(struct mpib_config *cfg, char **env, char *why)
{
	for (unsigned i = 0;
	     i < sizeof(nccl_settings) / sizeof(nccl_settings[0]); i++) {
		const struct nccl_setting *n = &nccl_settings[i];
		const char *value = mpib_config_getenv(env, n->name);
		char origin[MPIB_ORIGIN_MAX];
		int rc;

		/* NCCL takes an empty variable for one that is not set. */
		if (!value || !*value)
			continue;
		snprintf(origin, sizeof(origin), "environment %s", n->name);
		rc = mpib_config_set(cfg, mpib_config_find(n->section, n->key),
				     nccl_value(n, value), origin, why);
		if (rc < 0)
			return rc;
	}
	return 0;
}

bool mpib_config_takes_nccl(const char *name)
{
	for (unsigned i = 0;
	     i < sizeof(nccl_settings) / sizeof(nccl_settings[0]); i++) {
		if (!strcmp(nccl_settings[i].name, name))
			return true;
	}
	return false;
}
