/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bell.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int mpib_bell_init(struct mpib_bell *bell)
{
	atomic_init(&bell->dirty, 0);
	bell->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return bell->fd < 0 ? -errno : 0;
}

void mpib_bell_fini(struct mpib_bell *bell)
{
	close(bell->fd);
}

void mpib_bell_ring(struct mpib_bell *bell)
{
	static const uint64_t one = 1;

	/* Pairs with the exchange in mpib_bell_heard(). */
	if (atomic_exchange(&bell->dirty, 1) == 0 &&
	    write(bell->fd, &one, sizeof(one)) < 0)
		return; /* EAGAIN: counter full, so fd is readable */
}

bool mpib_bell_heard(struct mpib_bell *bell)
{
	uint64_t count;

	if (!mpib_bell_rang(bell))
		return false;
	/* If there is no count, a ringer has set `dirty` but not written the
	 * count yet. Keep `dirty` set: the owner will be woken once more for
	 * this ring. */
	if (read(bell->fd, &count, sizeof(count)) > 0)
		/* Pairs with the exchange in mpib_bell_ring(). Clear `dirty`
		 * only after the read: otherwise the read could also consume
		 * the count of a mpib_bell_ring() that came after the
		 * clearing. */
		atomic_exchange(&bell->dirty, 0);
	return true;
}
