/* SPDX-License-Identifier: Apache-2.0 */
/* iflush of every version of the ABI, as NCCL's proxy thread calls it. */
#include <sys/mman.h>
#include <unistd.h>

#include "rig.h"

#include "test.h"

/* In all versions of the table, iflush has these arguments. */
typedef enum nccl_result iflush_fn(void *, int, void **, int *, void **,
				   void **);

static struct rig *r;
static char gpu[65536], host[65536];
static void *mr[3];

static iflush_fn *iflush_of(int version)
{
	const void *t = rig_table(version);

	switch (version) {
	case 8:
		return ((const struct nccl_net_v8 *)t)->iflush;
	case 9:
		return ((const struct nccl_net_v9 *)t)->iflush;
	case 10:
		return ((const struct nccl_net_v10 *)t)->iflush;
	case 11:
		return ((const struct nccl_net_v11 *)t)->iflush;
	default:
		return ((const struct nccl_net_v12 *)t)->iflush;
	}
}

static void open_rig(void)
{
	int fd = memfd_create("gpu", MFD_CLOEXEC);

	r = rig_new();
	assert_non_null(r);
	r->f->welcome.dmabuf = 1;
	assert_int_equal(rig_connect(r), 0);
	assert_int_equal(r->net->regMrDmaBuf(r->rx, gpu, sizeof(gpu),
					     NCCL_PTR_CUDA, 0, fd, &mr[0]),
			 0);
	close(fd);
	assert_int_equal(
		r->net->regMr(r->rx, host, sizeof(host), NCCL_PTR_HOST, &mr[1]),
		0);
	mr[2] = mr[0];
}

static int end(void **state)
{
	rig_free(r);
	r = NULL;
	return 0;
}

/* Let the fake shard pop all queued descriptors of the receiving connection.
 * Return the connection. */
static struct fake_conn *receiver(void)
{
	fake_turn(r->f, 0, 1, 0);
	return &r->f->conn[1];
}

#define CASE(name) TEST_OF(name, NULL, end)

CASE(every_version_flushes_the_last_buffer_that_is_not_empty)
{
	void *addr[3] = { gpu + 100, host, gpu + 5000 };
	uint32_t n = 0;

	open_rig();
	for (int version = 8; version <= NCCL_NET_ABI_NEWEST; version++) {
		static const struct {
			int size[3];
			uint64_t off;
		} want[] = {
			{ { 10, 0, 20 }, 5000 },
			{ { 10, 0, 0 }, 100 },
		};

		for (unsigned i = 0; i < 2; i++) {
			int size[3], done = 0;
			void *req = NULL;

			memcpy(size, want[i].size, sizeof(size));
			assert_int_equal(iflush_of(version)(r->rx, 3, addr,
							    size, mr, &req),
					 0);
			assert_non_null(req);
			assert_int_equal(receiver()->flushes, ++n);
			assert_int_equal(receiver()->flush.off, want[i].off);
			assert_int_equal(r->net->test(req, &done, NULL), 0);
			assert_int_equal(done, 0);
			atomic_store(&r->f->reply->conn[1].flushed, n);
			assert_int_equal(r->net->test(req, &done, NULL), 0);
			assert_int_equal(done, 1);
		}
	}
}

CASE(flushing_no_bytes_or_host_memory_needs_no_request)
{
	void *addr[3] = { gpu, host, gpu }, *req = &req;
	int none[3] = { 0, 0, 0 }, ours[3] = { 5, 5, 0 };

	open_rig();
	assert_int_equal(r->net->iflush(r->rx, 3, addr, none, mr, &req), 0);
	assert_null(req);
	req = &req;
	assert_int_equal(r->net->iflush(r->rx, 3, addr, ours, mr, &req), 0);
	assert_null(req);
	assert_int_equal(receiver()->flushes, 0);
}
