/* SPDX-License-Identifier: Apache-2.0 */
/* Let calls on the fake devices hang. */
#include <pthread.h>
#include <string.h>

#include "fake_ibv.h"
#include "verbs/hca/hca.h"

/* Wait longer than the usual 2 s, because a call of a healthy device may take
 * that long on a loaded machine. */
__attribute__((constructor)) static void patient(void)
{
	mpib_hca_wait_ms = FAKE_IBV_PATIENCE_MS;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static const char *device, *call;
static unsigned hung;

void fake_ibv_hang(const char *of, const char *name)
{
	pthread_mutex_lock(&lock);
	device = of;
	call = name;
	pthread_mutex_unlock(&lock);
}

void fake_ibv_release(void)
{
	pthread_mutex_lock(&lock);
	device = call = NULL;
	pthread_cond_broadcast(&released);
	pthread_mutex_unlock(&lock);
}

unsigned fake_ibv_hung(void)
{
	unsigned n;

	pthread_mutex_lock(&lock);
	n = hung;
	pthread_mutex_unlock(&lock);
	return n;
}

void fake_ibv_call(const struct fake_device *d, const char *name)
{
	pthread_mutex_lock(&lock);
	if (call && !strcmp(call, name) && !strcmp(device, d->ibv.name)) {
		hung++;
		while (call)
			pthread_cond_wait(&released, &lock);
	}
	pthread_mutex_unlock(&lock);
}
