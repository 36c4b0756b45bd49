/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input is the data that an agent gives the proxy: the agent's answers and
 * its hint file. If an answer names a slot that the file does not have, the
 * proxy must disconnect the agent. The file may have any size and contents, and
 * may change at any moment. The proxy must refuse the file or map it. No entry
 * may make a split give a rail more bytes than the message has, or lose a byte.
 *
 * The input begins with the file's size and first bytes. The rest of the input
 * is a list of steps. Each step has a byte that selects the action, and the
 * bytes for the action.
 */
#include <errno.h>
#include <fcntl.h>
#include <mpib/agent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/log.h"
#include "engine/conn/conn.h"
#include "engine/split/mode.h"
#include "fuzz.h"

#define FLOWS 4
#define STEPS_MAX 512

static char dir[64];
static int listener;
static struct mpib_loop loop;

struct agent {
	int file, sock; /* `sock`: connection to the proxy, or -1 */
	struct mpib_shard shard;
	struct mpib_lane lane;
	struct engine_conn *econn[FLOWS];
	struct mpib_agent_link *link;
	struct mpib_engine *engine;
	struct mpib_agent_conn *conn[FLOWS];
};

static void must(bool ok, const char *what)
{
	if (!ok)
		fuzz_found(what);
}

static uint16_t take16(struct fuzz_input *in)
{
	uint16_t n;

	fuzz_take(in, &n, sizeof(n));
	return n;
}

static void clean_up(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/" MPIB_AGENT_HINTS, dir);
	unlink(path);
	snprintf(path, sizeof(path), "%s/" MPIB_AGENT_SOCK, dir);
	unlink(path);
	rmdir(dir);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	(void)argc;
	(void)argv;
	mpib_log_set_level(MPIB_LOG_ERROR);
	snprintf(dir, sizeof(dir), "/tmp/mpib-fuzz.XXXXXX");
	must(mkdtemp(dir) && mpib_loop_init(&loop) == 0,
	     "cannot make a working directory");
	atexit(clean_up);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s/" MPIB_AGENT_SOCK,
		 dir);
	listener = socket(AF_UNIX,
			  SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	must(bind(listener, (struct sockaddr *)&sun, sizeof(sun)) == 0 &&
		     listen(listener, 4) == 0,
	     "cannot make a socket for the agent");
	return 0;
}

/* Make a valid hint file, which the input then changes. */
static int make_file(struct fuzz_input *in)
{
	struct mpib_hint_shm shm = {
		.header = { .magic = MPIB_HINT_MAGIC,
			    .max_entries = MPIB_HINT_MAX_ENTRIES,
			    .version = MPIB_HINT_VERSION },
	};
	uint8_t twist = fuzz_take8(in);
	size_t size = sizeof(shm);
	char path[128];
	int fd;

	/* Announce more than 256 entries. The entries beyond the first 256 are
	 * zero, because pwrite() below does not write them. */
	if (twist & 8) {
		shm.header.more = take16(in) % (MPIB_HINT_MORE_MAX + 2);
		size = mpib_hint_bytes(MPIB_HINT_MAX_ENTRIES + shm.header.more);
	}
	if (twist & 1)
		size = (size_t)fuzz_take8(in) * 32;
	if (twist & 2)
		fuzz_take(in, &shm.header, sizeof(shm.header));
	for (unsigned i = 0; i < MPIB_HINT_MAX_ENTRIES; i++)
		shm.entries[i].sup_bw = twist & 4 ? UINT32_MAX - i : i * 8;
	snprintf(path, sizeof(path), "%s/" MPIB_AGENT_HINTS, dir);
	unlink(path);
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	must(fd >= 0 && ftruncate(fd, (off_t)size) == 0 &&
		     pwrite(fd, &shm, size < sizeof(shm) ? size : sizeof(shm),
			    0) >= 0,
	     "cannot make a hint file");
	return fd;
}

static void turn(void)
{
	for (int i = 0; i < 4; i++)
		mpib_loop_turn(&loop, 0);
}

