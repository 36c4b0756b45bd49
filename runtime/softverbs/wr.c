/* SPDX-License-Identifier: Apache-2.0 */
/* Posting by ibv_wr_*(). After ibv_wr_start() the requests are collected in an
 * ordinary chain of WRs. ibv_wr_complete() posts all of them or none. If the
 * program makes a mistake between the two calls, the mistake is recorded in
 * `error`, and ibv_wr_complete() returns it. */
#include "softverbs/softverbs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define OPERATIONS                                                             \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |      \
	 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |                  \
	 IBV_QP_EX_WITH_RDMA_READ)
#define KNOWN_MASK                                                             \
	(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |                 \
	 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)

struct sv_builder {
	/* Held from ibv_wr_start() to ibv_wr_complete() or ibv_wr_abort(). */
	pthread_mutex_t lock;
	struct ibv_qp_cap cap;
	int error;
	unsigned n;
	/* max_send_wr entries, and one more for the first request beyond this
	 * limit. */
	struct ibv_send_wr *wr;
	struct ibv_sge *sge;
	uint8_t *data; /* inline data */
};

static struct sv_builder *builder_of(struct ibv_qp_ex *ex)
{
	return ((struct mpib_soft_qp_ex *)ex)->builder;
}

static void wr_fail(struct sv_builder *b, int error)
{
	if (!b->error)
		b->error = error;
}

static struct ibv_send_wr *wr_add(struct ibv_qp_ex *ex,
				  enum ibv_wr_opcode opcode)
{
	struct sv_builder *b = builder_of(ex);
	struct ibv_send_wr *wr;

