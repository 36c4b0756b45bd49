/* SPDX-License-Identifier: Apache-2.0 */
/* Built in place of http.c where libmicrohttpd is not installed. */
#include <errno.h>

#include "web/http.h"

int mpib_http_open(struct mpib_gather *g, const struct mpib_config *cfg,
		   struct mpib_http **http, char *why)
{
	(void)g;
	(void)http;
	return mpib_why_fail(
		why, -EOPNOTSUPP,
		"metrics.listen = \"%.64s\": this mpib-proxy has no HTTP "
		"(build it with libmicrohttpd, or leave the setting empty)",
		cfg->metrics_listen);
}

const char *mpib_http_scheme(const struct mpib_http *http)
{
	(void)http;
	return "";
}

const char *mpib_http_address(const struct mpib_http *http)
{
	(void)http;
	return "";
}

void mpib_http_close(struct mpib_http *http)
{
	(void)http;
}
