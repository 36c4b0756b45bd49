/* SPDX-License-Identifier: Apache-2.0 */
#include "web/reply.h"

#include <string.h>

struct MHD_Response *mpib_reply_make(const char *type, const char *text,
				     size_t len,
				     enum MHD_ResponseMemoryMode mode)
{
	/* libmicrohttpd takes a pointer to non-const also for text that it does
	 * not change. */
	union {
		const char *text;
		void *buffer;
	} body = { text };
	struct MHD_Response *response =
		MHD_create_response_from_buffer(len, body.buffer, mode);

	if (!response)
		return NULL;
	MHD_add_response_header(response, "Content-Type", type);
	MHD_add_response_header(response, "Cache-Control", "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Content-Security-Policy",
				"default-src 'none'; script-src "
				"'unsafe-inline'; style-src 'unsafe-inline'; "
				"connect-src 'self'; img-src data:; "
				"frame-ancestors 'none'");
	return response;
}

enum MHD_Result mpib_reply(struct MHD_Connection *conn, unsigned status,
			   const char *type, const char *text, size_t len)
{
	struct MHD_Response *response =
		mpib_reply_make(type, text, len, MHD_RESPMEM_PERSISTENT);
	enum MHD_Result rc;

	if (!response)
		return MHD_NO;
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, "Allow", "GET, HEAD");
	if (status == MHD_HTTP_UNAUTHORIZED) {
		MHD_add_response_header(response, "WWW-Authenticate",
					"Bearer realm=\"mpib\"");
		MHD_add_response_header(response, "WWW-Authenticate",
					"Basic realm=\"mpib\"");
	}
	rc = MHD_queue_response(conn, status, response);
	MHD_destroy_response(response);
	return rc;
}

enum MHD_Result mpib_reply_words(struct MHD_Connection *conn, unsigned status,
				 const char *text)
{
	return mpib_reply(conn, status, "text/plain; charset=utf-8", text,
			  strlen(text));
}
