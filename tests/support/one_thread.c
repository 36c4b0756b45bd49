/* SPDX-License-Identifier: Apache-2.0 */
/* Linked by mpib_one_thread() of CMake into tests that must have one thread:
 * replaces pthread_create() by a function that aborts. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*start)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*start)(void *), void *arg)
{
	(void)thread;
	(void)attr;
	(void)start;
	(void)arg;
	fputs("this test is said to have one thread (mpib_one_thread), and "
	      "starts another\n",
	      stderr);
	abort();
}
