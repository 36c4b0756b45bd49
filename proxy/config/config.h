/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proxy's settings. A table has the range and the default of each setting,
 * and the setting's names in a file, in the environment and on the command
 * line. struct mpib_config has the value of each setting and the source of that
 * value. A source overrides those before it in this list: built-in, variables
 * of NCCL's transport, /etc/mpib/mpib.conf, conf.d, environment, flags, and the
 * admin command `set` (for some settings). Control thread.
 *
 * A setting "key" of "[section]" is MPIB_SECTION_KEY in the environment.
 */
#ifndef MPIB_PROXY_CONFIG_H
#define MPIB_PROXY_CONFIG_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/address.h"
#include "engine/engine.h"
#include "engine/split/mode.h"

#define MPIB_CONFIG_DIR "/etc/mpib"
#define MPIB_SETTINGS_MAX 96
#define MPIB_ORIGIN_MAX 128
#define MPIB_DRAIN_WHY 48 /* bytes of a drain's reason, with the final 0 */
#define MPIB_WHY_MAX 2048 /* bytes of an error text with one line per fault */
#define MPIB_VALUE_MAX 512 /* bytes of a setting's text */

/* This value is not a mode of the engine. mpib_config_finish() replaces it:
 * with vanilla if islands are given, with static if sup.bw is given, else with
 * adaptive. */
#define MPIB_MODE_AUTO (MPIB_MODE_STATIC + 1)

enum mpib_lanes_mode {
	MPIB_LANES_SHARED, /* imm v2, one lane per peer and tenant */
	MPIB_LANES_PRIVATE, /* imm v1, one lane per connection */
};

/* How to group HCAs into devices if no setting names a device. */
enum mpib_layout {
	MPIB_LAYOUT_AUTO, /* FUSED for two HCAs, EACH for more */
	MPIB_LAYOUT_FUSED, /* one device for each pair of HCAs */
	MPIB_LAYOUT_EACH, /* a device for each HCA; its neighbour is standby */
};

/* Which users may register memory that they made themselves. These users can
 * block the proxy when it maps or accesses the memory. */
enum mpib_own_memory {
	MPIB_OWN_MEMORY_NONE,
	MPIB_OWN_MEMORY_SELF, /* the proxy's own user */
	MPIB_OWN_MEMORY_ALL,
};

#define MPIB_DEVICE_NAME_MAX 32
/* A device: one or two rails, specified as in hca.sout and hca.sup. */
struct mpib_config_device {
	char name[MPIB_DEVICE_NAME_MAX];
	char sout[80], sup[80]; /* with one rail, sup is "" or "none" */
	char origin[128]; /* "": from hca.sout and hca.sup, or discovery */
};

/* Quotas of a user, see client/quota.h. */
enum mpib_quota {
	MPIB_QUOTA_CLIENTS,
	MPIB_QUOTA_CONNECTIONS, /* in any state */
	MPIB_QUOTA_LISTENERS,
	MPIB_QUOTA_LANES,
	MPIB_QUOTA_REGIONS,
	MPIB_QUOTA_MEMORY, /* bytes registered, staging pools included */
	MPIB_QUOTA_FDS, /* descriptors that the proxy holds for the user */
	MPIB_QUOTA_MESSAGES, /* messages per second on the control socket */
	MPIB_QUOTAS,
};

/*
 * The rules of the setting share.rules: weight and rate limit of a user or of a
 * client. A user's clients divide the user's share. A client's connections
 * divide the client's share.
 */

#define MPIB_SHARE_RULES 32u
#define MPIB_SHARE_LIMIT_MAX 10000000u /* Mb/s */
#define MPIB_SHARE_BYTES 125000ull /* bytes per megabit */

struct mpib_share {
	uint32_t weight; /* 0: the default */
	uint32_t limit; /* Mb/s, 0: none */
};

struct mpib_share_rule {
	enum {
		MPIB_SHARE_OF_USER,
		MPIB_SHARE_OF_NAME, /* client name, a pattern of fnmatch() */
		MPIB_SHARE_OF_JOB,
	} of;
	uint64_t id; /* uid or job */
	char name[64];
	struct mpib_share share;
};

struct mpib_share_rules {
	unsigned n;
	struct mpib_share_rule rule[MPIB_SHARE_RULES];
};

