/* SPDX-License-Identifier: Apache-2.0 */
/* The live page, included into the program as read-only data. */
#include "web/page.h"

/* The assembler reads MPIB_PAGE_FILE. The build sets that name, and rebuilds
 * this file when the page changes. */
__asm__(".section .rodata\n"
	".global mpib_page\n"
	".hidden mpib_page\n"
	".type mpib_page, %object\n"
	"mpib_page:\n"
	".incbin \"" MPIB_PAGE_FILE "\"\n"
	"mpib_page_end:\n"
	".balign 8\n"
	".global mpib_page_len\n"
	".hidden mpib_page_len\n"
	".type mpib_page_len, %object\n"
	"mpib_page_len:\n"
	".quad mpib_page_end - mpib_page\n"
	".previous\n");
