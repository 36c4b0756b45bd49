/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs layer: standard verbs from two providers. Data verbs
 * (ibv_post_send, ibv_post_srq_recv, ibv_poll_cq, ibv_req_notify_cq) are the
 * inline functions of <infiniband/verbs.h>, which dispatch through
 * ibv_context.ops. Control verbs go through the table below, so that the
 * engine runs unchanged on rdma-core and on the software HCA.
 *
 * Every call in the table returns 0 or a count on success, and -errno on
 * failure. Output parameters are set only if the call succeeds.
 *
 * Threads: any thread may call control verbs, even while another thread posts
 * to or polls objects of the same context. No thread may still use an object
 * that is being destroyed. Only one thread may call data verbs on a CQ, QP or
 * SRQ: the thread that owns the context's progress (a shard).
 */
#ifndef MPIB_VERBS_VERBS_H
#define MPIB_VERBS_VERBS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* A parsed rail specification: "soft:127.0.0.1", "rdma:mlx5_0:1". */
#define MPIB_RAIL_LABEL_MAX 40

struct mpib_rail_spec {
	enum mpib_provider {
		MPIB_PROVIDER_SOFT,
		MPIB_PROVIDER_RDMA
	} provider;
	char name[64]; /* IPv4 address, or RDMA device name */
	uint8_t port; /* 1 for soft */
	/* The name shown to users: "SUP", or with several devices
	 * "gpu0.SUP". */
	char label[MPIB_RAIL_LABEL_MAX];
};

/*
 * Parse `text`. If the result is -EINVAL, `why` names the wrong value and the
 * right form.
 */
int mpib_rail_spec_parse(const char *text, struct mpib_rail_spec *spec,
			 char *why, unsigned why_len);

/* Properties of an open port that the engine uses. */
struct mpib_port_info {
	uint64_t speed_mbps;
	union ibv_gid gid; /* may change at any time: query again for each QP */
	uint8_t gid_index;
	uint8_t gid_type; /* enum ibv_gid_type */
	/* a GRH is needed even inside an InfiniBand subnet */
	bool grh_required;
	uint16_t lid;
	uint16_t pkeys; /* entries of the partition key table; 0: none */
	uint8_t link_layer; /* IBV_LINK_LAYER_* */
	uint8_t state; /* enum ibv_port_state */
	enum ibv_mtu mtu;
	uint32_t max_inline; /* 0: unknown until a QP is created */
	uint32_t max_msg_sz; /* bytes of one WR */
	struct ibv_device_attr dev; /* the device's limits */
	int numa_node; /* -1: unknown or none */
	char pci_path[128]; /* /sys path, empty if none */
};

/* Access flag of a region: the bytes of WRITEs may be placed in any order,
 * because nothing reads the bytes before the completion. The flag uses a bit of
 * IBV_ACCESS_OPTIONAL_RANGE, because verbs have no flag for this. */
#define MPIB_ACCESS_ANY_ORDER (1 << 29)

/* Progress counters of a device that makes progress only while the process
 * polls it. */
struct mpib_motion {
	/* 1 plus the number of the device's turns; 0: the device makes progress
	 * without polls */
	uint64_t turns;
	uint64_t came; /* number of times that bytes arrived for a QP */
};

struct mpib_verbs {
	const char *name; /* "soft" or "rdma" */
	/* Regions with IBV_ACCESS_ON_DEMAND do not slow transfers down, and
	 * registering them touches no page. */
	bool on_demand;
	/* The provider accepts MPIB_ACCESS_ANY_ORDER. On an HCA only
	 * IBV_ACCESS_RELAXED_ORDERING controls the order. */
	bool any_order;
	/* The two QPs of a pair identify each other by ECE, so ECE is always
	 * negotiated. */
	bool ece_proves;

	/*
	 * Open the device of `spec`. Each context makes its own progress, so
	 * each shard must open the device itself.
	 */
	int (*open)(const struct mpib_rail_spec *spec,
		    struct ibv_context **ctx);
	int (*close)(struct ibv_context *ctx);
	int (*query_port)(struct ibv_context *ctx, uint8_t port,
			  struct mpib_port_info *info);

