/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mailbox.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * ck orders by inline assembly, which ThreadSanitizer cannot see; these tell
 * it what ck_stack_push_upmc() and ck_stack_batch_pop_upmc() promise.
 */
#if defined(__SANITIZE_THREAD__)
#define MPIB_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MPIB_TSAN 1
#endif
#endif

#ifdef MPIB_TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#else
#define __tsan_acquire(addr) ((void)(addr))
#define __tsan_release(addr) ((void)(addr))
#endif

CK_STACK_CONTAINER(struct mpib_msg, entry, msg_of)

int mpib_mailbox_init(struct mpib_mailbox *mb)
{
	ck_stack_init(&mb->stack);
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
	__tsan_release(msg);
	ck_stack_push_upmc(&mb->stack, &msg->entry);

	/* Sequentially consistent with the exchange in mpib_mailbox_run(): either
	 * we see 0 and wake the owner, or the owner sees our message. */
	if (atomic_exchange(&mb->pending, 1) == 0 &&
	    write(mb->fd, &one, sizeof(one)) < 0)
		return; /* EAGAIN: the counter is full, so it is readable */
}

/* The stack gives the newest first; senders expect the oldest first. */
static ck_stack_entry_t *reverse(ck_stack_entry_t *entry)
{
	ck_stack_entry_t *done = NULL;

	while (entry) {
		ck_stack_entry_t *next = entry->next;

		__tsan_acquire(msg_of(entry));
		entry->next = done;
		done = entry;
		entry = next;
	}
	return done;
}

int mpib_mailbox_run(struct mpib_mailbox *mb)
{
	ck_stack_entry_t *entry;
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

	entry = reverse(ck_stack_batch_pop_upmc(&mb->stack));
	while (entry) {
		struct mpib_msg *msg = msg_of(entry);

		entry = entry->next; /* fn may send or free the message */
		msg->fn(msg);
		ran++;
	}
	return ran;
}
