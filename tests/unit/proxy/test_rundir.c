/* SPDX-License-Identifier: Apache-2.0 */
/* proxy/rundir.h: the modes of the run directory and its files, which
 * directories are refused, and which files are removed. */
#include "rundir.h"

#include <errno.h>
#include <mpib/control.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "scratch.h"
#include "test.h"

static char why[MPIB_WHY_MAX];
static char path[96];

static int fresh(void **state)
{
	int rc = scratch_make(state);

	snprintf(path, sizeof(path), "%.80s", scratch_path("run"));
	return rc;
}

#define CASE(name) TEST_OF(name, fresh, scratch_remove)

CASE(the_group_may_enter_the_directory_with_any_umask)
{
	mode_t before = umask(077);
	struct mpib_rundir rd;
	struct stat dir, sock;
	int fd;

	assert_int_equal(mpib_rundir_open(&rd, path, "", why), 0);
	fd = mpib_rundir_listen(&rd, "proxy.sock", SOCK_SEQPACKET, why);
	umask(before);
	assert_true(fd >= 0);
	assert_int_equal(stat(path, &dir), 0);
	assert_int_equal(dir.st_mode & 07777, 0750);
	assert_int_equal(stat(scratch_path("run/proxy.sock"), &sock), 0);
	assert_int_equal(sock.st_mode & 07777, 0660);
	close(fd);
	mpib_rundir_close(&rd, NULL);
}

/* If the disk is full, the file must keep its old contents. */
CASE(if_the_pid_cannot_be_written_the_previous_pid_stays)
{
	struct rlimit all, none = { 0 };
	struct mpib_rundir rd;
	char text[16] = "";
	FILE *f;

	assert_int_equal(mpib_rundir_open(&rd, path, "", why), 0);
	assert_int_equal(mpib_rundir_write_pid(&rd, 4711, why), 0);
	getrlimit(RLIMIT_FSIZE, &all);
	none.rlim_max = all.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_true(mpib_rundir_write_pid(&rd, 12, why) < 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
	f = fopen(scratch_path("run/proxy.pid"), "r");
	assert_non_null(f);
	assert_non_null(fgets(text, sizeof(text), f));
	assert_string_equal(text, "4711\n");
	/* A shorter new text must replace the whole old text. */
	assert_int_equal(mpib_rundir_write_pid(&rd, 12, why), 0);
	rewind(f);
	assert_int_equal(fread(text, 1, sizeof(text), f), 3);
	fclose(f);
	mpib_rundir_close(&rd, NULL);
}

CASE(a_directory_that_all_users_may_write_is_refused)
{
	struct mpib_rundir rd;

	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 01777), 0);
	assert_int_equal(mpib_rundir_open(&rd, path, "", why), -EPERM);
	assert_in(why, "anybody may write");
}

CASE(a_directory_that_its_group_may_write_is_refused)
{
	struct mpib_rundir rd;

	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chmod(path, 0770), 0);
	assert_int_equal(mpib_rundir_open(&rd, path, "", why), -EPERM);
	assert_in(why, "its whole group may write");
}

CASE(the_admin_socket_is_outside_and_only_for_the_owner)
{
	struct mpib_rundir rd;
	char dotted[128];
	struct stat st;
	int fd;

	snprintf(dotted, sizeof(dotted), "%.90s/.", path);
	assert_int_equal(mkdir(path, 0755), 0);
	/* The admin socket is outside of the run directory, no matter how the
	 * path is spelled. */
	assert_int_equal(mpib_rundir_open(&rd, dotted, "", why), 0);
	fd = mpib_rundir_listen_admin(&rd, why);
	assert_true(fd >= 0);
	assert_int_equal(stat(scratch_path("run.admin"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(scratch_path("run.admin/admin.sock"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	close(fd);
	mpib_rundir_close(&rd, NULL);
	assert_int_equal(access(scratch_path("run.admin"), F_OK), -1);
}

/* The run directory of a running proxy is removed, and another proxy is started
 * in its place. */
CASE(closing_does_not_remove_a_successors_admin_socket)
{
	struct mpib_rundir a, b;
	int fd;

	assert_int_equal(mpib_rundir_open(&a, path, "", why), 0);
	fd = mpib_rundir_listen_admin(&a, why);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(unlinkat(a.dir, "lock", 0), 0);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(mpib_rundir_open(&b, path, "", why), 0);
	fd = mpib_rundir_listen_admin(&b, why);
	assert_true(fd >= 0);
	close(fd);
	mpib_rundir_close(&a, NULL);
	assert_int_equal(access(scratch_path("run.admin/admin.sock"), F_OK), 0);
	mpib_rundir_close(&b, NULL);
	assert_int_equal(access(scratch_path("run.admin"), F_OK), -1);
}

/* A volume of a container may be open to all users. Afterwards only the proxy
 * may use the directory. */
CASE(access_to_an_admin_directory_open_to_all_is_removed)
{
	struct mpib_rundir rd;
	struct stat st;
	int fd;

	assert_int_equal(mkdir(scratch_path("run.admin"), 0700), 0);
	assert_int_equal(chmod(scratch_path("run.admin"), 0777), 0);
	assert_int_equal(mpib_rundir_open(&rd, path, "", why), 0);
	fd = mpib_rundir_listen_admin(&rd, why);
	assert_true(fd >= 0);
	assert_int_equal(stat(scratch_path("run.admin"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	close(fd);
	mpib_rundir_close(&rd, NULL);
}

CASE(a_symbolic_link_as_run_directory_is_refused)
{
	struct mpib_rundir rd;

	assert_int_equal(symlink(scratch, path), 0);
	assert_int_equal(mpib_rundir_open(&rd, path, "", why), -ENOTDIR);
}

CASE(a_directory_or_socket_that_cannot_be_made_is_an_error)
{
	struct mpib_rundir rd;
	char longer[200];

	assert_int_equal(mpib_rundir_open(&rd, scratch_path("a/b"), "", why),
			 -ENOENT);
	assert_in(why, "create its parent");
	memset(longer, 'x', sizeof(longer) - 1);
	longer[0] = '/';
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(mpib_rundir_open(&rd, longer, "", why), -ENAMETOOLONG);
	/* A bind mount may have made a directory with the name of the
	 * socket. */
	assert_int_equal(mpib_rundir_open(&rd, scratch_path("run"), "", why),
			 0);
	assert_int_equal(mkdir(scratch_path("run/" MPIB_CONTROL_SOCK), 0700),
			 0);
	assert_int_equal(
		mpib_rundir_listen(&rd, MPIB_CONTROL_SOCK, SOCK_SEQPACKET, why),
		-EISDIR);
	assert_in(why, "run/" MPIB_CONTROL_SOCK ": the file of that name "
		       "cannot be removed: Is a directory (remove it)");
	assert_int_equal(rmdir(scratch_path("run/" MPIB_CONTROL_SOCK)), 0);
	mpib_rundir_close(&rd, NULL);
}
