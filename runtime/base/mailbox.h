/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the one thread that owns something: "run fn(msg) over there".
 * Any thread sends; the owner runs. Intrusive and unbounded, so sending never
 * fails, waits or allocates: the message is a member of what it is about.
 */
#ifndef MPIB_BASE_MAILBOX_H
#define MPIB_BASE_MAILBOX_H

#include <stdatomic.h>

#include "base/bell.h"

struct mpib_msg;
typedef void mpib_msg_fn(struct mpib_msg *msg);

/* Owned by the mailbox from mpib_mailbox_send() until fn runs. */
struct mpib_msg {
	struct mpib_msg *next;
	mpib_msg_fn *fn;
};

/* Senders push onto a stack, the owner takes all of it at once: no ABA. Plain
 * C11 and not ck's stack, whose inline assembly ThreadSanitizer cannot follow. */
struct mpib_mailbox {
	_Atomic(struct mpib_msg *) newest;
	struct mpib_bell bell; /* its fd is readable when a message waits */
};

/* -errno. */
int mpib_mailbox_init(struct mpib_mailbox *mb);
void mpib_mailbox_fini(struct mpib_mailbox *mb);

/*
 * Lock-free. Any thread. Messages of one sender run in the order sent. Makes
 * one system call when the mailbox was empty.
 */
void mpib_mailbox_send(struct mpib_mailbox *mb, struct mpib_msg *msg,
		       mpib_msg_fn *fn);

/* Owner only. Runs all that waits, returns how many. No system call when
 * there is none. */
int mpib_mailbox_run(struct mpib_mailbox *mb);

#endif
