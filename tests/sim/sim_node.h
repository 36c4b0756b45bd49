/* SPDX-License-Identifier: Apache-2.0 */
/* The proxies of the nodes: the real mpib-proxy without its main(). */
#ifndef SIM_NODE_H
#define SIM_NODE_H

#include "sim_plan.h"
#include "sim_task.h"

struct mpib_engine;
struct mpib_proxy;

#define SIM_ARGV (SIM_ARGS + 11)

/* sim_args.c: make the command line of the node's proxies. */
void sim_args_make(const struct sim_plan *plan, unsigned node, const char *dir);
/* Write it to argv. Return the number of words. */
int sim_args(unsigned node, char **argv);

/* Start the proxies. Their run directories are real ones in the current
 * directory. */
void sim_nodes_start(const struct sim_plan *plan);
void sim_node_start(unsigned node);
unsigned sim_node_count(void);
/* Return the run directory. */
const char *sim_node_dir(unsigned node);
/* Return the serving process, or NULL if none serves. */
struct sim_proc *sim_node_proxy(unsigned node);
/* Return the proxy as the real code sees it. */
struct mpib_proxy *sim_node_real(unsigned node);
bool sim_node_up(unsigned node);
/* Return whether the node has lost a device. */
bool sim_node_lacks(unsigned node);
/* Return whether the node has any process of a proxy, no matter in which
 * state. */
bool sim_node_any(unsigned node);

/* Numbers of objects. Lanes are not counted, since they stay open for the next
 * client. */
struct sim_usage {
	unsigned clients, regions, connections, listeners;
	uint64_t mapped;
};
/* Get the objects of the serving proxy. Return false if none serves. */
bool sim_node_usage(unsigned node, struct sim_usage *u);
/* Kill all proxies of the node. */
void sim_node_kill(unsigned node);
/* Kill the proxy a moment after the next rank has resumed there. */
void sim_node_trap(unsigned node);
/* Note that a rank resumes at the node. */
void sim_node_resumes(unsigned node);
/* Send SIGTERM to all proxies of the node. */
void sim_node_term(unsigned node);
/* Make the node's proxies short of descriptors, see sim_short(). Or end
 * that. */
void sim_node_short(unsigned node, bool on);
/* Return whether no proxy runs any more. */
bool sim_nodes_over(void);
/* Send SIGTERM to all proxies. After this call a proxy may end only because of
 * it. */
void sim_nodes_stop(void);
bool sim_nodes_stopping(void);
/* sim_ask.c: send a command to the admin socket, from the scheduler. */
void sim_node_tell(unsigned node, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Print each node's answer of the stats socket to stderr. */
void sim_nodes_ask(const char *command);
/* sim_visit.c: let a stranger from another node connect to the node's peer
 * port. A second function lets a tool query its stats socket. Both send random
 * messages. */
void sim_visit_stranger(unsigned node, unsigned from, uint64_t chance,
			unsigned most_ms);
void sim_visit_tool(unsigned node, uint64_t chance);
/* Let another program hold the node's peer port for this time, at the node's
 * first or second address. */
void sim_visit_taken(unsigned node, unsigned net, uint64_t ns);
/* sim_liar.c: start a program that uses the peer protocol but is not a
 * proxy. */
void sim_visit_liar(unsigned node, uint64_t chance);
bool sim_liars_came(void);
/* sim_rehearse.c: set the plan whose faults operators inject, end the faults of
 * a process that has ended, and return the number of injected faults. */
void sim_rehearse_by(const struct sim_plan *plan);
void sim_rehearse_ended(const struct sim_proc *proc);
unsigned sim_rehearsals(void);
/* sim_sums.c: check that the proxy's counters agree with its objects. */
void sim_sums_check(const struct mpib_proxy *p);
/* The bytes of a rail, summed over all nodes. */
struct sim_bytes {
	uint64_t tx, rx, lost;
};
void sim_sums_add(const struct mpib_engine *engine, struct sim_bytes *all);
/* Check that bytes that were sent over a rail and not lost were received over
 * it, and that the ranks have all of them. */
void sim_sums_compare(const struct sim_bytes *all, uint64_t received);
/* Check that no user exceeds its quotas. */
void sim_sums_quotas(const struct mpib_proxy *p);
/* Check this for all serving proxies. */
void sim_nodes_check_sums(void);
void sim_nodes_check_quotas(void);
void sim_nodes_check_bytes(uint64_t received);

#endif
