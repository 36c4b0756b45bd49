/* SPDX-License-Identifier: Apache-2.0 */
/* The live page, which embed.cmake assembles for the build. */
#ifndef MPIB_WEB_PAGE_H
#define MPIB_WEB_PAGE_H

#include <stddef.h>

extern const char mpib_page[];
extern const size_t mpib_page_len;

#endif
