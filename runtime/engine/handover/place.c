/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-over of what a connection does in its client's regions: places, and the
 * flushes, which are nothing else. Control thread, shards halted.
 */
#include "engine/conn/conn.h"
#include "engine/handover/handover.h"

void mpib_place_serialize(struct mpib_serial *p, struct engine_conn *f,
			  struct mpib_mr **mr, uint64_t *addr, uint32_t len)
{
	uint32_t handle = p->packing && *mr ? (*mr)->handle : 0;
	uint64_t off = handle ? *addr - (*mr)->addr : 0;
	struct mpib_mr *m;

	mpib_serial_count(p, &handle, MPIB_MRS_MAX - 1);
	mpib_serial_u64(p, &off);
	if (p->packing)
		return;
	*mr = NULL;
	*addr = 0;
	if (!handle)
		return;
	m = f->client->mr[handle];
	if (!m || off > m->len || len > m->len - off) {
		mpib_serial_fail(p, "a place outside of its region");
		return;
	}
	mpib_mr_ref(m);
	*mr = m;
	*addr = m->addr + off;
}

/* READs that are not answered in the old process are posted anew. */
MPIB_SERIAL_SIZE(struct mpib_flush, 40);
static void place_flush(struct mpib_serial *p, struct engine_conn *f,
			struct mpib_flush *flush)
{
	mpib_place_serialize(p, f, &flush->mr, &flush->addr, 1);
	if (p->packing)
		return;
	if (flush->mr && flush->mr->device)
		mpib_flush_again(f, flush);
	else
		mpib_serial_fail(p, "a flush of no device memory");
}

MPIB_SERIAL_SIZE(struct mpib_flushes, 1336);
void mpib_flushes_serialize(struct mpib_serial *p, struct engine_conn *f)
{
	struct mpib_flushes *fl = &f->rx.flush;
	uint32_t n;

	mpib_serial_u32(p, &fl->ended);
	n = fl->taken - fl->ended;
	mpib_serial_count(p, &n, MPIB_FLUSHES);
	fl->taken = fl->ended + n;
	for (uint32_t i = fl->ended; i != fl->taken && !p->failed; i++)
		place_flush(p, f, &fl->at[i % MPIB_FLUSHES]);
	if (p->packing)
		return;
	for (unsigned r = 0; r < f->lane->rails; r++)
		fl->arrived[r] = f->shard->now;
	mpib_flush_inherit(f);
	mpib_flush_tell(f);
}
