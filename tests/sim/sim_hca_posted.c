/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes into GPU memory are posted PCIe writes: when the device completes a
 * WRITE, the data can still be on the way over PCIe. The writes arrive in the
 * order in which the device sent them. A read through the same device flushes
 * these writes.
 */
#include <stdlib.h>
#include <string.h>

#include "sim_hca.h"

/* Maximum time that a write spends on PCIe. By default, the completion timeout
 * of a PCIe device is at most this long. */
#define WAY_MOST (50 * SIM_MS)

struct sim_posted {
	TAILQ_ENTRY(sim_posted) link;
	uint64_t at;
	uint8_t *to, *bytes;
	size_t len;
};

static void on_placed(void *arg);

static void place_first(struct sim_device *d)
{
	struct sim_posted *p = TAILQ_FIRST(&d->posted);

	TAILQ_REMOVE(&d->posted, p, link);
	memcpy(p->to, p->bytes, p->len);
	free(p->bytes);
	free(p);
}

static void wait_for_first(struct sim_device *d)
{
	const struct sim_posted *p = TAILQ_FIRST(&d->posted);

	if (p)
		sim_event_arm(&d->places, p->at, on_placed, d);
	else
		sim_event_disarm(&d->places);
}

static void on_placed(void *arg)
{
	struct sim_device *d = arg;
	const struct sim_posted *p;

	while ((p = TAILQ_FIRST(&d->posted)) && p->at <= sim_now)
		place_first(d);
	wait_for_first(d);
}

void sim_posted_write(struct sim_device *d, uint8_t *to, const uint8_t *bytes,
		      size_t len)
{
	struct sim_posted *p = calloc(1, sizeof(*p));
	const struct sim_posted *last = TAILQ_LAST(&d->posted, sim_posted_list);

	if (!p)
		abort();
	p->bytes = malloc(len + 1);
	if (!p->bytes)
		abort();
	memcpy(p->bytes, bytes, len);
	p->to = to;
	p->len = len;
	p->at = sim_now + sim_hca_draw(1ull << sim_hca_draw(26));
	if (p->at > sim_now + WAY_MOST)
		p->at = sim_now + WAY_MOST;
	if (last && p->at < last->at)
		p->at = last->at;
	TAILQ_INSERT_TAIL(&d->posted, p, link);
	wait_for_first(d);
}

void sim_posted_push(struct sim_device *d)
{
	while (TAILQ_FIRST(&d->posted))
		place_first(d);
	wait_for_first(d);
}
