/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin as NCCL loads it, as a shared object, with the fake proxy of the
 * client library's tests. The plugin's log messages are recorded.
 */
#ifndef PLUGIN_RIG_H
#define PLUGIN_RIG_H

#include "../ipc/fake_proxy.h"
#include "nccl_abi.h"

struct rig {
	struct fake_proxy *f;
	const struct nccl_net_v12 *net;
	void *ctx, *listener, *tx, *rx;
};

extern unsigned rig_warnings;
extern char rig_warning[1024]; /* the last warning */
extern char rig_info[1024]; /* the last message that is not a warning */
void rig_log(enum nccl_log_level level, unsigned long flags, const char *where,
	     int line, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Return the plugin's table "ncclNetPlugin_v<version>". */
const void *rig_table(int version);

/* Start a proxy, set MPIB_RUN_DIR, and find the v12 table. Return NULL on
 * failure. */
struct rig *rig_new(void);
/* Call init, and connect `tx` (index 0) to `rx` (index 1). Return 0 or -1. */
int rig_connect(struct rig *r);
/* Close and finalize everything, and stop the proxy. */
void rig_free(struct rig *r);

#endif
