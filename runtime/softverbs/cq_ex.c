/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extended completion queues: an entry is polled from the ordinary CQ and kept,
 * and the program reads it field by field. Time stamps tell when the entry was
 * made, in ns of CLOCK_MONOTONIC.
 */
#include "softverbs/softverbs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIELDS (IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)

struct sv_reader {
	/* Held from an ibv_start_poll() with an entry to ibv_end_poll(). */
	pthread_mutex_t lock;
	struct ibv_wc wc;
	uint64_t ns;
};

static struct sv_reader *cq_ex_reader_of(struct ibv_cq_ex *cq)
{
	return ((struct mpib_soft_cq_ex *)cq)->reader;
}

static int next_poll(struct ibv_cq_ex *cq)
{
	struct sv_reader *r = cq_ex_reader_of(cq);
	int n = mpib_soft_poll_stamped(ibv_cq_ex_to_cq(cq), &r->wc, &r->ns);

	if (n <= 0)
		return n ? -n : ENOENT;
	cq->wr_id = r->wc.wr_id;
	cq->status = r->wc.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	struct sv_reader *r = cq_ex_reader_of(cq);
	int rc;

	if (attr && attr->comp_mask)
		return EINVAL;
	pthread_mutex_lock(&r->lock);
	rc = next_poll(cq);
	if (rc)
		pthread_mutex_unlock(&r->lock);
	return rc;
}

static void end_poll(struct ibv_cq_ex *cq)
{
	pthread_mutex_unlock(&cq_ex_reader_of(cq)->lock);
}

/* What is read of the entry that was polled last. */
#define READ(X)                                                                \
	X(enum ibv_wc_opcode, opcode, wc.opcode)                               \
	X(uint32_t, vendor_err, wc.vendor_err)                                 \
	X(uint32_t, byte_len, wc.byte_len)                                     \
	X(__be32, imm_data, wc.imm_data)                                       \
	X(uint32_t, qp_num, wc.qp_num)                                         \
	X(uint32_t, src_qp, wc.src_qp)                                         \
	X(unsigned, wc_flags, wc.wc_flags)                                     \
	X(uint32_t, slid, wc.slid)                                             \
	X(uint8_t, sl, wc.sl)                                                  \
	X(uint8_t, dlid_path_bits, wc.dlid_path_bits)                          \
	X(uint64_t, completion_ts, ns)

#define READER(type, name, field)                                              \
	static type read_##name(struct ibv_cq_ex *cq)                          \
	{                                                                      \
		return cq_ex_reader_of(cq)->field;                             \
	}
READ(READER)

static void cq_ex_fill(struct ibv_cq_ex *cq)
{
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	cq->end_poll = end_poll;
#define SET(type, name, field) cq->read_##name = read_##name;
	READ(SET)
}

static int cq_ex_check(const struct ibv_cq_init_attr_ex *attr)
{
	const uint32_t known = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;

	if (attr->wc_flags & ~(uint64_t)FIELDS ||
	    attr->comp_mask & ~(uint32_t)IBV_CQ_INIT_ATTR_MASK_FLAGS)
		return EOPNOTSUPP;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
	    attr->flags & ~known)
		return EOPNOTSUPP;
	return 0;
}

struct ibv_cq_ex *sv_create_cq_ex(struct ibv_context *ctx,
				  struct ibv_cq_init_attr_ex *attr)
{
	struct mpib_soft_cq_ex *x;
	struct ibv_cq *cq;
	int rc = cq_ex_check(attr);

	if (rc)
		return sv_object(-rc, NULL);
	cq = ibv_create_cq(ctx, (int)attr->cqe, attr->cq_context, attr->channel,
			   (int)attr->comp_vector);
	if (!cq)
		return NULL;
	x = (struct mpib_soft_cq_ex *)cq;
	x->reader = calloc(1, sizeof(*x->reader));
	if (!x->reader) {
		ibv_destroy_cq(cq);
		return sv_object(-ENOMEM, NULL);
	}
	pthread_mutex_init(&x->reader->lock, NULL);
	if (attr->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		mpib_soft_stamp(cq);
	cq_ex_fill(&x->ex);
	return &x->ex;
}

void sv_reader_free(struct sv_reader *r)
{
	if (!r)
		return;
	pthread_mutex_destroy(&r->lock);
	free(r);
}

int sv_query_rt_values(struct ibv_context *ctx, struct ibv_values_ex *values)
{
	(void)ctx;
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return EOPNOTSUPP;
	clock_gettime(CLOCK_MONOTONIC, &values->raw_clock);
	return 0;
}
