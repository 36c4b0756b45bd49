/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of an RDMA port and of its place in the machine: speed, width, link
 * layer, firmware, PCI link, IOMMU and the switches above it. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "doctor/doctor.h"
#include "verbs/verbs.h"

/* A PCI link that trained below the device's maximum limits its port. */
static void check_pci(struct mpib_doctor *d, const char *check, const char *dev)
{
	static const char *const what[] = { "speed", "width" };
	char now[64], max[64];

	for (unsigned i = 0; i < 2; i++) {
		if (!mpib_read_line(now, sizeof(now),
				    "%s/class/infiniband/%s/device/"
				    "current_link_%s",
				    d->sysfs, dev, what[i]) ||
		    !mpib_read_line(max, sizeof(max),
				    "%s/class/infiniband/%s/device/"
				    "max_link_%s",
				    d->sysfs, dev, what[i]) ||
		    !strcmp(now, max))
			continue;
		mpib_find(d, MPIB_WARN, check,
			  "reseat the card or use a slot with more lanes",
			  "PCI link of %s has %s %s of %s", dev, what[i], now,
			  max);
	}
}

/* The rate reads "100 Gb/sec (4X EDR)". A port that came up with one physical
 * lane (1X) of its four has a bad cable or connector. */
static void check_rate(struct mpib_doctor *d, const char *check,
		       const char *dev, unsigned port, uint64_t expected_mbps)
{
	char rate[64], layer[32] = "";
	double gbps;

	if (!mpib_read_line(rate, sizeof(rate),
			    "%s/class/infiniband/%s/ports/%u/rate", d->sysfs,
			    dev, port))
		return;
	mpib_read_line(layer, sizeof(layer),
		       "%s/class/infiniband/%s/ports/%u/link_layer", d->sysfs,
		       dev, port);
	gbps = strtod(rate, NULL);
	if (strstr(rate, "(1X "))
		mpib_find(d, MPIB_WARN, check,
			  "look at the cable and its connectors",
			  "%s came up with one lane: %s", dev, rate);
	else if (gbps * 1000 < (double)expected_mbps)
		mpib_find(d, MPIB_WARN, check,
			  "look at cable, optics and the switch's port, or "
			  "set [hca] speed",
			  "PORT AT %g of %g Gb/s: %s %s", gbps,
			  (double)expected_mbps / 1000, dev, rate);
	else
		mpib_find(d, MPIB_OK, check, NULL, "%s runs at %s%s%s", dev,
			  rate, *layer ? ", " : "", layer);
}

/* The PCI address that an IOMMU gives an HCA's DMA costs it lookups, unless the
 * domain of the device is the identity. */
static void check_iommu(struct mpib_doctor *d, const char *check,
			const char *dev)
{
	char type[32];

	if (mpib_read_line(type, sizeof(type),
			   "%s/class/infiniband/%s/device/iommu_group/type",
			   d->sysfs, dev) &&
	    !strncmp(type, "DMA", 3))
		mpib_find(d, MPIB_NOTE, check, "boot the kernel with iommu=pt",
			  "the IOMMU translates each DMA of %s (%s)", dev,
			  type);
}

#define PCI_EXT_CAPS 0x100
#define PCI_ACS 0x0d
#define ACS_CONTROL 6
#define ACS_REDIRECT 0x0c /* requests and completions between peers */

static uint32_t pci_word(const uint8_t *config, unsigned at, unsigned bytes)
{
	uint32_t word = 0;

	for (unsigned i = bytes; i-- > 0;)
		word = word << 8 | config[at + i];
	return word;
}

/* Whether the bridge whose configuration space is the file redirects what one
 * device below it sends to another up to the root. False where it cannot be
 * told: only root may read what follows the first 64 bytes. */
