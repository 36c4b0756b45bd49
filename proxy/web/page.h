/* SPDX-License-Identifier: Apache-2.0 */
/* page.html, as it was when this was built. */
#ifndef MPIB_WEB_PAGE_H
#define MPIB_WEB_PAGE_H

#include <stddef.h>

extern const char mpib_page[];
extern const size_t mpib_page_len;

#endif
