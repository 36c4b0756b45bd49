/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input contains either frames for the peer link, which are sent after the
 * greeting of another node, or raw bytes, which are sent without a greeting. If
 * a frame can be decoded, encoding and decoding the message again must give the
 * same message. The proxy must read the whole input or hang up, and must greet
 * the next node that connects.
 *
 * Input: a flag byte, then the stream.
 */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"
#include "peer/protocol.h"

#define PORT 4711

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	fuzz_proxy_start();
	return 0;
}

static void check_frames(const uint8_t *at, size_t left)
{
	uint8_t frame[MPIB_PEER_FRAME_MAX], again[MPIB_PEER_FRAME_MAX];

	while (left > 4) {
		uint32_t len = mpib_frame_len(at);
		struct mpib_peer_msg m, n;

		if (len > left - 4)
			return;
		if (mpib_peer_decode(at + 4, len, &m) == 0) {
			size_t a = mpib_peer_encode(&m, frame), b;

			if (mpib_peer_decode(frame + 4, a - 4, &n) < 0)
				fuzz_found("an encoded message is invalid");
			b = mpib_peer_encode(&n, again);
			if (a != b || memcmp(frame, again, a))
				fuzz_found(
					"a message changes if it is encoded and decoded again");
		}
		at += 4 + len;
		left -= 4 + len;
	}
}

static void tell(int fd, const struct mpib_peer_msg *m)
{
	uint8_t frame[MPIB_PEER_FRAME_MAX];
	size_t n = mpib_peer_encode(m, frame);

	if (send(fd, frame, n, MSG_NOSIGNAL) != (ssize_t)n)
		fuzz_found("the proxy does not accept the greeting");
}

static void greet(int fd, bool ready)
{
	struct mpib_peer_msg hello = {
		.type = MPIB_PEER_HELLO,
		.magic = MPIB_PEER_MAGIC,
		.version_min = MPIB_PEER_VERSION_MIN,
		.version = MPIB_PEER_VERSION,
		.node = { .addr = mpib_address_of_ip(fuzz_peer_addr()),
			  .port = PORT,
			  .boot = 1 },
	};
	struct mpib_peer_msg up = { .type = MPIB_PEER_READY };
	uint8_t byte;

	tell(fd, &hello);
	if (TEMP_FAILURE_RETRY(recv(fd, &byte, 1, MSG_PEEK)) <= 0)
		fuzz_found("the proxy does not answer the greeting");
	if (ready)
		tell(fd, &up);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	uint8_t flags = fuzz_take8(&in);
	struct mpib_peer_msg ping = { .type = MPIB_PEER_PING };
	uint8_t frame[MPIB_PEER_FRAME_MAX], buf[4096];
	size_t n = mpib_peer_encode(&ping, frame);
	int fd = fuzz_dial_peer();

	check_frames(in.at, in.left);
	if (flags & 1)
		greet(fd, flags & 2);
	/* Read answers until the proxy has read everything or has hung up. */
	if (send(fd, in.at, in.left, MSG_NOSIGNAL) >= 0 &&
	    send(fd, frame, n, MSG_NOSIGNAL) >= 0 && shutdown(fd, SHUT_WR) == 0)
		while (TEMP_FAILURE_RETRY(recv(fd, buf, sizeof(buf), 0)) > 0)
			;
	close(fd);
	return 0;
}
