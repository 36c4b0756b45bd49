/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures in NCCL's log. NCCL keeps the last WARN and PyTorch prints that
 * line, so users look there first: it says what failed and what to do.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "proxy.h"

#define TOLD 64

static _Atomic(nccl_log_fn) nccl_log;
/* Hashes of the latest texts. Relaxed throughout: if two threads log the same
 * text at once, it only appears twice. */
static _Atomic uint64_t told[TOLD];
static _Atomic unsigned told_next;

void net_log_set(nccl_log_fn log)
{
	/* Relaxed: NCCL gives the same function every time. */
	atomic_store_explicit(&nccl_log, log, memory_order_relaxed);
	for (unsigned i = 0; i < TOLD; i++)
		atomic_store_explicit(&told[i], 0, memory_order_relaxed);
}

void net_say(bool ok, const char *fmt, ...)
{
	nccl_log_fn log = atomic_load_explicit(&nccl_log, memory_order_relaxed);
	char line[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (log)
		log(ok ? NCCL_LOG_INFO : NCCL_LOG_WARN, NCCL_SUBSYS_NET, "mpib",
		    0, "NET/MPIB : %s", line);
}

static bool is_news(const char *call, const char *text)
{
	uint64_t h = net_hash(net_hash(NET_HASH, call), text);
	unsigned next;

	for (unsigned i = 0; i < TOLD; i++) {
		if (atomic_load_explicit(&told[i], memory_order_relaxed) == h)
			return false;
	}
	next = atomic_fetch_add_explicit(&told_next, 1, memory_order_relaxed);
	atomic_store_explicit(&told[next % TOLD], h, memory_order_relaxed);
	return true;
}

static enum nccl_result result_of(int rc)
{
	switch (rc) {
	case -EINVAL:
	case -EFAULT:
	case -E2BIG:
		return NCCL_INVALID_ARGUMENT;
	case -EMSGSIZE:
	case -ENOTCONN:
	case -EOWNERDEAD:
		return NCCL_INVALID_USAGE;
	default:
		return NCCL_SYSTEM_ERROR;
	}
}

enum nccl_result net_fail_local(const char *call, int rc)
{
	if (is_news(call, mpib_strerror()))
		net_say(false, "%s: %s", call, mpib_strerror());
	return result_of(rc);
}

enum nccl_result net_fail(const char *call, int rc)
{
	enum nccl_result res = net_fail_local(call, rc);

	switch (rc) {
	case -ECONNRESET:
	case -ECONNREFUSED:
	case -ECONNABORTED:
	case -EHOSTUNREACH:
	case -ENETUNREACH:
	case -ETIMEDOUT:
	case -EIO:
		return NCCL_REMOTE_ERROR;
	default:
		return res;
	}
}
