/* SPDX-License-Identifier: Apache-2.0 */
/* Private to web/: an answer, with the headers that all answers have. */
#ifndef MPIB_WEB_REPLY_H
#define MPIB_WEB_REPLY_H

#include <microhttpd.h>
#include <stddef.h>

/* mode says whose text is. */
enum MHD_Result mpib_reply(struct MHD_Connection *conn, unsigned status,
			   const char *type, const char *text, size_t len,
			   enum MHD_ResponseMemoryMode mode);
/* Words for a person; text stays valid. */
enum MHD_Result mpib_reply_words(struct MHD_Connection *conn, unsigned status,
				 const char *text);

#endif
