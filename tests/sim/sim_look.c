/* SPDX-License-Identifier: Apache-2.0 */
/* Count the objects of the proxies that serve clients. */
#include "peer/internal.h"
#include "proxy.h"
#include "sim_hca.h"
#include "sim_node.h"

bool sim_node_usage(unsigned node, struct sim_usage *u)
{
	const struct mpib_proxy *p = sim_node_real(node);

	if (!p)
		return false;
	*u = (struct sim_usage){
		.clients = p->clients.usage.clients,
		.regions = p->clients.usage.regions,
		.mapped = p->clients.usage.mapped,
		.connections = HASH_COUNT(p->broker->conns),
		.listeners = HASH_COUNT(p->broker->listeners),
	};
	return true;
}

bool sim_node_lacks(unsigned node)
{
	const struct mpib_proxy *p = sim_node_real(node);

	return p && !sim_nodes_stopping() && mpib_engine_lost(p->engine);
}

void sim_nodes_check_sums(void)
{
	for (unsigned n = 0; n < sim_node_count(); n++) {
		if (sim_node_up(n))
			sim_sums_check(sim_node_real(n));
	}
}

void sim_nodes_check_quotas(void)
{
	for (unsigned n = 0; n < sim_node_count(); n++) {
		if (sim_node_up(n))
			sim_sums_quotas(sim_node_real(n));
	}
}

void sim_nodes_check_bytes(uint64_t received)
{
	struct sim_bytes all[SIM_RAILS] = { 0 };

	for (unsigned n = 0; n < sim_node_count(); n++) {
		if (sim_node_up(n))
			sim_sums_add(sim_node_real(n)->engine, all);
	}
	sim_sums_compare(all, received);
}
