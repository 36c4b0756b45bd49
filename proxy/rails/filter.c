/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing hca.filter, and matching ports against it. */
#include "rails/filter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parse one "NAME" or "NAME:PORT" of len characters. */
static bool filter_parse_one(struct mpib_hca_filter_port *p, const char *text,
			     size_t len)
{
	const char *colon = memchr(text, ':', len);
	size_t name = colon ? (size_t)(colon - text) : len;
	unsigned long port = 0;
	char *end;

	if (name == 0 || name >= sizeof(p->name))
		return false;
	if (colon) {
		if (colon[1] < '0' || colon[1] > '9')
			return false;
		port = strtoul(colon + 1, &end, 10);
		if (end != text + len || port < 1 || port > 255)
			return false;
	}
	memcpy(p->name, text, name);
	p->name[name] = '\0';
	p->port = (uint8_t)port;
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
