/* SPDX-License-Identifier: Apache-2.0 */
/* handover/spawn.h: which descriptors a new process has, before its program, too. */
#include "handover/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static int from_user; /* a descriptor */
static bool has_it; /* the process that is started */

int __real_posix_spawn(pid_t *pid, const char *path,
		       const posix_spawn_file_actions_t *files,
		       const posix_spawnattr_t *attr, char *const argv[],
		       char *const envp[]);
int __wrap_posix_spawn(pid_t *pid, const char *path,
		       const posix_spawn_file_actions_t *files,
		       const posix_spawnattr_t *attr, char *const argv[],
		       char *const envp[]);

int __wrap_posix_spawn(pid_t *pid, const char *path,
		       const posix_spawn_file_actions_t *files,
		       const posix_spawnattr_t *attr, char *const argv[],
		       char *const envp[])
{
	has_it = fcntl(from_user, F_GETFD) >= 0;
	return __real_posix_spawn(pid, path, files, attr, argv, envp);
}

static int spawn(const char *path, int *sock, pid_t *pid)
{
	char name[] = "name";
	char *argv[] = { name, NULL };
	const struct mpib_spawn how = { .path = path, .argv = argv, .cwd = -1 };

	return mpib_spawn(&how, sock, pid);
}

static void a_new_process_has_nothing_of_users(void **state)
{
	int sock, status;
	pid_t pid;
	char byte;

	mpib_spawn_reserve();
	from_user = dup(STDERR_FILENO);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(spawn("/bin/true", &sock, &pid), 0);
		assert_false(has_it);
		assert_true(fcntl(from_user, F_GETFD) >= 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		/* The other end is nobody's when the thread is gone. */
		assert_int_equal(recv(sock, &byte, 1, 0), 0);
		close(sock);
	}
	assert_int_equal(spawn("/nonexistent", &sock, &pid), -ENOENT);
	close(from_user);
}

const struct CMUnitTest test_list[] = {
	cmocka_unit_test(a_new_process_has_nothing_of_users),
	{ 0 },
};