	int (*alloc_pd)(struct ibv_context *ctx, struct ibv_pd **pd);
	int (*dealloc_pd)(struct ibv_pd *pd);
	/* With iova == (uint64_t)addr this is ibv_reg_mr(). */
	int (*reg_mr)(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
		      int access, struct ibv_mr **mr);
	/* The caller may close the fd after the call. Return -EOPNOTSUPP if the
	 * device cannot register dma-bufs. */
	int (*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t len,
			     uint64_t iova, int fd, int access,
			     struct ibv_mr **mr);
	/* When the call returns, no DMA of this device accesses the range. */
	int (*dereg_mr)(struct ibv_mr *mr);

	int (*create_comp_channel)(struct ibv_context *ctx,
				   struct ibv_comp_channel **ch);
	int (*destroy_comp_channel)(struct ibv_comp_channel *ch);
	int (*create_cq)(struct ibv_context *ctx, int cqe, void *cq_context,
			 struct ibv_comp_channel *ch, struct ibv_cq **cq);
	int (*destroy_cq)(struct ibv_cq *cq);
	/* Call this after the owner of cq was woken. If an armed CQ costs time
	 * on this device, disarm cq. `spoke`: the channel of cq was readable.
	 * Return true if an event is pending or will come: then the caller must
	 * read the event. Called by the thread that owns the context's
	 * progress. */
	bool (*disarm_cq)(struct ibv_cq *cq, bool spoke);
	/*
	 * Set motion->turns. Unless qp is NULL, add the arrivals of qp to
	 * motion->came. Return false if another thread holds the device: call
	 * again later. This pointer is NULL if the device makes progress
	 * without the process, like an HCA. Called by the thread that owns the
	 * context's progress.
	 */
	bool (*motion)(struct ibv_context *ctx, struct ibv_qp *qp,
		       struct mpib_motion *motion);
	int (*get_cq_event)(struct ibv_comp_channel *ch, struct ibv_cq **cq,
			    void **cq_context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned nevents);

	int (*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr,
			  struct ibv_srq **srq);
	int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr,
			  int mask);
	int (*query_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr);
	int (*destroy_srq)(struct ibv_srq *srq);

	int (*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
			 struct ibv_qp **qp);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			struct ibv_qp_init_attr *init);
	int (*destroy_qp)(struct ibv_qp *qp);
	/*
	 * Enhanced connection establishment. query_ece() returns the QP's offer
	 * before RTR, and the agreed options after RTR; set_ece() sets the
	 * offer of the remote QP before RTR. Both return -EOPNOTSUPP if the
	 * device or the kernel has no ECE.
	 */
	int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	int (*set_ece)(struct ibv_qp *qp, const struct ibv_ece *ece);

	/*
	 * Return the next event. ctx->async_fd is readable while an event is
	 * pending. If none is pending and the fd has O_NONBLOCK, the call
	 * returns -EAGAIN. The caller must ack each event once. Return -EIO if
	 * the device was removed, or -ETIMEDOUT if it did not answer a call in
	 * time.
	 */
	int (*get_async_event)(struct ibv_context *ctx,
			       struct ibv_async_event *ev);
	void (*ack_async_event)(struct ibv_async_event *ev);
	/* Some events do not make async_fd readable. Return a descriptor that
	 * signals these events (edge-triggered). Return -EOPNOTSUPP if the
	 * provider has no such events, or another -errno. */
	int (*bell)(void);
};

extern const struct mpib_verbs mpib_verbs_soft;
/* Calls on a device that hangs return after a time limit, see hca/hca.h. */
extern const struct mpib_verbs mpib_verbs_rdma;

/* Return the table for a parsed specification; never NULL. */
const struct mpib_verbs *mpib_verbs_of(const struct mpib_rail_spec *spec);

/* The steps of an RC QP from RESET until it can send. */

/* Move the QP from RESET to INIT. Returns 0 or -errno, as mpib_qp_connect()
 * does. */
int mpib_qp_init(const struct mpib_verbs *v, struct ibv_qp *qp, uint8_t port,
		 uint16_t pkey_index, int access);
/* Move the QP from INIT to RTR and RTS. In attr, the caller sets the path, the
 * peer's QP number, both first PSNs and the timeouts. This call sets the state
 * and allows one READ at a time. It also lets sends wait without limit until
 * the peer posts a receive. */
int mpib_qp_connect(const struct mpib_verbs *v, struct ibv_qp *qp,
		    struct ibv_qp_attr *attr);
/* Return the path from a port to itself. */
struct ibv_ah_attr mpib_path_to_self(const struct mpib_port_info *port,
				     uint8_t number, uint8_t service_level);

#endif
