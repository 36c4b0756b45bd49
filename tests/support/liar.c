/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network plugin that corrupts messages, to test programs that check
 * messages. This plugin loads the real plugin, LIAR_PLUGIN, and passes every
 * call on to it, but corrupts some of the messages that arrive. LIAR_DOES is a
 * list of corruptions, each with the number of a message, such as
 * "drop@7,swap@12". Each receiving connection counts its messages from 0. Each
 * corruption adds a line to LIAR_LOG. The program under test must find as many
 * errors as there are lines.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_abi.h"

#define LIES_MAX 64
#define COMMS_MAX 1024
#define REQUESTS_MAX 4096
#define GROUP_MAX 8
/* Number of polls for which a message waits for the next message, with which it
 * should be exchanged. After these polls the message is delivered unchanged. */
#define PATIENCE 200000

enum lie_kind {
	LIE_FIRST, /* flip a bit of the first byte */
	LIE_MIDDLE, /* flip a bit of a byte in the middle */
	LIE_LAST, /* flip a bit of the last byte */
	LIE_DROP, /* report the message as complete without its bytes */
	LIE_TAIL, /* report it as complete without its second half */
	LIE_SHORT, /* deliver all data, but report a size that is one less */
	LIE_LONG, /* deliver all data, but report a size that is one more */
	LIE_DOUBLE, /* deliver the previous message instead */
	LIE_SWAP, /* exchange this message with the next one */
	LIE_KINDS
};

struct comm {
	void *real;
	uint64_t posted;
	char *copy; /* the message that LIE_DOUBLE delivers again */
	size_t copied;
};

struct request {
	void *real;
	struct comm *comm; /* NULL if this entry is free */
	int n, size[GROUP_MAX];
	bool done;
	unsigned looks, swapped; /* `swapped`: mask of messages */
	uint64_t first; /* number of the first message of this request */
	char *data[GROUP_MAX], *before[GROUP_MAX];
};

static const char *const kind_name[LIE_KINDS] = {
	"first", "middle", "last",   "drop", "tail",
	"short", "long",   "double", "swap",
};

static struct {
	enum lie_kind kind;
	uint64_t at;
} lie[LIES_MAX];
static int lies, log_fd = -1;

/* Read LIAR_DOES. Return false if the text is invalid or has too many
 * entries. */
static bool lies_take(void)
{
	const char *text = getenv("LIAR_DOES"), *to = getenv("LIAR_LOG");
	char name[16];
	unsigned long at;
	int used;

	if (to)
		log_fd = open(to, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
			      0644);
	text = text ? text : "";
	while (sscanf(text, "%15[a-z]@%lu%n", name, &at, &used) == 2) {
		int kind = 0;

		while (kind < LIE_KINDS && strcmp(kind_name[kind], name) != 0)
			kind++;
		if (kind == LIE_KINDS || lies == LIES_MAX)
			return false;
		lie[lies].kind = (enum lie_kind)kind;
		lie[lies++].at = at;
		text += used + (text[used] == ',');
	}
	return !*text;
}

static bool lies_does(enum lie_kind kind, uint64_t number)
{
	for (int i = 0; i < lies; i++) {
		if (lie[i].kind == kind && lie[i].at == number)
			return true;
	}
	return false;
}

/* Write to LIAR_LOG that message `number` was corrupted. */
static void lies_note(enum lie_kind kind, uint64_t number)
{
	dprintf(log_fd, "%s %llu\n", kind_name[kind],
		(unsigned long long)number);
}

static struct comm comm[COMMS_MAX];
static struct request request[REQUESTS_MAX];
/* The real plugin's function table. */
static const struct nccl_net_v12 *real;

static void die(const char *what)
{
	fprintf(stderr, "liar: %s\n", what);
	abort();
}

static struct comm *comm_of(void *of)
{
	for (int i = 0; i < COMMS_MAX; i++) {
		if (comm[i].real == of)
			return &comm[i];
		if (!comm[i].real) {
			comm[i].real = of;
			return &comm[i];
		}
	}
	die("too many connections");
	return NULL;
}

static struct request *request_new(void)
{
	for (int i = 0; i < REQUESTS_MAX; i++) {
		if (!request[i].comm)
			return &request[i];
	}
	die("too many requests");
	return NULL;
}

static bool is_mine(const void *r)
{
	return (const char *)r >= (const char *)request &&
	       (const char *)r < (const char *)&request[REQUESTS_MAX];
}

static void *copy_of(const void *data, size_t len)
{
	void *copy = malloc(len + 1);

	if (!copy)
		die("no memory");
	return memcpy(copy, data, len);
}

