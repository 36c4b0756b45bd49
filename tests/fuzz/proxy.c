/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "addr.h"
#include "base/log.h"
#include "fuzz.h"
#include "proxy.h"

static struct mpib_proxy proxy;
static char dir[64];

void fuzz_found(const char *what)
{
	fprintf(stderr, "fuzz: %s\n", what);
	abort();
}

static void *run(void *arg)
{
	(void)arg;
	mpib_proxy_run(&proxy);
	return NULL;
}

static void clean_up(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	if (system(cmd) != 0)
		perror(cmd);
}

static void set(const char *section, const char *key, const char *value)
{
	const struct mpib_setting *s = mpib_config_find(section, key);
	char why[MPIB_WHY_MAX];

	if (!s)
		fuzz_found(key);
	if (mpib_config_set(&proxy.cfg, s, value, "fuzz", why) < 0)
		fuzz_found(why);
}

static void set_addresses(void)
{
	struct in_addr in;
	char text[64];

	in.s_addr = htonl(test_addr(1));
	snprintf(text, sizeof(text), "soft:%s", inet_ntoa(in));
	set("hca", "sout", text);
	in.s_addr = htonl(test_addr(2));
	snprintf(text, sizeof(text), "soft:%s", inet_ntoa(in));
	set("hca", "sup", text);
}

void fuzz_proxy_start(void)
{
	char why[MPIB_WHY_MAX];
	pthread_t thread;

	mpib_log_set_level(MPIB_LOG_ERROR);
	snprintf(dir, sizeof(dir), "/tmp/mpib-fuzz.XXXXXX");
	if (!mkdtemp(dir))
		fuzz_found(strerror(errno));
	atexit(clean_up);
	mpib_config_init(&proxy.cfg);
	snprintf(proxy.cfg.run_dir, sizeof(proxy.cfg.run_dir), "%s/run", dir);
	set_addresses();
	set("quota", "messages", "0");
	set("quota", "memory", "64M");
	/* A timeout because the machine stalls is not a finding. */
	set("peer", "silence", "60");
	if (mpib_config_finish(&proxy.cfg, why) < 0 ||
	    mpib_proxy_start(&proxy, why) < 0)
		fuzz_found(why);
	if (pthread_create(&thread, NULL, run, NULL))
		fuzz_found("no thread");
	pthread_detach(thread);
}

const char *fuzz_run_dir(void)
{
	return proxy.cfg.run_dir;
}

static int dial(int fd, const void *addr, socklen_t len)
{
	/* A listen queue that is full for a moment is not a finding. */
	for (int i = 0; i < 1000; i++) {
		if (connect(fd, addr, len) == 0 || errno == EISCONN)
			return fd;
		usleep(1000);
	}
	fuzz_found("no process listens any more");
}

int fuzz_dial(const char *name, int type)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	struct timeval patience = { .tv_sec = 10 };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/%s", proxy.cfg.run_dir,
		 name);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return dial(fd, &sun, sizeof(sun));
}

uint32_t fuzz_peer_addr(void)
{
	return htonl(test_addr(9));
}

int fuzz_dial_peer(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_addr.s_addr = fuzz_peer_addr() };
	struct linger at_once = { .l_onoff = 1 };
	struct timeval patience = { .tv_sec = 10 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(fd, (struct sockaddr *)&sin, sizeof(sin)) < 0)
		fuzz_found(strerror(errno));
	/* Avoid TIME_WAIT, because it would use up the ports. */
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	sin.sin_addr.s_addr = htonl(test_addr(1));
	sin.sin_port = htons((uint16_t)proxy.cfg.peer_port);
	return dial(fd, &sin, sizeof(sin));
}

void fuzz_take(struct fuzz_input *in, void *to, size_t n)
{
	size_t have = in->left < n ? in->left : n;

	memset(to, 0, n);
	memcpy(to, in->at, have);
	in->at += have;
	in->left -= have;
}

uint8_t fuzz_take8(struct fuzz_input *in)
{
	uint8_t v;

	fuzz_take(in, &v, sizeof(v));
	return v;
}