/*
 * Parse rules such as "uid=1000:weight=20:limit=50000,name=train*:weight=50".
 * On -EINVAL, `why` names the wrong rule and describes the syntax of a rule.
 */
int mpib_share_parse(struct mpib_share_rules *rules, const char *text,
		     char *why, size_t why_len);

/* Return the share that the first matching rule gives. If no rule matches,
 * return `dflt` for a user, and a share of zeros for a client. */
struct mpib_share mpib_share_of_user(const struct mpib_share_rules *rules,
				     uid_t uid, struct mpib_share dflt);
struct mpib_share mpib_share_of_client(const struct mpib_share_rules *rules,
				       const char *name, uint64_t job);

/* Descriptors that the proxy holds for each client: control socket, pidfd,
 * doorbell, the submit segment and the reply segment. */
#define MPIB_FDS_OF_A_CLIENT 5

struct mpib_config {
	char run_dir[96]; /* "": mpib_rundir_default() */
	char run_group[32];
	char sout[80], sup[80]; /* specifications; "" or "auto": discovery */
	char peer_key_file[256]; /* "": peers need no key */
	char peer_addr[2 * MPIB_ADDRESS_MAX]; /* "": see proxy/peer_link.c */
	struct in6_addr peer_at[2]; /* peer_addr, parsed; "::": none */
	char traffic_classes[MPIB_VALUE_MAX]; /* "any", "none" or a list */
	uint64_t classes[4]; /* a bitmap, set by mpib_config_finish() */
	char peer_networks[MPIB_VALUE_MAX]; /* "auto", "any" or a list */
	/* peer_networks, parsed by mpib_config_finish(). mpib_start_peer_link()
	 * adds the networks of "auto". */
	struct mpib_networks networks;
	char gid_net[160]; /* "": no preferred network */
	char hca_filter[256]; /* for discovery, see rails/discover.h */
	uint32_t layout; /* enum mpib_layout */
	uint32_t expected_gbps; /* speed of each rail, Gb/s; 0: not given */
	uint32_t peer_port;
	uint32_t mode; /* enum mpib_mode or MPIB_MODE_AUTO */
	char agent_dir[96];
	char agent_user[32]; /* user of the agent, besides root and the proxy's
			      * user; "": none */
	uint32_t island_prefix;
	char island_networks[MPIB_VALUE_MAX];
	struct mpib_islands islands; /* set by mpib_config_finish() */
	/* `silence`: seconds after which the link to a silent peer is closed.
	 * `answer`: seconds that a client waits for the proxy's answer. */
	uint32_t silence, answer;
	uint32_t request_timeout, connect_timeout; /* seconds; 0: none */
	uint32_t resume_grace; /* seconds; used if engine.resume is set */
	uint32_t lanes; /* enum mpib_lanes_mode */
	uint32_t log_level; /* enum mpib_log_level */
	uint32_t log_format; /* 1: JSON */
	char events_file[256]; /* "auto": in systemd's state directory */
	uint32_t fault; /* 1: mpibctl fault is allowed */
	uint32_t daemon;
	uint32_t pin; /* 1: shards run near their HCAs */
	uint32_t seccomp; /* enum mpib_seccomp */
	uint32_t core; /* 1: a crash may leave a core file */
	uint32_t window, part; /* bytes of a staging window, and of a part */
	uint32_t huge_pages; /* 1: huge pages for pools and mpib_mem_alloc() */
	uint32_t own_memory; /* enum mpib_own_memory */
	uint32_t max_clients, max_readers;
	char metrics_listen[32]; /* HTTP; "": no HTTP */
	/* Files of TLS and of the bearer token; "": none. `metrics_hosts`:
	 * names that a request's Host header may have, separated by commas. */
	char metrics_cert[256], metrics_key[256], metrics_token_file[256];
	char metrics_hosts[MPIB_VALUE_MAX];
	/* Quotas of each user. 0: no quota; for memory, a default. */
	uint64_t quota[MPIB_QUOTAS];
	uint32_t share_threads; /* enum mpib_place, for new clients */
	uint32_t share_limit; /* Mb/s, for each user without a rule */
	char share_rules[MPIB_VALUE_MAX];
	struct mpib_share_rules shares; /* set by mpib_config_finish() */
	struct mpib_engine_config engine;
	/* The devices that settings name. After mpib_config_finish(): all
	 * devices of the proxy, at least one. */
	struct mpib_config_device device[MPIB_DEVICES_MAX];
	unsigned devices;

