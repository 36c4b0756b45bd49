/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bus.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "base/crash.h"

_Thread_local volatile struct mpib_bus mpib_bus;

/* Map anonymous memory over the page at this address, whose size is unknown.
 * The kernel splits a mapping of huge pages only between such pages and refuses
 * to replace less than one, so the first size that mmap() takes is that of the
 * page. */
static bool bus_replace(uintptr_t at)
{
	static const uintptr_t sizes[] = { 4096, 65536, 2u << 20, 1u << 30 };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (mmap((void *)(at & ~(sizes[i] - 1)), sizes[i],
			 PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			 0) != MAP_FAILED)
			return true;
	}
	return false;
}

static void on_bus(int sig, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr;
	size_t len = mpib_bus.len;
	int saved = errno;
	bool ours = at - mpib_bus.to < len || at - mpib_bus.from < len;

	(void)context;
	/* BUS_ADRERR means that a page was taken away; broken memory has
	 * another code and is not replaced. With the default action the access
	 * happens again and ends the process. */
	if (!ours || info->si_code != BUS_ADRERR || !bus_replace(at)) {
		mpib_crash_note(info);
		signal(sig, SIG_DFL);
	}
	errno = saved;
}

int mpib_bus_catch(void)
{
	struct sigaction sa = { .sa_sigaction = on_bus,
				.sa_flags = SA_SIGINFO | SA_NODEFER };

	return sigaction(SIGBUS, &sa, NULL) < 0 ? -errno : 0;
}
