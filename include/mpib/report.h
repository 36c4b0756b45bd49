/* SPDX-License-Identifier: Apache-2.0 */
/* What one rail did for a request: mpib_request_rails() of mpib/client.h. */
#ifndef MPIB_REPORT_H
#define MPIB_REPORT_H

#include <stdint.h>

enum mpib_rail_state {
	MPIB_RAIL_IDLE, /* the rail carries nothing of the request */
	MPIB_RAIL_POSTED, /* bytes are under way, or a receive is announced */
	MPIB_RAIL_DONE, /* all that was posted so far is over */
};

struct mpib_rail_report {
	enum mpib_rail_state state;
	uint32_t qpn; /* the QP that the request used last */
	uint32_t bytes; /* posted (send), or that have arrived (receive) */
};

#endif