static bool acs_redirects(const char *file)
{
	uint8_t config[4096];
	FILE *f = fopen(file, "re");
	size_t n = f ? fread(config, 1, sizeof(config), f) : 0;
	unsigned at = PCI_EXT_CAPS;

	if (f)
		fclose(f);
	/* Capabilities are a list; a bad one may be a ring. */
	for (unsigned i = 0; i < 64 && at >= PCI_EXT_CAPS && at + 8 <= n; i++) {
		uint32_t head = pci_word(config, at, 4);

		if ((head & 0xffff) == PCI_ACS)
			return pci_word(config, at + ACS_CONTROL, 2) &
			       ACS_REDIRECT;
		at = head >> 20;
	}
	return false;
}

/* Every bridge above the device is a directory above the device's own. */
static void check_acs(struct mpib_doctor *d, const char *check, const char *dev)
{
	char path[PATH_MAX], file[PATH_MAX + 8], *slash;

	snprintf(file, sizeof(file), "%s/class/infiniband/%s/device", d->sysfs,
		 dev);
	if (!realpath(file, path))
		return;
	while ((slash = strrchr(path, '/')) && slash > path) {
		*slash = '\0';
		snprintf(file, sizeof(file), "%s/config", path);
		if (!acs_redirects(file))
			continue;
		mpib_find(d, MPIB_WARN, check,
			  "turn ACS off: in the firmware's settings, or by "
			  "setpci -s BRIDGE ECAP_ACS+6.w=0",
			  "ACS of bridge %s sends what %s and GPUs exchange "
			  "through the root",
			  strrchr(path, '/') + 1, dev);
		return;
	}
}

void mpib_check_port(struct mpib_doctor *d, const json_t *rail)
{
	char check[64], dev[64], fw[64];
	const char *spec = mpib_json_str(rail, "device"), *colon;
	unsigned port = 1;

	snprintf(check, sizeof(check), "rail %.48s",
		 mpib_json_str(rail, "label"));
	if (sscanf(spec, "rdma:%63[^:]", dev) != 1)
		return;
	colon = strchr(spec + strlen("rdma:"), ':');
	if (colon)
		port = (unsigned)strtoul(colon + 1, NULL, 10);
	check_rate(d, check, dev, port, mpib_json_num(rail, "expected_mbps"));
	check_pci(d, check, dev);
	check_iommu(d, check, dev);
	check_acs(d, check, dev);
	if (mpib_read_line(fw, sizeof(fw), "%s/class/infiniband/%s/fw_ver",
			   d->sysfs, dev))
		mpib_find(d, MPIB_OK, check, NULL, "%s has firmware %s", dev,
			  fw);
	if (mpib_json_num(rail, "mtu") < 4096)
		mpib_find(d, MPIB_WARN, check,
			  "raise the MTU of its network interface to 4200 or "
			  "more",
			  "%s has an RDMA MTU of %" PRIu64 ", not 4096", dev,
			  mpib_json_num(rail, "mtu"));
}

static bool port_about(const struct mpib_doctor *d, const json_t *rail,
		       const char *file, char *line, size_t len)
{
	char dev[64];

	return sscanf(mpib_json_str(rail, "device"), "rdma:%63[^:]", dev) ==
		       1 &&
	       mpib_read_line(line, len, "%s/class/infiniband/%s/%s", d->sysfs,
			      dev, file);
}

/* Tell of the first card of the same kind before the i-th rail's that has
 * another firmware. */
static bool other_firmware(struct mpib_doctor *d, size_t i)
{
	char board[2][64], fw[2][64];

	if (!port_about(d, json_array_get(d->rails, i), "board_id", board[0],
			sizeof(board[0])) ||
	    !port_about(d, json_array_get(d->rails, i), "fw_ver", fw[0],
			sizeof(fw[0])))
		return false;
	for (size_t j = 0; j < i; j++) {
		const json_t *rail = json_array_get(d->rails, j);

		if (!port_about(d, rail, "board_id", board[1],
				sizeof(board[1])) ||
		    !port_about(d, rail, "fw_ver", fw[1], sizeof(fw[1])) ||
		    strcmp(board[0], board[1]) != 0 || !strcmp(fw[0], fw[1]))
			continue;
		mpib_find(d, MPIB_WARN, "firmware", "update the older one",
			  "two cards of one kind (%s) have %s and %s", board[0],
			  fw[1], fw[0]);
		return true;
	}
	return false;
}

