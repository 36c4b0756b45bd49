/* SPDX-License-Identifier: Apache-2.0 */
/* Dropping privileges at start-up. */
#include "drop.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/run_dir.h"
#include "rundir.h"

#define GROUPS_MAX 256 /* of a user; the kernel has more */

static int make_run_dir(const struct mpib_config *cfg, const struct passwd *pw,
			char *why)
{
	const struct group *gr = getgrnam(cfg->run_group);

	if (mkdir(cfg->run_dir, 0750) < 0) {
		if (errno == EEXIST)
			return 0; /* mpib_rundir_open() checks its owner */
	} else if (chown(cfg->run_dir, pw->pw_uid,
			 gr ? gr->gr_gid : pw->pw_gid) == 0 &&
		   chmod(cfg->run_dir, 0750) == 0) { /* despite the umask */
		return 0;
	}
	return mpib_why_fail(
		why, -errno,
		"run directory %s: %s (create its parent, or give --run-dir)",
		cfg->run_dir, strerror(errno));
}

/* The admin socket's directory beside the run directory, whose parent only root
 * may write to. Without it the proxy says so and goes on. */
static void make_admin_dir(const struct mpib_config *cfg,
			   const struct passwd *pw)
{
	char path[MPIB_ADMIN_PATH_MAX];

	if (mpib_admin_dir(cfg->run_dir, path, sizeof(path)) &&
	    mkdir(path, 0700) == 0 && chown(path, pw->pw_uid, pw->pw_gid) < 0)
		rmdir(path);
}

/* Registering locks memory, of which an ordinary user may lock too little.
 * Where even root may not raise the limit, as in a container, registering
 * memory reports it when it hits the limit. */
static void allow_locked_memory(void)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };

	if (setrlimit(RLIMIT_MEMLOCK, &all) == 0 ||
	    getrlimit(RLIMIT_MEMLOCK, &all) < 0)
		return;
	all.rlim_cur = all.rlim_max;
	setrlimit(RLIMIT_MEMLOCK, &all);
}

/* The user's groups, and run.group: who is not in it could not give it the
 * sockets, and nobody of it could attach. */
static int join_groups(const struct passwd *pw, const struct group *gr)
{
	gid_t list[GROUPS_MAX];
	int n;

	if (initgroups(pw->pw_name, pw->pw_gid) < 0)
		return -1;
	if (!gr)
		return 0;
	n = getgroups(GROUPS_MAX - 1, list);
	if (n < 0)
		return -1;
	list[n] = gr->gr_gid;
	return setgroups((size_t)n + 1, list);
}

/* Of what root may, keep one right: to have users punch no holes into what the proxy
 * shares with them (base/memseg.c). A program that takes its place inherits it. */
static int drop_rights(void)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct had[2], one[2] = { 0 };

	if (syscall(SYS_capget, &h, had) < 0)
		return -1;
	one[0].permitted = had[0].permitted & CAP_TO_MASK(CAP_LINUX_IMMUTABLE);
	one[0].effective = one[0].inheritable = one[0].permitted;
	if (syscall(SYS_capset, &h, one) < 0)
		return -1;
	return one[0].permitted ? prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE,
					CAP_LINUX_IMMUTABLE, 0, 0)
				: 0;
}

static int drop_become(const struct passwd *pw, const char *group)
{
	allow_locked_memory();
	if (join_groups(pw, getgrnam(group)) < 0 ||
	    setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid) < 0 ||
	    prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ||
	    setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid) < 0 ||
	    drop_rights() < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

int mpib_drop(const struct mpib_config *cfg, char *why)
{
	const struct passwd *pw;
	int rc;

	if (!cfg->run_user[0])
		return 0;
	errno = 0;
	pw = getpwnam(cfg->run_user);
	if (!pw)
		return mpib_why_fail(
			why, -ENOENT,
			"run.user: there is no user \"%s\" (create it, or "
			"give another --run-user)",
			cfg->run_user);
	if (pw->pw_uid == geteuid())
		return 0;
	if (geteuid() != 0)
		return mpib_why_fail(
			why, -EPERM,
			"run.user: only root can become \"%s\" (start as root "
			"or as that user)",
			cfg->run_user);
	rc = make_run_dir(cfg, pw, why);
	if (rc < 0)
		return rc;
	make_admin_dir(cfg, pw);
	rc = drop_become(pw, cfg->run_group);
	if (rc < 0)
		snprintf(why, MPIB_WHY_MAX, "run.user: becoming \"%s\": %s",
			 cfg->run_user, strerror(-rc));
	return rc;
}

/* A sanitizer's leak checker traces its own process. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TRACED_BY_ITSELF true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TRACED_BY_ITSELF true
#endif
#endif
#ifndef TRACED_BY_ITSELF
#define TRACED_BY_ITSELF false
#endif

void mpib_keep_secrets(const struct mpib_config *cfg)
{
	const struct rlimit none = { 0, 0 };

	if (cfg->core)
		return;
	if (setrlimit(RLIMIT_CORE, &none) < 0 ||
	    (!TRACED_BY_ITSELF && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0))
		mpib_warn("a crash may leave a core file with users' data: %m "
			  "(limit it: ulimit -c 0)");
}
