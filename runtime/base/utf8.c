/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <stdbool.h>

/* A second byte that makes a character too long, a surrogate or too high. */
static bool utf8_wrong(const unsigned char *s)
{
	return (*s == 0xe0 && s[1] < 0xa0) || (*s == 0xed && s[1] >= 0xa0) ||
	       (*s == 0xf0 && s[1] < 0x90) || (*s == 0xf4 && s[1] >= 0x90);
}

unsigned mpib_utf8_bytes(const unsigned char *s)
{
	unsigned n = 4;

	if (*s < 0x80)
		return 1;
	if (*s < 0xc2 || *s > 0xf4)
		return 0;
	if (*s < 0xf0)
		n = *s < 0xe0 ? 2 : 3;
	for (unsigned i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	return utf8_wrong(s) ? 0 : n;
}

void mpib_utf8_make(char *text)
{
	unsigned n;

	for (; *text; text += n ? n : 1) {
		n = mpib_utf8_bytes((const unsigned char *)text);
		if (n == 0)
			*text = '?';
	}
}

void mpib_ascii_make(char *text)
{
	for (; *text; text++) {
		if (*text < ' ' || *text > '~')
			*text = '?';
	}
}
