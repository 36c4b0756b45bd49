/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing hca.filter, and matching ports against it. */
#include "rails/filter.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The number after the colon at *text, which is moved behind it: -1 where there is
 * none, -2 if it is none up to 32767. */
static int filter_number(const char **text, const char *end)
{
	int n = -1;

	if (*text == end)
		return -1;
	while (++*text < end && **text != ':') {
		if (**text < '0' || **text > '9')
			return -2;
		n = (n < 0 ? 0 : n * 10) + (**text - '0');
		if (n > INT16_MAX)
			return -2;
	}
	return n;
}

/* Parse one NAME[:[PORT][:[RAIL][:[PLANE]]]] of len characters. */
static bool filter_parse_one(struct mpib_hca_filter_port *p, const char *text,
			     size_t len)
{
	const char *end = text + len, *colon = memchr(text, ':', len);
	const char *at = colon ? colon : end;
	size_t name = (size_t)(at - text);
	int port;

	if (name == 0 || name >= sizeof(p->name))
		return false;
	port = filter_number(&at, end);
	if (port < -1 || port == 0 || port > UINT8_MAX ||
	    (colon && port < 0 && at == end))
		return false;
	for (int i = 0; i < 2; i++) { /* rail, plane */
		if (filter_number(&at, end) < -1)
			return false;
	}
	if (at < end)
		return false;
	memcpy(p->name, text, name);
	p->name[name] = '\0';
	p->port = port > 0 ? (uint8_t)port : 0;
	return true;
}

int mpib_hca_filter_parse(struct mpib_hca_filter *f, const char *text,
			  char *why, size_t why_len)
{
	*f = (struct mpib_hca_filter){ 0 };
	if (!*text)
		return 0;
	f->except = *text == '^';
	text += f->except;
	f->exact = *text == '=';
	text += f->exact;
	for (;;) {
		size_t len = strcspn(text, ",");

		if (f->n == MPIB_HCA_FILTERS) {
			snprintf(why, why_len,
				 "it has too many devices (give at most %u)",
				 MPIB_HCA_FILTERS);
			return -EINVAL;
		}
		if (!filter_parse_one(&f->port[f->n++], text, len)) {
			snprintf(why, why_len,
				 "\"%.*s\" is no device (give NAME or "
				 "NAME:PORT, with ^ or = before the first "
				 "alone)",
				 (int)(len < 64 ? len : 64), text);
			return -EINVAL;
		}
		text += len;
		if (!*text)
			return 0;
		text++;
	}
}

static bool filter_names(const struct mpib_hca_filter *f, const char *name,
			 uint8_t port)
{
	for (unsigned i = 0; i < f->n; i++) {
		const struct mpib_hca_filter_port *p = &f->port[i];

		if (p->port && p->port != port)
			continue;
		if (f->exact ? !strcmp(name, p->name)
			     : !strncmp(name, p->name, strlen(p->name)))
			return true;
	}
	return false;
}

bool mpib_hca_filter_allows(const struct mpib_hca_filter *f, const char *name,
			    uint8_t port)
{
	return f->n == 0 || filter_names(f, name, port) != f->except;
}
