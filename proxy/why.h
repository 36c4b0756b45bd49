/* SPDX-License-Identifier: Apache-2.0 */
/* How functions of the proxy report the reason for a failure as text. */
#ifndef MPIB_PROXY_WHY_H
#define MPIB_PROXY_WHY_H

/* Write the reason for a failure into why, of MPIB_WHY_MAX bytes (config.h),
 * and return rc. Any thread. */
int mpib_why_fail(char *why, int rc, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
