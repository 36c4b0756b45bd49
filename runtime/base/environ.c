/* SPDX-License-Identifier: Apache-2.0 */
#include "base/environ.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define PREFIX "MPIB_"

/* The proxy's settings, so that a rank that shares its environment gets no
 * warnings about them, and variables read with getenv(). This copies the
 * proxy's list, because runtime/base may not include the proxy; the test
 * unit/documented compares both. */
const char *const mpib_environ_names[] = {
	"MPIB_RUN_DIR",
	"MPIB_RUN_GROUP",
	"MPIB_RUN_USER",
	"MPIB_HCA_SOUT",
	"MPIB_HCA_SUP",
	"MPIB_HCA_GID_NET",
	"MPIB_HCA_DMABUF",
	"MPIB_HCA_FILTER",
	"MPIB_HCA_SPEED",
	"MPIB_DEVICE_LAYOUT",
	"MPIB_PEER_ADDR",
	"MPIB_PEER_PORT",
	"MPIB_PEER_NETWORKS",
	"MPIB_PEER_KEY_FILE",
	"MPIB_PEER_SILENCE",
	"MPIB_PROXY_THREADS",
	"MPIB_PROXY_PIN",
	"MPIB_PROXY_DAEMON",
	"MPIB_PROXY_SECCOMP",
	"MPIB_PROXY_CORE",
	"MPIB_LOG_EVENTS",
	"MPIB_LOG_FORMAT",
	"MPIB_LOG_LEVEL",
	"MPIB_LOG_TIMES",
	"MPIB_LANE_MODE",
	"MPIB_LANE_WINDOW",
	"MPIB_LANE_SPREAD",
	"MPIB_LANE_FRAG",
	"MPIB_FAILOVER_ENABLE",
	"MPIB_FAILOVER_HOLD_DOWN",
	"MPIB_FAILOVER_GRACE",
	"MPIB_FAILOVER_COMPLETION",
	"MPIB_FAULT_ENABLE",
	"MPIB_SOUT_QP",
	"MPIB_SUP_QP",
	"MPIB_SUP_BW",
	"MPIB_POLICY_BDP",
	"MPIB_POLICY_BDP_BY",
	"MPIB_AGENT_DIR",
	"MPIB_AGENT_USER",
	"MPIB_ISLAND_PREFIX",
	"MPIB_ISLAND_NETWORKS",
	"MPIB_SRQ_LOW",
	"MPIB_SRQ_HIGH",
	"MPIB_CTS_SIGNAL_INTERVAL",
	"MPIB_QP_SQ_DEPTH",
	"MPIB_QP_TIMEOUT",
	"MPIB_QP_RETRY_CNT",
	"MPIB_QP_RNR_RETRY",
	"MPIB_QP_MIN_RNR_TIMER",
	"MPIB_QP_TRAFFIC_CLASS",
	"MPIB_QP_TRAFFIC_CLASSES",
	"MPIB_QP_SERVICE_LEVEL",
	"MPIB_QP_PKEY_INDEX",
	"MPIB_QP_ECE",
	"MPIB_AR_MODE",
	"MPIB_AR_THRESHOLD",
	"MPIB_RESUME_GRACE",
	"MPIB_CLIENT_ANSWER",
	"MPIB_CLIENT_REQUEST_TIMEOUT",
	"MPIB_CLIENT_CONNECT_TIMEOUT",
	"MPIB_CLIENT_WINDOW",
	"MPIB_CLIENT_PART",
	"MPIB_CLIENT_HUGE_PAGES",
	"MPIB_CLIENT_OWN_MEMORY",
	"MPIB_LIMIT_CLIENTS",
	"MPIB_LIMIT_REGIONS",
	"MPIB_LIMIT_MEMORY",
	"MPIB_SHARE_RULES",
	"MPIB_SHARE_THREADS",
	"MPIB_SHARE_LIMIT",
	"MPIB_SHARE_WINDOW",
	"MPIB_LIMIT_READERS",
	"MPIB_METRICS_LISTEN",
	"MPIB_METRICS_CERT",
	"MPIB_METRICS_KEY",
	"MPIB_METRICS_TOKEN_FILE",
	"MPIB_METRICS_HOSTS",
	"MPIB_QUOTA_CLIENTS",
	"MPIB_QUOTA_CONNECTIONS",
	"MPIB_QUOTA_REQUESTS",
	"MPIB_QUOTA_LISTENERS",
	"MPIB_QUOTA_LANES",
	"MPIB_QUOTA_REGIONS",
	"MPIB_QUOTA_MEMORY",
	"MPIB_QUOTA_POOL",
	"MPIB_QUOTA_FDS",
	"MPIB_QUOTA_MESSAGES",
	"MPIB_MODE",
	"MPIB_START",
	"MPIB_SOFT_DEVICES",
	"MPIB_SOFT_ENGINE",
	"MPIB_SOFT_GONE",
	"MPIB_SOFT_LIMITS",
	"MPIB_SOFT_PORT_BASE",
	NULL,
};

static const char *environ_nearest(const char *name)
{
	/* Compare without the prefix, because with it any two names are
	 * similar. */
	struct mpib_suggest s = { .typed = name + strlen(PREFIX) };

	for (unsigned i = 0; mpib_environ_names[i]; i++)
		mpib_suggest_try(&s, mpib_environ_names[i] + strlen(PREFIX));
	return mpib_suggest_best(&s) ? mpib_suggest_best(&s) - strlen(PREFIX)
				     : NULL;
}

static bool is_known(const char *name)
{
	for (unsigned i = 0; mpib_environ_names[i]; i++) {
		if (!strcmp(name, mpib_environ_names[i]))
			return true;
	}
	return false;
}

bool mpib_environ_is_proxys(const char *name)
{
	/* The client library reads these. */
	return is_known(name) && strcmp(name, "MPIB_RUN_DIR") != 0 &&
	       strcmp(name, "MPIB_START") != 0;
}

unsigned mpib_environ_list(char **env, mpib_environ_want *want, char *text,
			   size_t len)
{
	static const char cut[] = ", ...";
	size_t at = 0;
	unsigned n = 0, listed = 0;

	text[0] = '\0';
	for (; *env; env++) {
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*env, "="),
			 *env);
		if (!want(name))
			continue;
		if (n++ > listed)
			continue;
		/* Keep room for the final ", ...". */
		if (at + 2 + strlen(name) + sizeof(cut) <= len) {
			at += (size_t)snprintf(text + at, len - at, "%s%s",
					       at ? ", " : "", name);
			listed++;
		} else {
			snprintf(text + at, len - at, "%s", cut);
		}
	}
	return n;
}

bool mpib_environ_is_link(const char *value)
{
	return value &&
	       (!strncmp(value, "tcp://", 6) || !strncmp(value, "udp://", 6) ||
		!strncmp(value, "sctp://", 7));
}

void mpib_environ_check(char **env, mpib_environ_fn *fn, void *arg)
{
	for (; *env; env++) {
		const char *value = strchr(*env, '=');
		char name[64];

		if (strncmp(*env, PREFIX, strlen(PREFIX)) != 0 ||
		    (value && mpib_environ_is_link(value + 1)))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*env, "="),
			 *env);
		if (!is_known(name))
			fn(arg, name, environ_nearest(name));
	}
}
