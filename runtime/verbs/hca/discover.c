/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery: each device is asked by its own thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/hca/hca.h"
#include "verbs/rdma/internal.h"

#define PORTS_OF_ONE 4 /* more than any has */

struct hca_ports {
	unsigned n;
	struct mpib_rdma_port port[PORTS_OF_ONE];
};

static int run_ask(struct hca_job *job)
{
	struct hca_ports *ports = calloc(1, sizeof(*ports));

	if (!ports)
		return -ENOMEM;
	job->made = ports;
	ports->n = mpib_rdma_ask(&job->spec, ports->port, PORTS_OF_ONE);
	return 0;
}

static int end_ports(void *ports)
{
	free(ports);
	return 0;
}

static unsigned no_port(const struct mpib_rail_spec *spec,
			struct mpib_rdma_port *port, int error)
{
	*port = (struct mpib_rdma_port){ .port = 1, .error = error };
	memcpy(port->name, spec->name, sizeof(port->name));
	return 1;
}

/* Fill at most PORTS_OF_ONE of port. Returns how many. */
static unsigned ask_device(const struct mpib_rail_spec *spec,
			   struct mpib_rdma_port *port)
{
	struct hca_job *job = hca_job_new(NULL, "ibv_open_device", HCA_MAKES,
					  run_ask, end_ports);
	const struct hca_ports *ports;
	int rc = -ENOMEM;
	unsigned n;

	if (job) {
		job->spec = *spec;
		rc = hca_visit(&job);
	}
	if (rc < 0) {
		hca_job_end(job, rc);
		return no_port(spec, port, rc == -EIO ? -ETIMEDOUT : rc);
	}
	ports = job->made;
	n = ports->n;
	memcpy(port, ports->port, n * sizeof(*port));
	end_ports(job->made);
	hca_job_end(job, 0);
	return n;
}

int mpib_rdma_ports(struct mpib_rdma_port **port)
{
	struct mpib_rail_spec *spec = NULL;
	int devices = mpib_rdma_list(&spec), n = 0;

	if (devices > 0) {
		*port = calloc((size_t)devices * PORTS_OF_ONE, sizeof(**port));
		for (int i = 0; *port && i < devices; i++)
			n += (int)ask_device(&spec[i], *port + n);
		devices = *port ? n : -ENOMEM;
	}
	free(spec);
	return devices;
}
