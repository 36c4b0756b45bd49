/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from outside, such as a host name or a path, may have any bytes; JSON may not,
 * and its library refuses the whole object. Any thread.
 */
#ifndef MPIB_BASE_UTF8_H
#define MPIB_BASE_UTF8_H

/* The bytes of the UTF-8 character that s begins with; 0: it is none. */
unsigned mpib_utf8_bytes(const unsigned char *s);

/* Make each byte of text that is not UTF-8 a "?". */
void mpib_utf8_make(char *text);
/* Make each byte that is not printable ASCII a "?". */
void mpib_ascii_make(char *text);

#endif
