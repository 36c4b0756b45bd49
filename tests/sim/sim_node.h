/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes' proxies: the real mpib-proxy but for its main(). */
#ifndef SIM_NODE_H
#define SIM_NODE_H

#include "sim_plan.h"
#include "sim_task.h"

struct mpib_engine;
struct mpib_proxy;

#define SIM_ARGV (SIM_ARGS + 11)

/* sim_args.c: what the node's proxies are started with. */
void sim_args_make(const struct sim_plan *plan, unsigned node, const char *dir);
/* The same, in argv, and how many. */
int sim_args(unsigned node, char **argv);

/* The run directories are made in the present directory, a real one. */
void sim_nodes_start(const struct sim_plan *plan);
void sim_node_start(unsigned node);
unsigned sim_node_count(void);
/* The run directory. */
const char *sim_node_dir(unsigned node);
/* The process that serves; NULL: none does. */
struct sim_proc *sim_node_proxy(unsigned node);
/* The same, as the real code has it. */
struct mpib_proxy *sim_node_real(unsigned node);
bool sim_node_up(unsigned node);
/* It has lost a device. */
bool sim_node_lacks(unsigned node);
/* Any process of a proxy is there, whatever it does. */
bool sim_node_any(unsigned node);

/* Lanes stay for the next client. */
struct sim_usage {
	unsigned clients, regions, connections, listeners;
	uint64_t mapped;
};
/* What the proxy that serves has; false: none does. */
bool sim_node_usage(unsigned node, struct sim_usage *u);
/* Kill all that the node has of proxies. */
void sim_node_kill(unsigned node);
/* Kill it a moment after the next rank has gone on at it. */
void sim_node_trap(unsigned node);
void sim_node_resumes(unsigned node); /* a rank goes on there */
/* SIGTERM to all proxies that it has. */
void sim_node_term(unsigned node);
/* Its proxies are short of descriptors, see sim_short(); or not any more. */
void sim_node_short(unsigned node, bool on);
/* None runs any more. */
bool sim_nodes_over(void);
/* SIGTERM to all. From then on none may end in another way. */
void sim_nodes_stop(void);
bool sim_nodes_stopping(void);
/* sim_ask.c: a command for the admin socket, from the scheduler. */
void sim_node_tell(unsigned node, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* What the stats socket answers, to stderr, for each node. */
void sim_nodes_ask(const char *command);
/* sim_visit.c: a stranger from another node calls its peer port; a tool asks
 * its stats socket. What they say is by chance. */
void sim_visit_stranger(unsigned node, unsigned from, uint64_t chance,
			unsigned most_ms);
void sim_visit_tool(unsigned node, uint64_t chance);
/* The node's peer port is another program's for so long, at its first or second
 * address. */
void sim_visit_taken(unsigned node, unsigned net, uint64_t ns);
/* sim_liar.c: one who speaks the peer protocol, and is no proxy. */
void sim_visit_liar(unsigned node, uint64_t chance);
bool sim_liars_came(void);
/* sim_rehearse.c: operators' faults are those of a plan; its process has ended,
 * which ends what it played; how many there were. */
void sim_rehearse_by(const struct sim_plan *plan);
void sim_rehearse_ended(const struct sim_proc *proc);
unsigned sim_rehearsals(void);
/* sim_sums.c: what the proxy counts is what it has. */
void sim_sums_check(const struct mpib_proxy *p);
/* Bytes of a rail, of all nodes. */
struct sim_bytes {
	uint64_t tx, rx, lost;
};
void sim_sums_add(const struct mpib_engine *engine, struct sim_bytes *all);
/* What was sent over a rail and not lost was received over it, and all of it is
 * what ranks have. */
void sim_sums_compare(const struct sim_bytes *all, uint64_t received);
/* No user exceeds its quotas. */
void sim_sums_quotas(const struct mpib_proxy *p);
/* The same of all that serve. */
void sim_nodes_check_sums(void);
void sim_nodes_check_quotas(void);
void sim_nodes_check_bytes(uint64_t received);

#endif
