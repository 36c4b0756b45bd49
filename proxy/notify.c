/* SPDX-License-Identifier: Apache-2.0 */
/* Talking to systemd, or functions that do nothing without libsystemd. */
#include "notify.h"

#ifdef MPIB_HAVE_SYSTEMD

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include "base/log.h"

#define DRAIN_MS 1000u

/* sd_notify() blocks while systemd does not read its socket. */
static struct mpib_writer writer = MPIB_WRITER_INIT(writer);

int mpib_notify_start(void)
{
	return mpib_writer_start(&writer);
}

static void notify_write(const void *text, size_t len)
{
	(void)len;
	sd_notify(0, text);
}

void mpib_notify(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	mpib_writer_put(&writer, notify_write, text, strlen(text) + 1);
}

void mpib_notify_drain(void)
{
	mpib_writer_drain(&writer, DRAIN_MS);
}

uint64_t mpib_watchdog(void)
{
	uint64_t us;

	return sd_watchdog_enabled(0, &us) > 0 ? us * 1000 : 0;
}

int mpib_activation_socket(void)
{
	int n = sd_listen_fds(1);

	for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + n; fd++) {
		if (sd_is_socket(fd, AF_UNIX, SOCK_SEQPACKET, 1) > 0)
			return fd;
	}
	return -1;
}

#else

int mpib_notify_start(void)
{
	return 0;
}

void mpib_notify_drain(void)
{
}

void mpib_notify(const char *fmt, ...)
{
	(void)fmt;
}

uint64_t mpib_watchdog(void)
{
	return 0;
}

int mpib_activation_socket(void)
{
	return -1;
}

#endif