/* Prepare for a receive with buffers of the sizes `room`. Call this before the
 * receive is posted, because its bytes may arrive immediately. */
static struct request *prepare(void *of, int n, void **data, const size_t *room)
{
	struct comm *c = comm_of(of);
	struct request *r = request_new();

	*r = (struct request){ .comm = c, .n = n, .first = c->posted };
	for (int k = 0; k < n; k++) {
		uint64_t number = r->first + (unsigned)k;

		r->data[k] = data[k];
		if (lies_does(LIE_DROP, number) || lies_does(LIE_TAIL, number))
			r->before[k] = copy_of(data[k], room[k]);
	}
	return r;
}

static void release(struct request *r)
{
	for (int k = 0; k < r->n; k++)
		free(r->before[k]);
	r->comm = NULL;
}

/* The real plugin has set *`req` to its request for the receive. Replace this
 * request with `r`. If *`req` is NULL, the receive was not posted. */
static void posted(struct request *r, void **req)
{
	if (!*req) {
		release(r);
		return;
	}
	r->real = *req;
	r->comm->posted += (unsigned)r->n;
	*req = r;
}

static bool real_done(struct request *r)
{
	int done = 0;

	if (!r->done && real->test(r->real, &done, r->size) != NCCL_SUCCESS)
		die("test fails");
	r->done |= done != 0;
	return r->done;
}

/* Return the receive of message `number`, or NULL if it is not posted yet. Set
 * *`k` to the position of the message in this receive. */
static struct request *holder(const struct comm *c, uint64_t number, int *k)
{
	for (int i = 0; i < REQUESTS_MAX; i++) {
		struct request *r = &request[i];

		if (r->comm == c && number >= r->first &&
		    number < r->first + (unsigned)r->n) {
			*k = (int)(number - r->first);
			return r;
		}
	}
	return NULL;
}

/* Exchange message `k` of `r` with the next message. Return false if the next
 * message has not arrived yet, so that the caller tries again. */
static bool swapped(struct request *r, int k)
{
	uint64_t number = r->first + (unsigned)k;
	int other;
	struct request *next = holder(r->comm, number + 1, &other);
	char *copy;

	if (!next || !real_done(next))
		return ++r->looks > PATIENCE;
	if (r->size[k] != next->size[other] || !r->size[k])
		return true;
	copy = copy_of(r->data[k], (size_t)r->size[k]);
	memcpy(r->data[k], next->data[other], (size_t)r->size[k]);
	memcpy(next->data[other], copy, (size_t)r->size[k]);
	free(copy);
	lies_note(LIE_SWAP, number);
	lies_note(LIE_SWAP, number + 1);
	return true;
}

static void doubled(struct request *r, int k, uint64_t number)
{
	struct comm *c = r->comm;
	size_t size = (size_t)r->size[k];

	if (lies_does(LIE_DOUBLE, number) && c->copy && c->copied == size &&
	    size) {
		memcpy(r->data[k], c->copy, size);
		lies_note(LIE_DOUBLE, number);
	}
	free(c->copy);
	c->copied = size;
	c->copy = lies_does(LIE_DOUBLE, number + 1) ? copy_of(r->data[k], size)
						    : NULL;
}

static void flip(struct request *r, int k, enum lie_kind kind, int at)
{
	uint64_t number = r->first + (unsigned)k;

	if (!lies_does(kind, number) || !r->size[k])
		return;
	r->data[k][at] = (char)(r->data[k][at] ^ 1 << number % 8);
	lies_note(kind, number);
}

static void not_written(struct request *r, int k, enum lie_kind kind, int from)
{
	uint64_t number = r->first + (unsigned)k;

	if (lies_does(kind, number) && r->size[k]) {
		memcpy(r->data[k] + from, r->before[k] + from,
		       (size_t)(r->size[k] - from));
		lies_note(kind, number);
	}
}

static void resized(struct request *r, int k, enum lie_kind kind, int by)
{
	uint64_t number = r->first + (unsigned)k;

	if (lies_does(kind, number) && r->size[k]) {
		r->size[k] += by;
		lies_note(kind, number);
	}
}

static void spoil(struct request *r, int k)
{
	int size = r->size[k];

	doubled(r, k, r->first + (unsigned)k);
	flip(r, k, LIE_FIRST, 0);
	flip(r, k, LIE_MIDDLE, size / 2);
	flip(r, k, LIE_LAST, size - 1);
	not_written(r, k, LIE_DROP, 0);
	not_written(r, k, LIE_TAIL, size / 2);
	resized(r, k, LIE_SHORT, -1);
	resized(r, k, LIE_LONG, 1);
}

