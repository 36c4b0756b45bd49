/* SPDX-License-Identifier: Apache-2.0 */
/* Private to web/: an answer, with the headers that all answers have. */
#ifndef MPIB_WEB_REPLY_H
#define MPIB_WEB_REPLY_H

#include <microhttpd.h>
#include <stddef.h>

/* Of a text that mode says whose it is; NULL: no memory, and the text is the
 * caller's. It may answer several requests. */
struct MHD_Response *mpib_reply_make(const char *type, const char *text,
				     size_t len,
				     enum MHD_ResponseMemoryMode mode);
/* text stays valid. */
enum MHD_Result mpib_reply(struct MHD_Connection *conn, unsigned status,
			   const char *type, const char *text, size_t len);
/* Words for a person; text stays valid. */
enum MHD_Result mpib_reply_words(struct MHD_Connection *conn, unsigned status,
				 const char *text);

#endif