/* Cards of one kind (board_id) are to have one firmware. */
void mpib_check_firmware(struct mpib_doctor *d)
{
	bool told = false;

	for (size_t i = 1; !told && i < json_array_size(d->rails); i++)
		told = other_firmware(d, i);
}

/* A transfer over each rail's device to itself, on QPs of our own: the proxy
 * need not run, and its traffic goes on. */

#define LOOP_BYTES (256u << 10)
#define LOOP_WRITES 64u /* of them the last is signalled */
#define LOOP_LIMIT_NS UINT64_C(10000000000)

struct loop {
	struct mpib_rail_spec spec;
	const struct mpib_verbs *v;
	const char *call; /* what failed */
	struct mpib_port_info port;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[2];
	uint8_t *mem; /* what is sent, then where it arrives */
};

static void loop_close(struct loop *l)
{
	for (unsigned i = 0; i < 2; i++) {
		if (l->qp[i])
			l->v->destroy_qp(l->qp[i]);
	}
	if (l->mr)
		l->v->dereg_mr(l->mr);
	if (l->cq)
		l->v->destroy_cq(l->cq);
	if (l->pd)
		l->v->dealloc_pd(l->pd);
	if (l->ctx)
		l->v->close(l->ctx);
	free(l->mem);
}

/* Each call's name goes before it, for the message if it fails. */
static int loop_open(struct loop *l)
{
	struct ibv_qp_init_attr attr = { .cap = { .max_send_wr = LOOP_WRITES,
						  .max_recv_wr = 1,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	int rc;

	l->call = "ibv_open_device";
	rc = l->v->open(&l->spec, &l->ctx);
	if (rc < 0)
		return rc;
	l->call = "ibv_query_port";
	rc = l->v->query_port(l->ctx, l->spec.port, &l->port);
	if (rc < 0)
		return rc;
	l->call = "ibv_alloc_pd";
	rc = l->v->alloc_pd(l->ctx, &l->pd);
	if (rc < 0)
		return rc;
	l->call = "ibv_create_cq";
	rc = l->v->create_cq(l->ctx, LOOP_WRITES, NULL, NULL, &l->cq);
	if (rc < 0)
		return rc;
	l->call = "ibv_reg_mr";
	l->mem = calloc(2, LOOP_BYTES);
	if (!l->mem)
		return -ENOMEM;
	rc = l->v->reg_mr(l->pd, l->mem, (size_t)2 * LOOP_BYTES,
			  (uint64_t)(uintptr_t)l->mem,
			  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
			  &l->mr);
	attr.send_cq = attr.recv_cq = l->cq;
	for (unsigned i = 0; rc == 0 && i < 2; i++) {
		l->call = "ibv_create_qp";
		rc = l->v->create_qp(l->pd, &attr, &l->qp[i]);
	}
	return rc;
}

static int loop_connect(struct loop *l)
{
	int rc = 0;

	l->call = "ibv_modify_qp";
	for (unsigned i = 0; rc == 0 && i < 2; i++)
		rc = mpib_qp_init(l->v, l->qp[i], l->spec.port, 0,
				  IBV_ACCESS_REMOTE_WRITE);
	for (unsigned i = 0; rc == 0 && i < 2; i++) {
		struct ibv_qp_attr attr = {
			.path_mtu = l->port.mtu,
			.dest_qp_num = l->qp[!i]->qp_num,
			.min_rnr_timer = 12,
			.timeout = 14,
			.retry_cnt = 7,
			.rnr_retry = 7,
			.ah_attr = mpib_path_to_self(&l->port, l->spec.port, 0),
		};

		rc = mpib_qp_connect(l->v, l->qp[i], &attr);
	}
	return rc;
}

/* The completion of the last write: 0, or -errno with the call's name. */
static int loop_wait(struct loop *l, const char **status)
{
	uint64_t until = mpib_now_ns() + LOOP_LIMIT_NS;
	struct ibv_wc wc;
	int n;

	l->call = "ibv_poll_cq";
	while ((n = ibv_poll_cq(l->cq, 1, &wc)) == 0) {
		if (mpib_now_ns() > until)
			return -ETIMEDOUT;
		sched_yield();
	}
	if (n < 0)
		return -EIO;
	if (wc.status == IBV_WC_SUCCESS)
		return 0;
	*status = ibv_wc_status_str(wc.status);
	return -EIO;
}

/* Sets *ns to what the writes took. */
static int loop_move(struct loop *l, uint64_t *ns, const char **status)
{
	struct ibv_sge sge = { .addr = (uint64_t)(uintptr_t)l->mem,
			       .length = LOOP_BYTES,
			       .lkey = l->mr->lkey };
	uint64_t begin = mpib_now_ns();
	int rc;

	l->call = "ibv_post_send";
	for (unsigned i = 0; i < LOOP_WRITES; i++) {
		struct ibv_send_wr *bad, wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags =
				i + 1 == LOOP_WRITES ? IBV_SEND_SIGNALED : 0,
			.wr.rdma = { .remote_addr = sge.addr + LOOP_BYTES,
				     .rkey = l->mr->rkey },
		};

		rc = ibv_post_send(l->qp[0], &wr, &bad);
		if (rc)
			return -rc;
	}
	rc = loop_wait(l, status);
	*ns = mpib_now_ns() - begin;
	return rc;
}

static void loop_judge(struct mpib_doctor *d, const struct loop *l,
		       const char *check, const char *spec, uint64_t ns)
{
	double gbps = (double)LOOP_BYTES * LOOP_WRITES * 8 / (double)(ns | 1);
	bool slow = l->spec.provider == MPIB_PROVIDER_RDMA &&
		    gbps * 4000 < (double)l->port.speed_mbps;

	if (memcmp(l->mem, l->mem + LOOP_BYTES, LOOP_BYTES))
		mpib_find(d, MPIB_FAIL, check,
			  "take the card out of service, and see dmesg(1)",
			  "%s does not give back the bytes that were sent",
			  spec);
	else if (slow)
		mpib_find(d, MPIB_WARN, check,
			  "look at its PCI link, and whether a job uses it",
			  "%s moved 16 MiB to itself at %.1f of %g Gb/s", spec,
			  gbps, (double)l->port.speed_mbps / 1000);
	else
		mpib_find(d, MPIB_OK, check, NULL,
			  "%s moved 16 MiB to itself, right, at %.1f Gb/s",
			  spec, gbps);
}

static void loop_rail(struct mpib_doctor *d, const json_t *rail)
{
	const char *spec = mpib_json_str(rail, "device"), *status = NULL;
	char check[64], why[256];
	struct loop l = { 0 };
	uint64_t ns = 0;
	int rc;

	snprintf(check, sizeof(check), "loop %.48s",
		 mpib_json_str(rail, "label"));
	if (mpib_rail_spec_parse(spec, &l.spec, why, sizeof(why)) < 0) {
		mpib_find(d, MPIB_FAIL, check, "use mpibctl of its version",
			  "what rail the proxy has: %s", why);
		return;
	}
	l.v = mpib_verbs_of(&l.spec);
	rc = loop_open(&l);
	if (rc == 0)
		rc = loop_connect(&l);
	for (unsigned i = 0; rc == 0 && i < LOOP_BYTES; i++)
		l.mem[i] = (uint8_t)(i * 31 + (i >> 8));
	if (rc == 0)
		rc = loop_move(&l, &ns, &status);
	if (rc == 0) {
		loop_judge(d, &l, check, spec, ns);
	} else if (status) {
		mpib_find(d, MPIB_FAIL, check,
			  "see dmesg(1) and the counters of its port",
			  "%s cannot reach itself: %s", spec, status);
	} else {
		mpib_doctor_explain(d, check, &l.spec, l.call, rc);
	}
	loop_close(&l);
}

void mpib_check_loop(struct mpib_doctor *d)
{
	const json_t *rail;
	size_t i;

	json_array_foreach(d->rails, i, rail)
	{
		if (mpib_doctor_new_port(d, i))
			loop_rail(d, rail);
	}
}
