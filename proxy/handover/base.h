/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a proxy needs to get ready to take over from another: nothing of it
 * changes anything for the one that serves. Control thread.
 */
#ifndef MPIB_PROXY_HANDOVER_BASE_H
#define MPIB_PROXY_HANDOVER_BASE_H

#include "base/serial.h"
#include "engine/engine.h"

struct mpib_base {
	uint32_t abi; /* MPIB_ABI_VERSION */
	uint32_t rails;
	char run_dir[96];
	char peer_link[64]; /* where it listens, for people */
	struct mpib_engine_inherited inherited;
	int control, stats, metrics; /* listening */
	int lock; /* of the run directory */
	int guard; /* its link, see guard.h; or -1 */
	bool activated; /* control is systemd's */
	bool made; /* the run directory */
	uint32_t upgrades; /* that succeeded before */
	uint32_t readopted; /* rails that were taken back before */
	uint32_t lost; /* bit per rail whose device failed for good */
};

void mpib_base_serialize(struct mpib_serial *p, struct mpib_base *b);

#endif
