/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all settings, and the built-in configuration. */
#include "config/config.h"

#include <mpib/agent.h>
#include <mpib/control.h>
#include <mpib/segment.h>

#include "peer/broker.h"
#include "peer/link.h"

#define FIELD(f)                                                               \
	offsetof(struct mpib_config, f), sizeof(((struct mpib_config *)0)->f)
#define QUOTA_TO(most, name, q, arg, text)                                     \
	{                                                                      \
		"quota", name, "quota-" name, MPIB_SET_SIZE,                   \
			FIELD(quota[MPIB_QUOTA_##q]), UINT_RUN(0, most, arg),  \
			text                                                   \
	}
#define QUOTA(name, q, arg, text) QUOTA_TO(INT64_MAX, name, q, arg, text)
#define UINT(lo, hi, a) lo, hi, NULL, false, a, NULL
#define TEXT(a) 0, 0, NULL, false, a, NULL
#define CHOICE(list, a) 0, 0, list, false, a, NULL
#define CHOICE_AS(list, a, env) 0, 0, list, false, a, env
/* The macros with _RUN are like the macros above, but the admin command `set`
 * may change the setting while the proxy runs. */
#define UINT_RUN(lo, hi, a) lo, hi, NULL, true, a, NULL
#define TEXT_RUN(a) 0, 0, NULL, true, a, NULL
#define CHOICE_RUN(list, a) 0, 0, list, true, a, NULL

static const char *const lanes[] = { "shared", "private", NULL };
static const char *const levels[] = { "error", "warn", "info", "debug", NULL };
static const char *const formats[] = { "text", "json", NULL };
static const char *const modes[] = { "vanilla", "advanced", "adaptive",
				     "static",	"auto",	    NULL };
static const char *const layouts[] = { "auto", "fused", "each", NULL };
static const char *const dmabuf[] = { "auto", "yes", "no", NULL };
static const char *const ar[] = { "auto", "on", "off", NULL };
static const char *const spreads[] = { "split", "spray", "dqplb", "auto",
				       NULL };
static const char *const completions[] = { "auto", "delivered", "wire", NULL };
static const char *const seccomps[] = { "no", "yes", "kill", NULL };
static const char *const places[] = { "all", "own", NULL };
static const char *const owners[] = { "none", "self", "all", NULL };
static const char *const no_yes[] = { "no", "yes", NULL };

/* Sections and keys are chosen so that MPIB_SECTION_KEY is the name of the
 * environment variable that users know, such as MPIB_SUP_BW. */
const struct mpib_setting mpib_settings[] = {
	{ "run", "dir", "run-dir", MPIB_SET_TEXT, FIELD(run_dir), TEXT("DIR"),
	  "run directory; default /run/mpib as root, else "
	  "$XDG_RUNTIME_DIR/mpib" },
	{ "run", "group", "run-group", MPIB_SET_TEXT, FIELD(run_group),
	  TEXT("NAME"), "group that may attach, if it exists" },
	{ "hca", "sout", "sout", MPIB_SET_TEXT, FIELD(sout), TEXT("SPEC"),
	  "scale-out rail: soft:IPv4, rdma:DEVICE[:PORT], auto, or soft" },
	{ "hca", "sup", "sup", MPIB_SET_TEXT, FIELD(sup), TEXT("SPEC"),
	  "scale-up rail, auto, or none" },
	{ "hca", "gid_net", "gid-net", MPIB_SET_TEXT, FIELD(gid_net),
	  TEXT("NET,..."),
	  "networks whose addresses RoCE ports prefer, as 10.1.0.0/16" },
	{ "hca", "dmabuf", "dmabuf", MPIB_SET_CHOICE, FIELD(engine.dmabuf),
	  CHOICE(dmabuf, "MODE"),
	  "use dma-bufs: auto, yes (do not start without them) or no" },
	{ "hca", "filter", "hca-filter", MPIB_SET_TEXT, FIELD(hca_filter),
	  TEXT("LIST"),
	  "ports for discovery, as in NCCL_IB_HCA: [^][=]NAME[:PORT],..." },
	{ "hca", "speed", "hca-speed", MPIB_SET_UINT, FIELD(expected_gbps),
	  UINT_RUN(0, 10000, "GBITS"),
	  "expected speed of each rail's port, in Gb/s; 0: do not compare" },
	{ "device", "layout", "device-layout", MPIB_SET_CHOICE, FIELD(layout),
	  CHOICE(layouts, "HOW"),
	  "how to group HCAs into devices: fused (pairs), each, or auto" },
	{ "peer", "addr", "peer-addr", MPIB_SET_TEXT, FIELD(peer_addr),
	  TEXT("ADDRESS[,ADDRESS]"),
	  "one or two addresses of the peer link, IPv4 or IPv6" },
	{ "peer", "port", "peer-port", MPIB_SET_UINT, FIELD(peer_port),
	  UINT(1, 65535, "PORT"), "TCP port of the peer link" },
	{ "peer", "networks", "peer-networks", MPIB_SET_TEXT,
	  FIELD(peer_networks), TEXT("LIST"),
	  "networks of peers: NET/BITS,..., auto (this node's own) or any" },
	{ "peer", "key_file", "peer-key-file", MPIB_SET_TEXT,
	  FIELD(peer_key_file), TEXT("FILE"),
	  "secret that all proxies of a cluster share" },
	{ "peer", "silence", "peer-silence", MPIB_SET_UINT, FIELD(silence),
	  UINT(MPIB_SILENCE_LEAST_S, 600, "SECONDS"),
	  "time after which the link to a silent peer is closed" },
	{ "resume", "grace", "resume-grace", MPIB_SET_UINT, FIELD(resume_grace),
	  UINT(0, 3600, "SECONDS"),
	  "how long connections wait for the next proxy; 0: fail at once" },
	{ "proxy", "threads", "threads", MPIB_SET_UINT, FIELD(engine.shards),
	  UINT(1, MPIB_SHARDS_MAX, "N"), "progress threads" },
	{ "proxy", "pin", "pin", MPIB_SET_CHOICE, FIELD(pin),
	  CHOICE(no_yes, "yes|no"),
	  "run threads on the NUMA node of their HCA" },
	{ "proxy", "daemon", "daemon", MPIB_SET_CHOICE, FIELD(daemon),
	  CHOICE(no_yes, NULL), "run in the background" },
	{ "proxy", "core", "core", MPIB_SET_CHOICE, FIELD(core),
	  CHOICE(no_yes, "yes|no"),
	  "allow core files, which contain users' data and the key" },
	{ "proxy", "seccomp", "seccomp", MPIB_SET_CHOICE, FIELD(seccomp),
	  CHOICE(seccomps, "yes|no|kill"),
	  "refuse system calls that the proxy does not need" },
	{ "log", "level", "log-level", MPIB_SET_CHOICE, FIELD(log_level),
	  CHOICE_RUN(levels, "LEVEL"), "error, warn, info or debug" },
	{ "log", "format", "log-format", MPIB_SET_CHOICE, FIELD(log_format),
	  CHOICE(formats, NULL), "format of the log: text or json" },
	{ "log", "events", "log-events", MPIB_SET_TEXT, FIELD(events_file),
	  TEXT("FILE"),
	  "file for events; auto: in $STATE_DIRECTORY or run.dir" },
	{ "lane", "mode", "lanes", MPIB_SET_CHOICE, FIELD(lanes),
	  CHOICE(lanes, "MODE"),
	  "shared: one lane per peer; private: one per connection" },
	{ "lane", "window", "lane-window", MPIB_SET_SIZE,
	  FIELD(engine.lane_window), UINT_RUN(4096, 1 << 30, "BYTES"),
	  "limit of the bytes in flight on each rail of a lane" },
	{ "lane", "spread", "lane-spread", MPIB_SET_CHOICE,
	  FIELD(engine.spread), CHOICE(spreads, "MODE"),
	  "how a rail's part uses its QPs: split, spray, dqplb or auto" },
	{ "lane", "frag", "lane-frag", MPIB_SET_SIZE, FIELD(engine.frag),
	  UINT(MPIB_FRAG_MIN, MPIB_FRAG_MAX, "BYTES"),
	  "largest part that is not spread over QPs" },
	{ "failover", "enable", "failover", MPIB_SET_CHOICE,
	  FIELD(engine.failover), CHOICE(no_yes, NULL),
	  "if one of two rails fails, use the other" },
	{ "failover", "hold_down", "failover-hold-down", MPIB_SET_UINT,
	  FIELD(engine.hold_ms), UINT(0, 600000, "MS"),
	  "how long a port must be up before its rail is used again" },
	{ "failover", "grace", "failover-grace", MPIB_SET_UINT,
	  FIELD(engine.grace_ms), UINT(0, 600000, "MS"),
	  "how long connections wait if all rails have failed" },
	{ "failover", "completion", "failover-completion", MPIB_SET_CHOICE,
	  FIELD(engine.completion), CHOICE(completions, "WHEN"),
	  "when a send completes: auto, delivered, or wire (no replay)" },
	{ "fault", "enable", "fault", MPIB_SET_CHOICE, FIELD(fault),
	  CHOICE(no_yes, "yes|no"),
	  "allow mpibctl fault to break the QPs of this node's rails" },
	{ "sout", "qp", "sout-qp", MPIB_SET_UINT,
	  FIELD(engine.qps[MPIB_RAIL_SOUT]), UINT(1, MPIB_QPS_MAX, "N"),
	  "QPs of a lane on SOUT" },
	{ "sup", "qp", "sup-qp", MPIB_SET_UINT,
	  FIELD(engine.qps[MPIB_RAIL_SUP]), UINT(1, MPIB_QPS_MAX, "N"),
	  "QPs of a lane on SUP" },
	{ "sup", "bw", "sup-bw", MPIB_SET_UINT, FIELD(engine.sup_bw),
	  UINT_RUN(0, 1024, "N"),
	  "SUP's share of the payload, in parts of 1024" },
	{ "policy", "mode", "mode", MPIB_SET_CHOICE, FIELD(mode),
	  CHOICE_AS(modes, "MODE", "MPIB_MODE"),
	  "vanilla (0), advanced (1), adaptive (2), static (3) or auto" },
	{ "policy", "bdp", "policy-bdp", MPIB_SET_SIZE, FIELD(engine.bdp),
	  UINT(0, 1 << 30, "BYTES"),
	  "advanced mode: smaller messages between islands use SOUT only" },
	{ "agent", "dir", "agent-dir", MPIB_SET_TEXT, FIELD(agent_dir),
	  TEXT("DIR"), "directory of the agent's socket and hints" },
	{ "agent", "user", "agent-user", MPIB_SET_TEXT, FIELD(agent_user),
	  TEXT("NAME"),
	  "user that may run the agent; root and the proxy's user may, too" },
	{ "island", "prefix", "island-prefix", MPIB_SET_UINT,
	  FIELD(island_prefix), UINT(0, 32, "BITS"),
	  "leading bits of SOUT's address that are equal in an island" },
	{ "island", "networks", "island-networks", MPIB_SET_TEXT,
	  FIELD(island_networks), TEXT("LIST"),
	  "networks of the islands: NET/BITS[+NET/BITS...],..." },
	{ "srq", "high", "srq-high", MPIB_SET_UINT, FIELD(engine.srq_high),
	  UINT(32, 32768, "N"), "receives in a full SRQ" },
	{ "qp", "sq_depth", "qp-sq-depth", MPIB_SET_UINT,
	  FIELD(engine.sq_depth), UINT(32, 16384, "N"),
	  "send queue entries of a QP" },
	{ "qp", "timeout", "qp-timeout", MPIB_SET_UINT, FIELD(engine.timeout),
	  UINT(1, 31, "N"), "ack timeout, 4.096 us * 2^N" },
	{ "qp", "retry_cnt", "qp-retry-cnt", MPIB_SET_UINT,
	  FIELD(engine.retry_cnt), UINT(0, 7, "N"), "retries after a timeout" },
	{ "qp", "traffic_class", "qp-traffic-class", MPIB_SET_INT,
	  FIELD(engine.traffic_class), UINT(-1, 255, "N"),
	  "traffic class of RoCE packets; -1: not given, use 0" },
	{ "qp", "traffic_classes", "qp-traffic-classes", MPIB_SET_TEXT,
	  FIELD(traffic_classes), TEXT("LIST"),
	  "classes that clients may ask for: any, none or N,..." },
	{ "qp", "service_level", "qp-service-level", MPIB_SET_INT,
	  FIELD(engine.service_level), UINT(-1, 15, "N"),
	  "service level; -1: traffic class on InfiniBand (1 to 15), else 0" },
	{ "qp", "pkey_index", "qp-pkey-index", MPIB_SET_UINT,
	  FIELD(engine.pkey_index), UINT(0, 65535, "N"),
	  "entry of the port's partition key table" },
	{ "qp", "ece", "qp-ece", MPIB_SET_CHOICE, FIELD(engine.ece),
	  CHOICE(no_yes, "yes|no"),
	  "negotiate vendor options that both ends have" },
	{ "ar", "mode", "ar-mode", MPIB_SET_CHOICE, FIELD(engine.ar),
	  CHOICE(ar, "MODE"),
	  "adaptive routing: auto (on InfiniBand), on or off" },
	{ "ar", "threshold", "ar-threshold", MPIB_SET_SIZE,
	  FIELD(engine.ar_threshold), UINT(0, INT32_MAX, "BYTES"),
	  "largest message sent without adaptive routing" },
	{ "client", "answer", "client-answer", MPIB_SET_UINT, FIELD(answer),
	  UINT(1, 3600, "SECONDS"),
	  "how long a client waits for the proxy's answer" },
	{ "client", "request_timeout", "client-request-timeout", MPIB_SET_UINT,
	  FIELD(request_timeout), UINT_RUN(0, 604800, "SECONDS"),
	  "age of a request at which its connection fails; 0: no limit" },
	{ "client", "connect_timeout", "client-connect-timeout", MPIB_SET_UINT,
	  FIELD(connect_timeout), UINT_RUN(1, 604800, "SECONDS"),
	  "time after which a connect fails if the peer does not accept" },
	{ "client", "window", "client-window", MPIB_SET_SIZE, FIELD(window),
	  UINT(4096, 1 << 30, "BYTES"), "staging memory of a connection" },
	{ "client", "part", "client-part", MPIB_SET_SIZE, FIELD(part),
	  UINT(128, 1 << 30, "BYTES"),
	  "largest part staged at once, a multiple of 128" },
	{ "client", "huge_pages", "client-huge-pages", MPIB_SET_CHOICE,
	  FIELD(huge_pages), CHOICE(no_yes, "yes|no"),
	  "use 2 MiB pages for staging memory while some are free" },
	{ "client", "own_memory", "client-own-memory", MPIB_SET_CHOICE,
	  FIELD(own_memory), CHOICE(owners, "WHO"),
	  "users that may register memfds: none, self (the proxy's) or all" },
	{ "limit", "clients", "limit-clients", MPIB_SET_UINT,
	  FIELD(max_clients), UINT_RUN(1, 65536, "N"), "processes attached" },
	{ "limit", "readers", "limit-readers", MPIB_SET_UINT,
	  FIELD(max_readers), UINT_RUN(1, 65536, "N"),
	  "connections to the stats socket" },
	QUOTA("clients", CLIENTS, "N", "processes of a user; 0: no limit"),
	QUOTA("connections", CONNECTIONS, "N", "connections of a user"),
	QUOTA("listeners", LISTENERS, "N", "listeners of a user"),
	QUOTA("lanes", LANES, "N", "lanes of a user to all peers"),
	QUOTA("regions", REGIONS, "N", "regions of a user"),
	QUOTA("memory", MEMORY, "BYTES",
	      "bytes registered by a user; 0: a quarter of the memory"),
	QUOTA("fds", FDS, "N",
	      "descriptors held for a user: 5 per process, 1 per region"),
	/* With this maximum, the quota times 10^9 ns fits into 64 bits. */
	QUOTA_TO(1000000000, "messages", MESSAGES, "N",
		 "control messages of a user per second"),
	{ "share", "rules", "share-rules", MPIB_SET_TEXT, FIELD(share_rules),
	  TEXT_RUN("LIST"),
	  "WHO:weight=N:limit=MBITS,...; WHO is uid=N, name=PATTERN or job=N" },
	{ "share", "limit", "share-limit", MPIB_SET_UINT, FIELD(share_limit),
	  UINT_RUN(0, MPIB_SHARE_LIMIT_MAX, "MBITS"),
	  "limit in Mb/s of a user without a rule; 0: no limit" },
	{ "share", "threads", "share-threads", MPIB_SET_CHOICE,
	  FIELD(share_threads), CHOICE(places, "all|own"),
	  "threads of a user's processes: all progress threads, or one (own)" },
	{ "share", "window", "share-window", MPIB_SET_SIZE,
	  FIELD(engine.share_window), UINT_RUN(0, 1 << 30, "BYTES"),
	  "limit of bytes in flight on a rail while users compete; 0: none" },
	{ "metrics", "listen", "metrics-listen", MPIB_SET_TEXT,
	  FIELD(metrics_listen), TEXT("ADDRESS:PORT"),
	  "address of HTTP for metrics and a live page; empty: no HTTP" },
	{ "metrics", "cert", "metrics-cert", MPIB_SET_TEXT, FIELD(metrics_cert),
	  TEXT("FILE"), "PEM certificate for HTTPS; needs key" },
	{ "metrics", "key", "metrics-key", MPIB_SET_TEXT, FIELD(metrics_key),
	  TEXT("FILE"), "PEM private key of the certificate" },
	{ "metrics", "token_file", "metrics-token-file", MPIB_SET_TEXT,
	  FIELD(metrics_token_file), TEXT("FILE"),
	  "file with the token that HTTP requests must carry" },
	{ "metrics", "hosts", "metrics-hosts", MPIB_SET_TEXT,
	  FIELD(metrics_hosts), TEXT("LIST"),
	  "names allowed in the Host header of a request" },
};

const unsigned mpib_settings_count =
	sizeof(mpib_settings) / sizeof(mpib_settings[0]);

_Static_assert(sizeof(mpib_settings) / sizeof(mpib_settings[0]) <=
		       MPIB_SETTINGS_MAX,
	       "MPIB_SETTINGS_MAX is too small");

void mpib_config_init(struct mpib_config *cfg)
{
	*cfg = (struct mpib_config){
		.run_group = "mpib",
		.peer_port = 24790,
		.mode = MPIB_MODE_AUTO,
		.peer_networks = "auto",
		.traffic_classes = "any",
		.agent_dir = MPIB_AGENT_DIR,
		.agent_user = "mpib-agent",
		.silence = MPIB_SILENCE_S,
		.answer = 10,
		.connect_timeout = MPIB_CONNECT_S,
		.resume_grace = 30,
		.log_level = 2,
		.events_file = "auto",
		.pin = 1,
		.seccomp = 1,
		.own_memory = MPIB_OWN_MEMORY_SELF,
		.window = 4 << 20,
		.part = 512 << 10,
		.max_clients = 1024,
		.quota = {
			[MPIB_QUOTA_CLIENTS] = 256,
			[MPIB_QUOTA_CONNECTIONS] = 65536,
			[MPIB_QUOTA_LISTENERS] = 16384,
			[MPIB_QUOTA_LANES] = 2048,
			[MPIB_QUOTA_REGIONS] = 1048576,
			[MPIB_QUOTA_FDS] = 16384,
			[MPIB_QUOTA_MESSAGES] = 50000,
		},
		.max_readers = 1000,
	};
	mpib_engine_config_init(&cfg->engine);
	for (unsigned i = 0; i < mpib_settings_count; i++)
		snprintf(cfg->origin[i], sizeof(cfg->origin[i]), "built-in");
}
