/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every setting of the proxy, once: what it is called in a file, in the
 * environment and on the command line, its range, its default and where its
 * value came from. Later sources win: built-in, /etc/mpib/mpib.conf and
 * conf.d, environment, flags, and, of some, the admin command set. Control
 * thread.
 *
 * A setting "key" of "[section]" is MPIB_SECTION_KEY in the environment.
 */
#ifndef MPIB_PROXY_CONFIG_H
#define MPIB_PROXY_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config/share.h"
#include "engine/engine.h"
#include "engine/split/policy.h"

#define MPIB_CONFIG_DIR "/etc/mpib"
#define MPIB_SETTINGS_MAX 80
#define MPIB_ORIGIN_MAX 128
#define MPIB_WHY_MAX 512
#define MPIB_VALUE_MAX 512 /* of a setting, as text */

/* After the modes of the engine: vanilla with islands, static with a share
 * that somebody gave, else adaptive. */
#define MPIB_MODE_AUTO (MPIB_MODE_STATIC + 1)

enum mpib_lanes_mode {
	MPIB_LANES_SHARED, /* imm v2, one lane a peer and tenant */
	MPIB_LANES_PRIVATE, /* imm v1, one lane a connection */
};

/* Of what one user may hold so much, see client/quota.h. */
enum mpib_quota {
	MPIB_QUOTA_CLIENTS,
	MPIB_QUOTA_CONNECTIONS, /* in any state */
	MPIB_QUOTA_REQUESTS, /* in flight: MPIB_REQUESTS a connection */
	MPIB_QUOTA_LISTENERS,
	MPIB_QUOTA_REGIONS,
	MPIB_QUOTA_MEMORY, /* bytes registered, staging pools included */
	MPIB_QUOTA_POOL, /* bytes of staging pools: memory of ours */
	MPIB_QUOTA_FDS, /* that the proxy holds open for the user */
	MPIB_QUOTA_MESSAGES, /* of the control socket, a second */
	MPIB_QUOTAS,
};

struct mpib_config {
	char run_dir[96]; /* "": the default place, see mpib_rundir_default() */
	char run_group[32];
	char run_user[32]; /* "": whoever starts it */
	char sout[80], sup[80]; /* specifications; "" or auto: discovery */
	char peer_key_file[256]; /* "": peers are not asked for a key */
	char peer_addr[64]; /* "": from the SOUT rail */
	char gid_net[160]; /* "": any network will do */
	char hca_filter[256]; /* of discovery, see rails/filter.h */
	uint32_t peer_port;
	uint32_t mode; /* enum mpib_mode, or MPIB_MODE_AUTO */
	char agent_dir[96];
	uint32_t island_prefix;
	char island_networks[MPIB_VALUE_MAX];
	struct mpib_islands islands; /* after mpib_config_finish() */
	uint32_t silence, answer; /* seconds: of a peer, of the proxy */
	uint32_t request_timeout, connect_timeout; /* seconds; 0: none */
	uint32_t lanes; /* enum mpib_lanes_mode */
	uint32_t log_level; /* enum mpib_log_level */
	uint32_t readopt; /* of devices that failed */
	uint32_t daemon;
	uint32_t window, part; /* staging of one connection, bytes */
	uint32_t huge_pages; /* of pools and mpib_mem_alloc() */
	uint32_t max_clients, max_regions, max_readers;
	uint64_t max_memory; /* registered bytes of a client */
	char metrics_listen[32]; /* of HTTP, "": none */
	uint64_t quota[MPIB_QUOTAS]; /* of a user; 0: none, or built-in */
	uint32_t share_limit; /* of a user that no rule names, Mb/s */
	char share_rules[MPIB_VALUE_MAX];
	struct mpib_share_rules shares; /* after mpib_config_finish() */
	struct mpib_engine_config engine;

	/* Nobody named a rail: RDMA ports were found, or there are none. */
	bool found, soft_by_default;
	char passed_over[256]; /* why not those, or not others */
	char origin[MPIB_SETTINGS_MAX][MPIB_ORIGIN_MAX];
};

enum mpib_setting_type {
	MPIB_SET_UINT,
	MPIB_SET_INT,
	MPIB_SET_SIZE, /* bytes, K, M or G may follow */
	MPIB_SET_TEXT,
	MPIB_SET_CHOICE,
};

struct mpib_setting {
	const char *section, *key;
	const char *flag; /* of the command line, without "--" */
	enum mpib_setting_type type;
	size_t offset, width; /* in struct mpib_config */
	int64_t min, max; /* of numbers and sizes */
	const char *const *choices; /* NULL-ended */
	bool runtime; /* the admin command set may change it */
	const char *arg; /* what help calls the value */
	const char *env; /* NULL: MPIB_SECTION_KEY */
	const char *help;
};

/* The table, and how many there are. */
extern const struct mpib_setting mpib_settings[];
extern const unsigned mpib_settings_count;
/* NULL: there is none of that name. */
const struct mpib_setting *mpib_config_find(const char *section,
					    const char *key);

/* All built-in. */
void mpib_config_init(struct mpib_config *cfg);

/*
 * The calls below return 0 or -errno, with why as "where: what (remedy)" in
 * MPIB_WHY_MAX bytes. origin is what a dump shows, "flag --sup-bw".
 */
int mpib_config_set(struct mpib_config *cfg, const struct mpib_setting *s,
		    const char *value, const char *origin, char *why);
/* A file must be there; of the directory, mpib.conf and conf.d need not. */
int mpib_config_read_file(struct mpib_config *cfg, const char *path, char *why);
int mpib_config_read_dir(struct mpib_config *cfg, const char *dir, char *why);
int mpib_config_read_env(struct mpib_config *cfg, char **env, char *why);
/* What no single setting shows; turns the specifications into rails. */
int mpib_config_finish(struct mpib_config *cfg, char *why);

/* "soft:127.0.0.1", "rdma:mlx5_0:1", after mpib_config_finish(). */
void mpib_config_rail_name(const struct mpib_config *cfg, unsigned rail,
			   char *buf, size_t len);

/* The value as a file would have it. */
void mpib_config_value(const struct mpib_config *cfg,
		       const struct mpib_setting *s, char *buf, size_t len);
void mpib_config_env_name(const struct mpib_setting *s, char *buf, size_t len);
/* As a configuration file, each line with its origin. */
void mpib_config_dump(const struct mpib_config *cfg, FILE *out);

#endif