static void start(struct agent *a)
{
	a->engine = calloc(1, sizeof(*a->engine));
	must(a->engine, "no memory");
	a->engine->cfg.mode = MPIB_MODE_ADVANCED;
	a->shard.engine = a->engine;
	a->lane.shard = &a->shard;
	a->lane.rails = MPIB_RAILS;
	a->lane.use = a->lane.all = 3;
	for (unsigned i = 0; i < FLOWS; i++) {
		a->econn[i] = calloc(1, sizeof(*a->econn[i]));
		must(a->econn[i], "no memory");
		a->econn[i]->shard = &a->shard;
		a->econn[i]->lane = &a->lane;
		a->econn[i]->hint_slot = UINT32_MAX;
	}
	must(mpib_agent_open(&loop, a->engine, dir, MPIB_AGENT_NO_USER, false,
			     &a->link) == 0,
	     "the proxy does not start");
	a->sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void stop(struct agent *a)
{
	for (unsigned i = 0; i < FLOWS; i++) {
		mpib_agent_del(a->conn[i]);
		free(a->econn[i]);
	}
	mpib_agent_close(a->link);
	if (a->sock >= 0)
		close(a->sock);
	close(a->file);
	free(a->engine);
}

static void say(struct agent *a, struct fuzz_input *in, uint8_t what)
{
	struct mpib_agent_response r = { .hint_slot = take16(in) };
	char bytes[2 * sizeof(r)];
	size_t n = fuzz_take8(in) % sizeof(bytes);

	fuzz_take(in, bytes, what & 16 ? n : 0);
	if (what & 32)
		r.status = -ENOSPC;
	if (a->sock >= 0 &&
	    send(a->sock, what & 16 ? (void *)bytes : (void *)&r,
		 what & 16 ? n : sizeof(r), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		close(a->sock);
		a->sock = -1;
	}
	turn();
}

static void come_or_go(struct agent *a, unsigned i)
{
	const struct mpib_agent_route route = { 1, 2, 3, 4 };

	if (a->conn[i])
		mpib_agent_del(a->conn[i]);
	a->conn[i] = a->conn[i] ? NULL
				: mpib_agent_add(a->link, a->econn[i], &route);
	turn();
}

/* Change the file while the proxy reads it. */
static void scribble(struct agent *a, struct fuzz_input *in)
{
	uint8_t bytes[8];
	struct stat st;
	uint16_t at = take16(in);

	fuzz_take(in, bytes, sizeof(bytes));
	must(fstat(a->file, &st) == 0, "cannot stat the hint file");
	if (st.st_size <= (off_t)sizeof(bytes))
		return;
	at %= (uint16_t)st.st_size - sizeof(bytes);
	must(pwrite(a->file, bytes, sizeof(bytes), at) >= 0,
	     "cannot write the hint file");
}

static void send_one(struct agent *a, struct fuzz_input *in)
{
	struct engine_conn *f = a->econn[fuzz_take8(in) % FLOWS];
	uint32_t total, sup;

	fuzz_take(in, &total, sizeof(total));
	total &= MPIB_SIZE_MAX;
	must(f->hint_slot < MPIB_HINT_SLOTS_MAX || f->hint_slot == UINT32_MAX,
	     "a hint's slot is out of range");
	sup = mpib_split(f, total, 0, total, NULL);
	must(sup <= total, "a split has more bytes than the message");
	must(sup == total || sup % MPIB_ALIGN == 0,
	     "a split is not a multiple of MPIB_ALIGN");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	static struct agent a;

	memset(&a, 0, sizeof(a));
	a.file = make_file(&in);
	start(&a);
	for (int i = 0; i < STEPS_MAX && in.left > 0; i++) {
		uint8_t what = fuzz_take8(&in);

		switch (what & 3) {
		case 0:
			scribble(&a, &in);
			break;
		case 1:
			say(&a, &in, what);
			break;
		case 2:
			come_or_go(&a, what >> 4 & (FLOWS - 1));
			break;
		default:
			send_one(&a, &in);
		}
	}
	stop(&a);
	return 0;
}