	bool found; /* hca.sout was not given, and discovery found the rails */
	bool one_rail; /* hca.sup is none, and discovery found SOUT */
	/* true: SUP of each device is another device's SOUT. SUP carries bytes
	 * only while the device's own SOUT has failed: the policy is static,
	 * with a share of 0 for SUP. */
	bool standby;
	/* Why discovery made these devices; else "". */
	char why_devices[256];
	char passed_over[512]; /* why ports were not used as rails */
	char origin[MPIB_SETTINGS_MAX][MPIB_ORIGIN_MAX];
	/* The reason that a user gave for the drain of a rail, or "". */
	char drain_why[MPIB_RAILS_MAX][MPIB_DRAIN_WHY];
};

enum mpib_setting_type {
	MPIB_SET_UINT,
	MPIB_SET_INT,
	MPIB_SET_SIZE, /* bytes, with an optional suffix K, M, G or T */
	MPIB_SET_TEXT,
	MPIB_SET_CHOICE,
};

struct mpib_setting {
	const char *section, *key;
	const char *flag; /* command-line option, without "--" */
	enum mpib_setting_type type;
	size_t offset, width; /* place and bytes of the field in mpib_config */
	int64_t min, max; /* for numbers and sizes */
	const char *const *choices; /* NULL-terminated */
	bool runtime; /* the admin command `set` may change the setting */
	const char *arg; /* name of the value in --help */
	const char *env; /* environment variable; NULL: MPIB_SECTION_KEY */
	const char *help;
};

/* The table of settings and its length. */
extern const struct mpib_setting mpib_settings[];
extern const unsigned mpib_settings_count;
/* Return whether a client may request the traffic class, 0 to 255. Call this
 * after mpib_config_finish(). */
bool mpib_config_class(const struct mpib_config *cfg, unsigned traffic_class);
/* Return the setting `key` of `section`, or NULL. */
const struct mpib_setting *mpib_config_find(const char *section,
					    const char *key);

/* Write "did you mean SECTION.KEY?" to `hint`. If no setting has a name similar
 * to `typed`, write `otherwise`. */
const char *mpib_config_nearest(const char *typed, const char *otherwise,
				char *hint, size_t len);

/* Give every setting its built-in value. */
void mpib_config_init(struct mpib_config *cfg);

/* Write the reason for a failure to the buffer `why` of MPIB_WHY_MAX bytes, and
 * return `rc`. Any thread. */
