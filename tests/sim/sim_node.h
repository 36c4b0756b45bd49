/* SPDX-License-Identifier: Apache-2.0 */
/* The proxies of the nodes. They run the real code of mpib-proxy, except its
 * main(). */
#ifndef SIM_NODE_H
#define SIM_NODE_H

#include "sim_plan.h"
#include "sim_task.h"

struct mpib_engine;
struct mpib_proxy;

#define SIM_ARGV (SIM_ARGS + 11)

/* sim_args.c: make the command line of the node's proxies. */
void sim_args_make(const struct sim_plan *plan, unsigned node, const char *dir);
/* Write the command line to `argv`. Return the number of words. */
int sim_args(unsigned node, char **argv);

/* Start the proxies. The run directories of the nodes are real directories in
 * the current directory. */
void sim_nodes_start(const struct sim_plan *plan);
void sim_node_start(unsigned node);
unsigned sim_node_count(void);
/* Return the run directory. */
const char *sim_node_dir(unsigned node);
/* Return the process that serves clients, or NULL if there is none. */
struct sim_proc *sim_node_proxy(unsigned node);
/* Return the struct mpib_proxy of the proxy that serves clients. */
struct mpib_proxy *sim_node_real(unsigned node);
bool sim_node_up(unsigned node);
/* Return whether the node has lost a device. */
bool sim_node_lacks(unsigned node);
/* Return whether a proxy process exists on the node, in any state. */
bool sim_node_any(unsigned node);

/* How many objects of each kind a proxy has. Lanes are not counted, because
 * they stay open for later clients. */
struct sim_usage {
	unsigned clients, regions, connections, listeners;
	uint64_t mapped;
};
/* Count the objects of the proxy that serves clients. Return false if there is
 * none. */
bool sim_node_usage(unsigned node, struct sim_usage *u);
/* Kill all proxies of the node. */
void sim_node_kill(unsigned node);
/* Wait until a rank resumes at this node, and kill the proxy a moment later. */
void sim_node_trap(unsigned node);
/* sim_first.c calls this when a rank resumes at the node. */
void sim_node_resumes(unsigned node);
/* Send SIGTERM to all proxies of the node. */
void sim_node_term(unsigned node);
/* If `on` is set, the node's proxies are short of descriptors until the next
 * call, see sim_short(). */
void sim_node_short(unsigned node, bool on);
/* Return whether all proxies have ended. */
bool sim_nodes_over(void);
/* Send SIGTERM to all proxies. After this call, proxies are not started
 * again. */
void sim_nodes_stop(void);
bool sim_nodes_stopping(void);
/* sim_ask.c: send a command to the node's admin socket. The scheduler may call
 * this. */
void sim_node_tell(unsigned node, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Send the command to the stats socket of each node, and print the answers to
 * stderr. */
void sim_nodes_ask(const char *command);
/* sim_visit.c: sim_visit_stranger() lets a stranger from another node connect
 * to the node's peer port. sim_visit_tool() lets a tool query the node's stats
 * socket. Both send random messages. */
void sim_visit_stranger(unsigned node, unsigned from, uint64_t chance,
			unsigned most_ms);
void sim_visit_tool(unsigned node, uint64_t chance);
/* Let another program use the node's peer port for `ns` nanoseconds, at the
 * node's first address (`net` 0) or second address (`net` 1). */
void sim_visit_taken(unsigned node, unsigned net, uint64_t ns);
/* sim_liar.c: start a liar, which speaks the peer protocol but is not a
 * proxy. */
void sim_visit_liar(unsigned node, uint64_t chance);
bool sim_liars_came(void);
/* sim_sums.c: check that the proxy's counters equal the sums over its
 * objects. */
void sim_sums_check(const struct mpib_proxy *p);
/* Bytes of one rail, summed over all nodes. */
struct sim_bytes {
	uint64_t tx, rx, lost;
};
void sim_sums_add(const struct mpib_engine *engine, struct sim_bytes *all);
/* Check that each rail's received bytes are its sent bytes minus its lost
 * bytes. Check that the ranks received the sum of the rails' received bytes. */
void sim_sums_compare(const struct sim_bytes *all, uint64_t received);
/* Check that no user exceeds its quotas. */
void sim_sums_quotas(const struct mpib_proxy *p);
/* Make the checks above for all proxies that serve clients. */
void sim_nodes_check_sums(void);
void sim_nodes_check_quotas(void);
void sim_nodes_check_bytes(uint64_t received);

#endif
