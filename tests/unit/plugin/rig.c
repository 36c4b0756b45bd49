/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned rig_warnings;
char rig_warning[1024], rig_info[1024];

void rig_log(enum nccl_log_level level, unsigned long flags, const char *where,
	     int line, const char *fmt, ...)
{
	va_list ap;

	(void)flags;
	(void)where;
	(void)line;
	va_start(ap, fmt);
	if (level == NCCL_LOG_WARN) {
		rig_warnings++;
		vsnprintf(rig_warning, sizeof(rig_warning), fmt, ap);
	} else {
		vsnprintf(rig_info, sizeof(rig_info), fmt, ap);
	}
	va_end(ap);
}

const void *rig_table(int version)
{
	static void *lib;
	char name[32];

	if (!lib)
		lib = dlopen(PLUGIN_PATH, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		return NULL;
	}
	snprintf(name, sizeof(name), NCCL_NET_SYMBOL_PREFIX "%d", version);
	return dlsym(lib, name);
}

struct rig *rig_new(void)
{
	struct rig *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	rig_warnings = 0;
	rig_warning[0] = 0;
	r->net = rig_table(NCCL_NET_ABI_NEWEST);
	r->f = fake_proxy_start();
	if (!r->net || !r->f) {
		free(r);
		return NULL;
	}
	setenv("MPIB_RUN_DIR", r->f->dir, 1);
	return r;
}

int rig_connect(struct rig *r)
{
	char handle[NCCL_NET_HANDLE_MAXSIZE];
	struct nccl_net_comm_config config = { .trafficClass = -1 };

	if (r->net->init(&r->ctx, 11, &config, rig_log, NULL) != NCCL_SUCCESS ||
	    r->net->listen(r->ctx, 0, handle, &r->listener) != NCCL_SUCCESS ||
	    r->net->connect(r->ctx, 0, handle, &r->tx, NULL) != NCCL_SUCCESS ||
	    r->net->accept(r->listener, &r->rx, NULL) != NCCL_SUCCESS)
		return -1;
	if (!r->tx || !r->rx)
		return -1;
	fake_conn_open(r->f, 0);
	fake_conn_open(r->f, 1);
	return 0;
}

void rig_free(struct rig *r)
{
	r->net->closeSend(r->tx);
	r->net->closeRecv(r->rx);
	r->net->closeListen(r->listener);
	if (r->ctx)
		r->net->finalize(r->ctx);
	fake_proxy_stop(r->f);
	free(r);
}