int mpib_why_fail(char *why, int rc, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Append a line to `why` if there is room. */
void mpib_config_why(char *why, const char *line);

/*
 * The calls below return 0 or -errno. On an error, `why` (MPIB_WHY_MAX bytes)
 * holds "where: what (remedy)". Calls that read a whole source write one such
 * line for each fault. `origin` names the source of a value for
 * mpib_config_dump(), such as "flag --sup-bw".
 */
int mpib_config_set(struct mpib_config *cfg, const struct mpib_setting *s,
		    const char *value, const char *origin, char *why);
/* Set a value while the proxy runs. If the proxy would refuse the value at its
 * start, *cfg does not change. */
int mpib_config_change(struct mpib_config *cfg, const struct mpib_setting *s,
		       const char *value, const char *origin, char *why);
/* Read settings. The file at `path` must exist; dir/mpib.conf and dir/conf.d
 * may be missing. */
int mpib_config_read_file(struct mpib_config *cfg, const char *path, char *why);
int mpib_config_read_dir(struct mpib_config *cfg, const char *dir, char *why);
int mpib_config_read_env(struct mpib_config *cfg, char **env, char *why);
/* Read NCCL's NCCL_IB_ variables about HCAs. Call this before any other source
 * is read. */
int mpib_config_read_nccl(struct mpib_config *cfg, char **env, char *why);
/* Return whether mpib_config_read_nccl() reads this variable. */
bool mpib_config_takes_nccl(const char *name);
/* Return the value of the variable `name` in `env`, or NULL. */
const char *mpib_config_getenv(char **env, const char *name);
/* Parse metrics.listen, such as "127.0.0.1:9495". -EINVAL: the text is not an
 * IPv4 address with a port. */
int mpib_config_listen(const char *text, struct sockaddr_in *sin, char *why);
/* Call this after all sources were read: parse rails, islands and shares, and
 * check settings against each other. `why` gets a line for each fault. */
int mpib_config_finish(struct mpib_config *cfg, char *why);
/* Do the part of mpib_config_finish() that checks single settings, addresses
 * and files. Use this for a configuration in which some settings were
 * refused. */
int mpib_config_texts(struct mpib_config *cfg, char *why);

/* devices.c: mpib_config_device_set() sets one key, sout or sup, of "[device
 * NAME]". mpib_config_device_flag() parses "--device SOUT[,SUP]". Devices on
 * the command line replace those of files. */
int mpib_config_device_set(struct mpib_config *cfg, const char *name,
			   const char *key, const char *value,
			   const char *origin, char *why);
int mpib_config_device_flag(struct mpib_config *cfg, const char *value,
			    char *why);

/* In the calls below, a rail's number is its index among the rails of all
 * devices. Make these calls after mpib_config_finish(). */
/* Write a rail's specification, "soft:127.0.0.1" or "rdma:mlx5_0:1", into
 * buf. */
void mpib_config_rail_name(const struct mpib_config *cfg, unsigned rail,
			   char *buf, size_t len);
/* Write into *d what a section for the device would contain. d->origin is
 * always "". If the device has one rail, d->sup is "", too. */
void mpib_config_device(const struct mpib_config *cfg, unsigned device,
			struct mpib_config_device *d);
/* Return the number of rails of all devices. */
unsigned mpib_config_rail_total(const struct mpib_config *cfg);
/* Return the number of the rail with this label, or -1. `label` has `len`
 * bytes, in upper or lower case. */
int mpib_config_rail_find(const struct mpib_config *cfg, const char *label,
			  size_t len);
/* Return the name of a rail's device. */
const char *mpib_config_rail_device(const struct mpib_config *cfg,
				    unsigned rail);

/* Write the value of the setting `s` into `buf`, in the syntax of a
 * configuration file. */
void mpib_config_value(const struct mpib_config *cfg,
		       const struct mpib_setting *s, char *buf, size_t len);
void mpib_config_env_name(const struct mpib_setting *s, char *buf, size_t len);
/* Print all settings as a configuration file, each with its origin. */
void mpib_config_dump(const struct mpib_config *cfg, FILE *out);

/* Return the source of a setting's value. mpib_config_given() returns whether
 * the value comes from a source other than the built-in values. Any thread. */
const char *mpib_config_origin(const struct mpib_config *cfg,
			       const char *section, const char *key);
bool mpib_config_given(const struct mpib_config *cfg, const char *section,
		       const char *key);
/* Set engine.cq_whole if quota.lanes was given, because that quota also limits
 * the QPs of a user. mpib_config_finish() calls this; call it again after
 * quota.lanes was set. */
void mpib_config_share_cqs(struct mpib_config *cfg);

/* The command line of mpib-proxy, read once at start-up. */

enum mpib_action {
	MPIB_ACTION_RUN,
	MPIB_ACTION_CHECK, /* --check-config */
	MPIB_ACTION_HELP,
	MPIB_ACTION_VERSION,
};

/*
 * Read every source of the configuration into `cfg`: the files of `dir` (or
 * only the --config file), then `env`, then `argv`. Before the call, `cfg` must
 * have the built-in values of mpib_config_init(). Returns 0, or -errno with
 * `why` as above. With MPIB_ACTION_HELP and MPIB_ACTION_VERSION, `cfg` is not
 * complete.
 */
int mpib_options_read(struct mpib_config *cfg, int argc, char **argv,
		      char **env, const char *dir, enum mpib_action *action,
		      char *why);

void mpib_options_help(FILE *out);

/* Only for this folder: the parts of mpib_config_finish(). They return 0, or
 * -errno with one line in `why`. */
int mpib_config_rails(struct mpib_config *cfg, char *why);
int mpib_config_policy(struct mpib_config *cfg, char *why);
/* Check that the proxy can serve [metrics], and that only authorized clients
 * can read it. */
int mpib_config_http(struct mpib_config *cfg, char *why);

#endif
