/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of NCCL's own transport that say the same of an HCA as the proxy's.
 * A cluster has them in /etc/nccl.conf or in the environment, tuned for its
 * fabric. Names and meanings are those of NCCL_PARAM() in NCCL 2.30's
 * transport/net_ib.
 */
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

#define UNSET_NONE 1 /* a number that stands for itself */

static const struct nccl_setting {
	const char *name, *section, *key;
	int unset; /* the number that NCCL takes for a variable not set; 0: the
		      value is no number */
	const char *const *values; /* what the numbers 0, 1 ... are here */
} nccl_settings[] = {
	{ "NCCL_IB_HCA", "hca", "filter", 0, NULL },
	{ "NCCL_IB_ADDR_RANGE", "hca", "gid_net", 0, NULL },
	{ "NCCL_IB_TIMEOUT", "qp", "timeout", UNSET_NONE, NULL },
	{ "NCCL_IB_RETRY_CNT", "qp", "retry_cnt", UNSET_NONE, NULL },
	{ "NCCL_IB_TC", "qp", "traffic_class", -1, NULL },
	{ "NCCL_IB_SL", "qp", "service_level", -1, NULL },
	{ "NCCL_IB_PKEY", "qp", "pkey_index", UNSET_NONE, NULL },
	{ "NCCL_IB_ECE_ENABLE", "qp", "ece", UNSET_NONE,
	  (const char *const[]){ "no", "yes", NULL } },
	{ "NCCL_IB_ADAPTIVE_ROUTING", "ar", "mode", -2,
	  (const char *const[]){ "off", "on", NULL } },
	{ "NCCL_IB_AR_THRESHOLD", "ar", "threshold", -2, NULL },
};

/* The value as the setting has it; NULL where NCCL takes it for one that is not
 * set. NCCL's numbers may be hexadecimal or octal. */
static const char *nccl_value(const struct nccl_setting *n, const char *value,
			      char text[32])
{
	long long number;
	char *end;

	if (!*value)
		return NULL;
	if (!n->unset)
		return value;
	number = strtoll(value, &end, 0);
	if (*end)
		return value;
	if (n->unset < 0 && number == n->unset)
		return NULL;
	for (int i = 0; n->values && n->values[i]; i++) {
		if (number == i)
			return n->values[i];
	}
	snprintf(text, 32, "%lld", number);
	return text;
}

int mpib_config_read_nccl(struct mpib_config *cfg, char **env, char *why)
{
	for (unsigned i = 0;
	     i < sizeof(nccl_settings) / sizeof(nccl_settings[0]); i++) {
		const struct nccl_setting *n = &nccl_settings[i];
		const char *value = mpib_config_getenv(env, n->name);
		char origin[MPIB_ORIGIN_MAX], text[32];
		int rc;

		value = value ? nccl_value(n, value, text) : NULL;
		if (!value)
			continue;
		snprintf(origin, sizeof(origin), "environment %s", n->name);
		rc = mpib_config_set(cfg, mpib_config_find(n->section, n->key),
				     value, origin, why);
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
