/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mailbox.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

int mpib_mailbox_init(struct mpib_mailbox *mb)
{
	atomic_init(&mb->newest, NULL);
	atomic_init(&mb->pending, 0);
	mb->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return mb->fd < 0 ? -errno : 0;
}

void mpib_mailbox_fini(struct mpib_mailbox *mb)
{
	close(mb->fd);
}

void mpib_mailbox_send(struct mpib_mailbox *mb, struct mpib_msg *msg,
		       mpib_msg_fn *fn)
{
	uint64_t one = 1;

	msg->fn = fn;
	/* Relaxed: only the exchange below needs to see what it replaces. */
	msg->next = atomic_load_explicit(&mb->newest, memory_order_relaxed);
	/* Release pairs with the acquire in mpib_mailbox_run(): the message is
	 * whole before the owner finds it. */
	while (!atomic_compare_exchange_weak_explicit(&mb->newest, &msg->next,
						      msg, memory_order_release,
						      memory_order_relaxed))
		;

	/* Sequentially consistent with the exchange in mpib_mailbox_run(): either
	 * we see 0 and wake the owner, or the owner sees our message. */
	if (atomic_exchange(&mb->pending, 1) == 0 &&
	    write(mb->fd, &one, sizeof(one)) < 0)
		return; /* EAGAIN: the counter is full, so it is readable */
}

/* Senders expect the oldest first. */
static struct mpib_msg *reverse(struct mpib_msg *msg)
{
	struct mpib_msg *done = NULL;

	while (msg) {
		struct mpib_msg *next = msg->next;

		msg->next = done;
		done = msg;
		msg = next;
	}
	return done;
}

int mpib_mailbox_run(struct mpib_mailbox *mb)
{
	struct mpib_msg *msg;
	uint64_t count;
	int ran = 0;

	/* Relaxed: a message missed now has its wake-up on the way. */
	if (atomic_load_explicit(&mb->pending, memory_order_relaxed) == 0)
		return 0;

	if (read(mb->fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return 0;
	/* Before the pop: a sender that comes after it wakes us again, and one
	 * that came before it is read here, so its push is seen below. */
	atomic_exchange(&mb->pending, 0);

	msg = reverse(atomic_exchange_explicit(&mb->newest, NULL,
					       memory_order_acquire));
	while (msg) {
		struct mpib_msg *next = msg->next;

		msg->fn(msg); /* may send or free it */
		msg = next;
		ran++;
	}
	return ran;
}
