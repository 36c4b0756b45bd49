/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/mailbox.h"

#include <stddef.h>

int mpib_mailbox_init(struct mpib_mailbox *mb)
{
	atomic_init(&mb->newest, NULL);
	return mpib_bell_init(&mb->bell);
}

void mpib_mailbox_fini(struct mpib_mailbox *mb)
{
	mpib_bell_fini(&mb->bell);
}

void mpib_mailbox_send(struct mpib_mailbox *mb, struct mpib_msg *msg,
		       mpib_msg_fn *fn)
{
	msg->fn = fn;
	/* Relaxed: the compare-exchange below checks the value again. */
	msg->next = atomic_load_explicit(&mb->newest, memory_order_relaxed);
	/* Release pairs with the acquire in mpib_mailbox_run(): the owner finds
	 * only whole messages. */
	while (!atomic_compare_exchange_weak_explicit(&mb->newest, &msg->next,
						      msg, memory_order_release,
						      memory_order_relaxed))
		;

	mpib_bell_ring(&mb->bell);
}

/* Reverse the stack, so that the oldest message comes first and runs first. */
static struct mpib_msg *mailbox_reverse(struct mpib_msg *msg)
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
	int ran = 0;

	if (!mpib_bell_heard(&mb->bell))
		return 0;
	msg = mailbox_reverse(atomic_exchange_explicit(&mb->newest, NULL,
						       memory_order_acquire));
	while (msg) {
		struct mpib_msg *next = msg->next;

		msg->fn(msg); /* fn may send the message again, or free it */
		msg = next;
		ran++;
	}
	return ran;
}
