/* SPDX-License-Identifier: Apache-2.0 */
/* Linked to what mpib_one_thread() names, in place of pthread_create(). */
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