	if (b->n > b->cap.max_send_wr)
		b->n = b->cap.max_send_wr;
	wr = &b->wr[b->n];
	*wr = (struct ibv_send_wr){
		.wr_id = ex->wr_id,
		.opcode = opcode,
		.send_flags = ex->wr_flags & ~(unsigned)IBV_SEND_INLINE,
		.sg_list = &b->sge[(size_t)b->n * b->cap.max_send_sge],
	};
	if (b->n == b->cap.max_send_wr)
		wr_fail(b, ENOMEM);
	b->n++;
	return wr;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	wr_add(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	wr_add(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static struct ibv_send_wr *add_rdma(struct ibv_qp_ex *ex,
				    enum ibv_wr_opcode opcode, uint32_t rkey,
				    uint64_t addr)
{
	struct ibv_send_wr *wr = wr_add(ex, opcode);

	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = addr;
	return wr;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	add_rdma(ex, IBV_WR_RDMA_WRITE, rkey, addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey,
			      uint64_t addr, __be32 imm)
{
	add_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr)->imm_data = imm;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	add_rdma(ex, IBV_WR_RDMA_READ, rkey, addr);
}

/* Return the request that was started last. If there is none, record EINVAL and
 * return NULL. */
static struct ibv_send_wr *wr_last(struct sv_builder *b)
{
	if (!b->n)
		wr_fail(b, EINVAL);
	return b->n ? &b->wr[b->n - 1] : NULL;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n,
			    const struct ibv_sge *list)
{
	struct sv_builder *b = builder_of(ex);
	struct ibv_send_wr *wr = wr_last(b);

	if (!wr)
		return;
	if (n > b->cap.max_send_sge) {
		wr_fail(b, EINVAL);
		return;
	}
	if (n)
		memcpy(wr->sg_list, list, n * sizeof(*list));
	wr->num_sge = (int)n;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr,
		       uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n,
				    const struct ibv_data_buf *list)
{
	struct sv_builder *b = builder_of(ex);
	struct ibv_send_wr *wr = wr_last(b);
	size_t max = b->cap.max_inline_data, len = 0;
	uint8_t *data;

	if (!wr)
		return;
	data = b->data + max * (b->n - 1);
	for (size_t i = 0; i < n; i++) {
		if (list[i].length > max - len) {
			wr_fail(b, EINVAL);
			return;
		}
		if (list[i].length)
			memcpy(data + len, list[i].addr, list[i].length);
		len += list[i].length;
	}
	wr->send_flags |= IBV_SEND_INLINE;
	wr->num_sge = 1;
	*wr->sg_list = (struct ibv_sge){ .addr = (uintptr_t)data,
					 .length = (uint32_t)len };
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(ex, 1, &buf);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct sv_builder *b = builder_of(ex);

	pthread_mutex_lock(&b->lock);
	b->n = 0;
	b->error = 0;
}

static int wr_post(struct ibv_qp *qp, struct sv_builder *b)
{
	struct ibv_send_wr *bad;

	if (b->error || !b->n)
		return b->error;
	/* ibv_post_send() will accept the whole chain: b->lock keeps other
	 * posters out, and a poll can only add room. */
	if (b->n > mpib_soft_send_room(qp))
		return ENOMEM;
	for (unsigned i = 0; i + 1 < b->n; i++)
		b->wr[i].next = &b->wr[i + 1];
	return ibv_post_send(qp, b->wr, &bad);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct sv_builder *b = builder_of(ex);
	int rc = wr_post(&ex->qp_base, b);

	pthread_mutex_unlock(&b->lock);
	return rc;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	pthread_mutex_unlock(&builder_of(ex)->lock);
}

void sv_builder_free(struct sv_builder *b)
{
	if (!b)
		return;
	pthread_mutex_destroy(&b->lock);
	free(b->wr);
	free(b->sge);
	free(b->data);
	free(b);
}

static struct sv_builder *builder_new(const struct ibv_qp_cap *cap)
{
	struct sv_builder *b = calloc(1, sizeof(*b));
	size_t n = (size_t)cap->max_send_wr + 1;

	if (!b)
		return NULL;
	pthread_mutex_init(&b->lock, NULL);
	b->cap = *cap;
	b->wr = calloc(n, sizeof(*b->wr));
	b->sge = calloc(n * cap->max_send_sge, sizeof(*b->sge));
	b->data = malloc(n * cap->max_inline_data + 1);
	if (b->wr && b->sge && b->data)
		return b;
	sv_builder_free(b);
	return NULL;
}

/* Set the operations that the program requested. Others remain NULL. */
static void wr_fill(struct ibv_qp_ex *ex, uint64_t ops)
{
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE)
		ex->wr_rdma_write = wr_rdma_write;
	if (ops & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex->wr_rdma_write_imm = wr_rdma_write_imm;
	if (ops & IBV_QP_EX_WITH_SEND)
		ex->wr_send = wr_send;
	if (ops & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = wr_send_imm;
	if (ops & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = wr_rdma_read;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
}

static int wr_check(const struct ibv_qp_init_attr_ex *attr)
{
	uint32_t mask = attr->comp_mask;

	if (!(mask & IBV_QP_INIT_ATTR_PD))
		return EINVAL;
	if (mask & ~(uint32_t)KNOWN_MASK ||
	    (mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags))
		return EOPNOTSUPP;
	if (mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	    attr->send_ops_flags & ~(uint64_t)OPERATIONS)
		return EOPNOTSUPP;
	return 0;
}

struct ibv_qp *sv_create_qp_ex(struct ibv_context *ctx,
			       struct ibv_qp_init_attr_ex *attr)
{
	struct mpib_soft_qp_ex *x;
	struct ibv_qp *qp;
	int rc = wr_check(attr);

	(void)ctx;
	if (rc)
		return sv_object(-rc, NULL);
	/* struct ibv_qp_init_attr_ex begins with the members of struct
	 * ibv_qp_init_attr, so the cast is valid. */
	qp = ibv_create_qp(attr->pd, (struct ibv_qp_init_attr *)attr);
	if (!qp || !(attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return qp;
	x = (struct mpib_soft_qp_ex *)qp;
	x->builder = builder_new(&attr->cap);
	if (!x->builder) {
		ibv_destroy_qp(qp);
		return sv_object(-ENOMEM, NULL);
	}
	wr_fill(&x->ex, attr->send_ops_flags);
	return qp;
}

SV_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	struct mpib_soft_qp_ex *x = (struct mpib_soft_qp_ex *)qp;

	return x->builder ? &x->ex : NULL;
}

/* Extended completion queues. An entry is polled from the ordinary CQ and
 * stored, and the program reads its fields one by one. The time stamp is the
 * time of the poll, in ns of CLOCK_MONOTONIC. */

#define FIELDS (IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)

struct sv_reader {
	/* Held from a successful ibv_start_poll() to ibv_end_poll(). */
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
	int n = ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &r->wc);

	if (n <= 0)
		return n ? -n : ENOENT;
	r->ns = mpib_now_ns();
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

/* Functions that read fields of the entry that was polled last. */
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
