/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets of the run directory. A cleaner of temporary files, or a person, may
 * remove them, or the whole directory, while the proxy serves. Then nothing can
 * attach or ask any more, so the proxy makes them again. Control thread.
 */
#ifndef MPIB_PROXY_SOCKETS_H
#define MPIB_PROXY_SOCKETS_H

struct mpib_proxy;

/* Make all sockets that this proxy listens on. The control socket may be one that
 * systemd passed. -errno, with why as in config.h. */
int mpib_sockets_open(struct mpib_proxy *p, char *why);

/* Make again those whose file is gone, and the run directory with its lock. Call it
 * now and then. Attached clients and open connections are not affected. */
void mpib_sockets_check(struct mpib_proxy *p);

#endif
