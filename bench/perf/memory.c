/* SPDX-License-Identifier: Apache-2.0 */
/* A registered buffer for each stream of a rank. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perf/data.h"
#include "perf/rank.h"

/* Map a new buffer. Map a buffer; MAP_FAILED with errno set on error. *fd is
 * the memfd, or -1 for private memory. */
static void *buffer_new(const struct perf_options *opt, size_t len, int *fd)
{
	void *mem;

	*fd = -1;
	if (!opt->sealed)
		return mmap(NULL, len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*fd = memfd_create("mpib-perf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return MAP_FAILED;
	if (ftruncate(*fd, (off_t)len) < 0 ||
	    fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
		    0)
		mem = MAP_FAILED;
	else
		mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, *fd,
			   0);
	if (mem == MAP_FAILED)
		close(*fd);
	return mem;
}

static enum nccl_result reg(struct perf_rank *r, struct perf_stream *s, int fd)
{
	enum nccl_result res;

	if (fd < 0)
		return perf_plug_reg(&r->plug, s->comm, s->mem, s->mem_len,
				     &s->mh);
	res = perf_plug_reg_fd(&r->plug, s->comm, s->mem, s->mem_len, fd,
			       &s->mh);
	close(fd);
	return res;
}

bool perf_rank_register(struct perf_rank *r)
{
	for (int i = 0; i < r->nsend + r->nrecv; i++) {
		struct perf_stream *s = &r->stream[i];
		int fd;

		s->mem_len = perf_pattern_memory(&r->w->opt, s->sends,
						 r->nsend + r->nrecv);
		s->mem = buffer_new(&r->w->opt, s->mem_len, &fd);
		if (s->mem == MAP_FAILED) {
			perf_world_fail(
				r->w, r->rank,
				"no memory for buffers (give a smaller --max)");
			return false;
		}
		/* Poison, so that a message that never came is not taken for
		 * one that is all zeros. */
		memset(s->mem, PERF_POISON, s->mem_len);
		if (!perf_rank_check(r, fd < 0 ? "regMr" : "regMrDmaBuf",
				     reg(r, s, fd)))
			return false;
	}
	return true;
}
