/* SPDX-License-Identifier: Apache-2.0 */
#include "sockets.h"

#include <mpib/control.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/event.h"
#include "notify.h"
#include "proxy.h"

/* A socket that can be made again. */
struct proxy_socket {
	const char *name;
	struct mpib_acceptor *acceptor; /* NULL: it is not open */
	bool admin;
	int type;
};

int mpib_sockets_open(struct mpib_proxy *p, char *why)
{
	p->control = mpib_activation_socket();
	p->activated = p->control >= 0;
	if (!p->activated)
		p->control = mpib_rundir_listen(&p->rundir, MPIB_CONTROL_SOCK,
						SOCK_SEQPACKET, why);
	if (p->control < 0)
		return p->control;
	p->stats_fd = mpib_rundir_listen(&p->rundir, MPIB_STATS_SOCK,
					 SOCK_STREAM, why);
	if (p->stats_fd < 0)
		return p->stats_fd;
	p->metrics_fd = mpib_rundir_listen(&p->rundir, MPIB_METRICS_SOCK,
					   SOCK_STREAM, why);
	if (p->metrics_fd < 0)
		return p->metrics_fd;
	p->admin_fd = mpib_rundir_listen_admin(&p->rundir, why);
	if (p->admin_fd < 0)
		mpib_warn("%s; until then nothing can be changed by mpibctl",
			  why);
	return 0;
}

/* The socket keeps its descriptor's number, which others know. */
static int socket_renew(struct mpib_proxy *p, const struct proxy_socket *s,
			char *why)
{
	int fd = s->admin ? mpib_rundir_listen_admin(&p->rundir, why)
			  : mpib_rundir_listen(&p->rundir, s->name, s->type,
					       why);

	return fd < 0 ? fd : mpib_acceptor_renew(s->acceptor, fd);
}

static void socket_check(struct mpib_proxy *p, const struct proxy_socket *s)
{
	char why[MPIB_WHY_MAX];
	int rc;

	if (!s->acceptor || (s->admin ? mpib_rundir_has_admin(&p->rundir)
				      : mpib_rundir_has(&p->rundir, s->name)))
		return;
	rc = socket_renew(p, s, why);
	if (rc < 0)
		mpib_warn("%s was removed and cannot be made again: %s",
			  s->name, why);
	else
		mpib_event(MPIB_LOG_WARN, "socket_renewed", NULL,
			   "%s was removed from %s and is made again (keep "
			   "cleaners of temporary files away from it)",
			   s->name, p->rundir.path);
}

/* Make the directory and its lock again if they are gone. False: they cannot be. */
static bool check_directory(struct mpib_proxy *p)
{
	char why[MPIB_WHY_MAX];
	int rc;

	if (mpib_rundir_is_whole(&p->rundir))
		return true;
	rc = mpib_rundir_renew(&p->rundir, p->cfg.run_group, why);
	if (rc == 0)
		rc = mpib_rundir_write_pid(&p->rundir, getpid(), why);
	if (rc < 0)
		mpib_warn("the run directory was removed and cannot be made "
			  "again, so no process can attach: %s",
			  why);
	return rc == 0;
}

void mpib_sockets_check(struct mpib_proxy *p)
{
	const struct proxy_socket all[] = {
		/* What systemd made is not ours to make. */
		{ MPIB_CONTROL_SOCK, p->activated ? NULL : &p->clients.acceptor,
		  false, SOCK_SEQPACKET },
		{ MPIB_STATS_SOCK,
		  mpib_stats_acceptor(p->stats, MPIB_DOOR_STATS), false,
		  SOCK_STREAM },
		{ MPIB_METRICS_SOCK,
		  mpib_stats_acceptor(p->stats, MPIB_DOOR_METRICS), false,
		  SOCK_STREAM },
		{ MPIB_ADMIN_SOCK,
		  mpib_stats_acceptor(p->stats, MPIB_DOOR_ADMIN), true,
		  SOCK_STREAM },
	};

	if (!check_directory(p))
		return;
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		socket_check(p, &all[i]);
}
