/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to an owner thread. Each message asks the owner to run fn(msg) on
 * its thread. Any thread may send. A message is a member of the object that the
 * message concerns, and the queue is unbounded, so sending never fails, waits
 * or allocates. */
#ifndef MPIB_ENGINE_MAILBOX_H
#define MPIB_ENGINE_MAILBOX_H

#include <stdatomic.h>

#include "base/bell.h"
#include "base/xalloc.h" /* for fn */

struct mpib_msg;
typedef void mpib_msg_fn(struct mpib_msg *msg);

/* Belongs to the mailbox from mpib_mailbox_send() until fn runs. */
struct mpib_msg {
	struct mpib_msg *next;
	mpib_msg_fn *fn;
};

/* Senders push onto a stack, and the owner takes the whole stack at once, so
 * there is no ABA problem. ck_stack does the same, but ThreadSanitizer cannot
 * follow its inline assembly. With CK_USE_CC_BUILTINS, ck_pr_load_ptr() is
 * still a plain load, which ThreadSanitizer reports as a data race. */
struct mpib_mailbox {
	_Atomic(struct mpib_msg *) newest;
	struct mpib_bell bell; /* its fd is readable while messages wait */
};

/* 0 or -errno. */
int mpib_mailbox_init(struct mpib_mailbox *mb);
void mpib_mailbox_fini(struct mpib_mailbox *mb);

/*
 * Any thread, lock-free. Messages of one sender run in the order in which they
 * were sent. Makes one system call if the mailbox was empty.
 */
void mpib_mailbox_send(struct mpib_mailbox *mb, struct mpib_msg *msg,
		       mpib_msg_fn *fn);

/* Owner only. Run all queued messages and return their number. No system call
 * if none is queued. */
int mpib_mailbox_run(struct mpib_mailbox *mb);

#endif
