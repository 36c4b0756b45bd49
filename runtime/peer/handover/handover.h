/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a broker is handed over to the broker of another process: lanes,
 * listeners and connections. To peers a hand-over is a link that breaks: the
 * new process calls them, and lists with the rest where the tables are now.
 * engine/handover/handover.h does the engine's part.
 * Control thread.
 */
#ifndef MPIB_PEER_HANDOVER_H
#define MPIB_PEER_HANDOVER_H

#include "base/serial.h"
#include "peer/broker.h"

/* on: hold the connects under way, and take back their CONN_OPENs. Off: begin
 * the held ones again. */
void mpib_broker_hold(struct mpib_broker *b, bool on);

/*
 * Whether the broker can be handed over now. 0: yes; -EAGAIN: not yet, why
 * names what is still under way; -EBUSY: not at all, why says what helps. Kills
 * lanes that no connection uses and that cannot be handed over.
 */
int mpib_broker_quiescent(struct mpib_broker *b, char *why, size_t why_len);
/*
 * What takes too long until that is so, or until mpib_engine_left(): end the lanes
 * that wait for their peer, if they do not come up, have a connection that does not
 * come to its end, or a connect or rails that it does not answer for. A connect is
 * held then. Where only connects or rails are waited for, a lane with a connection
 * that is ready is ended by force alone, and for rails when it is late.
 */
void mpib_broker_press(struct mpib_broker *b);
void mpib_broker_press_fences(struct mpib_broker *b, bool late);
/* Which peer has not stopped its end of the rails, and what helps. */
void mpib_broker_fences_why(const struct mpib_broker *b, char *why,
			    size_t why_len);
/* By force, when that still has not come to its end: no peer begins anything while
 * it is on, but waits to be let in, or has its lane refused. */
void mpib_broker_shut(struct mpib_broker *b, bool on);
/* An operator has it so: what cannot be handed over is ended, until
 * mpib_broker_hold() is off. */
void mpib_broker_force(struct mpib_broker *b);

/* The client of that engine client id, or NULL. */
typedef struct peer_client *peer_client_fn(void *arg, uint32_t client);

/* Serialize the broker. Packing leaves it in use here. Unpacking goes into a
 * broker that was opened idle; p fails with a text if it cannot be done. */
void mpib_broker_serialize(struct mpib_serial *p, struct mpib_broker *b,
			   peer_client_fn *by_id, void *arg);

/* In the process that took over: listen, take callers, call all peers, and
 * begin the held connects again. 0 or
 * -errno. */
int mpib_broker_go_on(struct mpib_broker *b);

#endif