static enum nccl_result test(void *req, int *done, int *sizes)
{
	struct request *r = req;

	if (!is_mine(req))
		return real->test(req, done, sizes);
	*done = 0;
	if (!real_done(r))
		return NCCL_SUCCESS;
	for (int k = 0; k < r->n; k++) {
		if (!lies_does(LIE_SWAP, r->first + (unsigned)k) ||
		    r->swapped & 1u << k)
			continue;
		if (!swapped(r, k))
			return NCCL_SUCCESS;
		r->swapped |= 1u << k;
	}
	for (int k = 0; k < r->n; k++) {
		spoil(r, k);
		if (sizes)
			sizes[k] = r->size[k];
	}
	release(r);
	*done = 1;
	return NCCL_SUCCESS;
}

struct nccl_net_v8 ncclNetPlugin_v8;
struct nccl_net_v9 ncclNetPlugin_v9;
struct nccl_net_v10 ncclNetPlugin_v10;
struct nccl_net_v11 ncclNetPlugin_v11;
struct nccl_net_v12 ncclNetPlugin_v12;
static struct nccl_net_v12 table[NCCL_NET_ABI_NEWEST + 1];
static enum nccl_result irecv_v8(void *of, int n, void **data, int *sizes,
				 int *tags, void **mh, void **req)
{
	const struct nccl_net_v8 *v8 = (const void *)(real = &table[8]);
	enum nccl_result rc;
	size_t room[GROUP_MAX];
	struct request *r;

	for (int k = 0; k < n; k++)
		room[k] = (size_t)sizes[k];
	r = prepare(of, n, data, room);
	rc = v8->irecv(of, n, data, sizes, tags, mh, req);
	posted(r, req);
	return rc;
}

static enum nccl_result irecv_v9(void *of, int n, void **data, size_t *sizes,
				 int *tags, void **mh, void **req)
{
	const struct nccl_net_v9 *v9 = (const void *)(real = &table[9]);
	struct request *r = prepare(of, n, data, sizes);
	enum nccl_result rc = v9->irecv(of, n, data, sizes, tags, mh, req);

	posted(r, req);
	return rc;
}

#define IRECV(version)                                                         \
	static enum nccl_result irecv_v##version(                              \
		void *of, int n, void **data, size_t *sizes, int *tags,        \
		void **mh, void **ph, void **req)                              \
	{                                                                      \
		struct request *r = prepare(of, n, data, sizes);               \
		enum nccl_result rc;                                           \
                                                                               \
		real = &table[version];                                        \
		rc = real->irecv(of, n, data, sizes, tags, mh, ph, req);       \
		posted(r, req);                                                \
		return rc;                                                     \
	}
IRECV(10)
IRECV(11)
IRECV(12)

static void take_table(void *lib, int version, void *mine, size_t size)
{
	const void *theirs;
	char symbol[32];

	snprintf(symbol, sizeof(symbol), NCCL_NET_SYMBOL_PREFIX "%d", version);
	theirs = dlsym(lib, symbol);
	if (!theirs)
		die(symbol);
	memcpy(&table[version], theirs, size);
	memcpy(mine, theirs, size);
}

__attribute__((constructor)) static void load(void)
{
	const char *path = getenv("LIAR_PLUGIN");
	void *lib = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

	if (!lib)
		die(path ? dlerror() : "LIAR_PLUGIN is not set");
	if (!lies_take())
		die("LIAR_DOES: not KIND@NUMBER,..., or too many");
	take_table(lib, 8, &ncclNetPlugin_v8, sizeof(ncclNetPlugin_v8));
	take_table(lib, 9, &ncclNetPlugin_v9, sizeof(ncclNetPlugin_v9));
	take_table(lib, 10, &ncclNetPlugin_v10, sizeof(ncclNetPlugin_v10));
	take_table(lib, 11, &ncclNetPlugin_v11, sizeof(ncclNetPlugin_v11));
	take_table(lib, 12, &ncclNetPlugin_v12, sizeof(ncclNetPlugin_v12));
	real = &table[12];
	ncclNetPlugin_v8.irecv = irecv_v8;
	ncclNetPlugin_v9.irecv = irecv_v9;
	ncclNetPlugin_v10.irecv = irecv_v10;
	ncclNetPlugin_v11.irecv = irecv_v11;
	ncclNetPlugin_v12.irecv = irecv_v12;
	ncclNetPlugin_v8.test = ncclNetPlugin_v9.test = test;
	ncclNetPlugin_v10.test = ncclNetPlugin_v11.test = test;
	ncclNetPlugin_v12.test = test;
}
