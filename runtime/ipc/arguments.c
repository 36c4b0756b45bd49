/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of a request's arguments, on the slow path. */
#include "ipc/arguments.h"

#include <errno.h>

#include "ipc/client.h"

static bool request_inside(const struct mpib_region *r, const char *addr,
			   size_t size)
{
	return r && addr >= r->addr && size <= r->size &&
	       (size_t)(addr - r->addr) <= r->size - size;
}

static int bad_buffer(const void *data, size_t size)
{
	if (size > MPIB_SIZE_MAX)
		return mpib_fail(-E2BIG,
				 "%zu bytes are more than one request may "
				 "have (%u)",
				 size, MPIB_SIZE_MAX);
	return mpib_fail(-EFAULT, "%zu bytes at %p are not inside the region",
			 size, data);
}

/* Handles and offsets are those of one client: in another they are other
 * memory. */
static int check_buffer(const struct mpib_client *c, const void *data,
			size_t size, const struct mpib_region *region)
{
	if (size > MPIB_SIZE_MAX ||
	    (size && !request_inside(region, data, size)))
		return bad_buffer(data, size);
	if (size && region->client != c)
		return mpib_fail(-EINVAL, "the region is of another client");
	return 0;
}

int mpib_check_buffers(const struct mpib_client *c, int n, void *const *data,
		       const size_t *size, struct mpib_region *const *region)
{
	size_t staged = 0;

	if (n < 1 || n > MPIB_GROUP_MAX)
		return mpib_fail(-EINVAL,
				 "a receive of %d buffers (1 to %d are "
				 "possible)",
				 n, MPIB_GROUP_MAX);
	for (int i = 0; i < n; i++) {
		int rc = check_buffer(c, data[i], size[i], region[i]);

		if (rc < 0)
			return rc;
		if (size[i] && region[i]->staged)
			staged += size[i] + MPIB_ALIGN;
	}
	if (n > 1 && staged > MPIB_WINDOW_MAX)
		return mpib_fail(-E2BIG,
				 "a grouped receive of %zu bytes of ordinary "
				 "memory (up to %u are possible)",
				 staged, MPIB_WINDOW_MAX);
	return 0;
}

int mpib_wrong_end(struct mpib_conn *conn, const char *what)
{
	int rc = mpib_conn_usable(conn);

	return rc < 0 ? rc
		      : mpib_fail(-EINVAL,
				  "%s (connect to send, accept to "
				  "receive)",
				  what);
}
