/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input is a list of messages for the control socket, with descriptors, and
 * with or without a correct HELLO before them. The proxy must answer each
 * message or disconnect the client. Afterwards the proxy must serve a correct
 * client.
 *
 * The input begins with a flag byte. The rest of the input is a list of
 * messages. Each message has a type byte, a byte for the number and kind of
 * descriptors, a byte for the length of the body, and the body.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpib/control.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "ipc/message.h"

static int sealed, unsealed, null;

static int memfd(unsigned seals)
{
	static const char zeros[65536];
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, 65536) < 0 ||
	    pwrite(fd, zeros, sizeof(zeros), 0) != sizeof(zeros) ||
	    fcntl(fd, F_ADD_SEALS, seals) < 0)
		fuzz_found("no memfd");
	return fd;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	sealed = memfd(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	unsealed = memfd(0);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	fuzz_proxy_start();
	return 0;
}

static void say_hello(int sock)
{
	struct mpib_ctl_hello hello = {
		.h = { .type = MPIB_CTL_HELLO, .len = sizeof(hello) },
		.version = MPIB_ABI_VERSION,
		.name = "fuzz",
	};

	mpib_message_send(sock, &hello.h, NULL, 0);
}

/* Send one message of the input. Return false if the socket accepts no more
 * data. */
static int say(int sock, struct fuzz_input *in)
{
	const int fds[3] = { sealed, unsealed, null };
	_Alignas(8) uint8_t msg[MPIB_CTL_MAX];
	struct mpib_ctl_header *h = (void *)msg;
	uint8_t type = fuzz_take8(in), which = fuzz_take8(in);
	size_t body = fuzz_take8(in);
	int fd[MPIB_CTL_FDS_MAX];
	unsigned n = which & 3;

	memset(msg, 0, sizeof(msg));
	h->type = type;
	fuzz_take(in, h + 1, body);
	h->len = (uint32_t)(sizeof(*h) + body);
	for (unsigned i = 0; i < n; i++)
		fd[i] = fds[(which >> (2 + 2 * i) & 3) % 3];
	return mpib_message_send(sock, h, fd, n) == 0;
}

/* Read the answers until the last request is answered or the proxy hangs up. */
static void hear_all(int sock)
{
	struct mpib_ctl_id last = {
		.h = { .type = MPIB_CTL_DEVICE,
		       .id = 0xfeed,
		       .len = sizeof(last) },
	};
	struct mpib_message m;
	char byte;

	if (mpib_message_send(sock, &last.h, NULL, 0) < 0)
		return;
	while (TEMP_FAILURE_RETRY(recv(sock, &byte, 1, MSG_PEEK)) > 0 &&
	       mpib_message_recv(sock, &m) > 0) {
		mpib_message_close_fds(&m);
		if (m.h.id == 0xfeed && m.h.type == MPIB_CTL_DEVICE)
			return;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int sock = fuzz_dial(MPIB_CONTROL_SOCK, SOCK_SEQPACKET);
	struct fuzz_input in = { data, size };

	if (fuzz_take8(&in) & 1)
		say_hello(sock);
	while (in.left > 0 && say(sock, &in))
		;
	hear_all(sock);
	close(sock);
	return 0;
}
