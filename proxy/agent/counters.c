/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of this node's ports, from sysfs and of their network devices. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ethtool.h"
#include "agent/health.h"
#include "base/line.h"
#include "base/log.h"
#include "base/text.h"

#define NS 1000000000ull

static const char *const rail_word[MPIB_RAILS] = { "SOUT", "SUP" };

/* Read a file of the port into text. False, with errno. */
static bool counters_file(const struct mpib_agent_ports *p,
			  const struct mpib_agent_port *port, const char *name,
			  char *text, size_t len)
{
	errno = 0;
	if (mpib_read_line(text, len, "%.128s/class/infiniband/%s/ports/%u/%s",
			   p->sysfs, port->device, port->number, name))
		return true;
	if (errno == 0)
		errno = ENODATA;
	return false;
}

/* The statistics of a port's network device, read when a counter is not in
 * sysfs, once a look. */
struct counters_device {
	struct mpib_agent_ethtool stats;
	bool asked;
	int error; /* 0, or errno */
};

static bool counters_ethtool(const struct mpib_agent_ports *p,
			     const struct mpib_agent_port *port,
			     const char *counter, struct counters_device *dev,
			     uint64_t *n)
{
	char name[64];

	if (!dev->asked) {
		dev->asked = true;
		if (counters_file(p, port, "gid_attrs/ndevs/0", name,
				  sizeof(name)))
			dev->error =
				-mpib_agent_ethtool_read(&dev->stats, name);
		else
			dev->error = errno;
	}
	if (mpib_agent_ethtool_get(&dev->stats, counter, n))
		return true;
	errno = dev->error ? dev->error : ENOENT;
	return false;
}

/* Read a counter: of the port itself, which has ECN and CNP of its hardware, too,
 * or of its network device. */
static bool counters_read(const struct mpib_agent_ports *p,
			  const struct mpib_agent_port *port,
			  const char *counter, struct counters_device *dev,
			  uint64_t *n)
{
	static const char *const dir[] = { "counters", "hw_counters" };
	char name[80], text[32];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "%s/%s", dir[i], counter);
		if (!counters_file(p, port, name, text, sizeof(text)))
			continue;
		if (mpib_number(text, 0, UINT64_MAX, n))
			return true;
		errno = EPROTO;
		return false;
	}
	return counters_ethtool(p, port, counter, dev, n);
}

static void counters_object(struct mpib_agent_objection *t,
			    const struct mpib_agent_now *now, const char *why)
{
	if (!t->since)
		t->since = now->s;
	t->last_ns = now->ns;
	snprintf(t->why, sizeof(t->why), "%s", why);
}

/* More than the limit since the last look. */
static void counters_compare(struct mpib_agent_ports *p,
			     const struct mpib_agent_conf *c, unsigned i,
			     unsigned k, uint64_t n,
			     const struct mpib_agent_now *now)
{
	const struct mpib_agent_limit *limit = &c->limit[k];
	const struct mpib_agent_port *port = &c->port[i];
	const struct mpib_agent_port_seen *seen = &p->seen[i];
	uint64_t ns = now->ns - seen->at_ns, more = n - seen->n[k];
	char why[MPIB_AGENT_REASON];

	if (!seen->has[k] || n < seen->n[k] || ns == 0 ||
	    (double)more * (double)NS <= (double)limit->per_s * (double)ns)
		return;
	snprintf(why, sizeof(why), "%.24s/%u: %.32s %.0f/s", port->device,
		 port->number, limit->counter,
		 (double)more * (double)NS / (double)ns);
	counters_object(limit->congested ? &p->congested[port->rail]
					 : &p->sick[port->rail],
			now, why);
}

/* What a port says of itself: its state, its rate. False, with errno, if it
 * cannot be read. */
static bool counters_port(struct mpib_agent_ports *p,
			  const struct mpib_agent_port *port,
			  const struct mpib_agent_now *now)
{
	char why[MPIB_AGENT_REASON], text[64];

	if (!counters_file(p, port, "state", text, sizeof(text)))
		return false;
	if (!strstr(text, "ACTIVE")) {
		snprintf(why, sizeof(why), "%.24s/%u: state %.32s",
			 port->device, port->number, text);
		counters_object(&p->sick[port->rail], now, why);
	}
	if (!port->gbps)
		return true;
	if (!counters_file(p, port, "rate", text, sizeof(text)))
		return false;
	if (strtod(text, NULL) < (double)port->gbps) {
		snprintf(why, sizeof(why), "%.24s/%u: %.0f of %u Gb/s",
			 port->device, port->number, strtod(text, NULL),
			 (unsigned)port->gbps);
		counters_object(&p->sick[port->rail], now, why);
	}
	return true;
}

static void counters_look(struct mpib_agent_ports *p,
			  const struct mpib_agent_conf *c, unsigned i,
			  const struct mpib_agent_now *now)
{
	const struct mpib_agent_port *port = &c->port[i];
	struct mpib_agent_port_seen *seen = &p->seen[i];
	struct counters_device dev = { .asked = false };
	const char *what = "state and rate";
	bool ok = counters_port(p, port, now);
	int error = errno;

	for (unsigned k = 0; k < c->limits; k++) {
		uint64_t n = 0;
		bool has =
			counters_read(p, port, c->limit[k].counter, &dev, &n);

		if (has)
			counters_compare(p, c, i, k, n, now);
		else if (ok)
			what = c->limit[k].counter, error = errno;
		ok = ok && has;
		seen->has[k] = has;
		seen->n[k] = n;
	}
	mpib_agent_ethtool_free(&dev.stats);
	seen->at_ns = now->ns;
	if (!ok && !seen->told)
		mpib_warn("%s/%u: %s: %s (look into %.128s/class/infiniband)",
			  port->device, port->number, what, strerror(error),
			  p->sysfs);
	seen->told = !ok;
}

static void counters_recover(struct mpib_agent_objection *t,
			     const struct mpib_agent_conf *c,
			     const struct mpib_agent_now *now)
{
	if (t->since && now->ns - t->last_ns >= c->hold_s * NS)
		memset(t, 0, sizeof(*t));
}

void mpib_agent_ports_look(struct mpib_agent_ports *p,
			   const struct mpib_agent_conf *c,
			   const struct mpib_agent_now *now)
{
	bool sick[MPIB_RAILS];

	for (unsigned r = 0; r < MPIB_RAILS; r++)
		sick[r] = p->sick[r].since;
	for (unsigned i = 0; i < c->ports; i++)
		counters_look(p, c, i, now);
	for (unsigned r = 0; r < MPIB_RAILS; r++) {
		counters_recover(&p->sick[r], c, now);
		counters_recover(&p->congested[r], c, now);
		if (!sick[r] && p->sick[r].since)
			mpib_warn("%s is left: %s", rail_word[r],
				  p->sick[r].why);
		else if (sick[r] && !p->sick[r].since)
			mpib_info("%s is well again", rail_word[r]);
	}
}

void mpib_agent_ports_renew(struct mpib_agent_ports *p)
{
	memset(p->seen, 0, sizeof(p->seen));
}
