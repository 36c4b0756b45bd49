/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fence and replay between a sender (end 0) and a receiver (end 1). There are
 * two rails, two messages of two chunks each, and FAULTS faults at any moment.
 * The model of the fence follows runtime/failover/fence.c. The decision about
 * lost chunks follows stripes.h. The search checks four rules. No chunk is
 * received twice or lost. Nothing is written into a message that has completed
 * at the receiver. Both ends count the same epochs. No end waits forever (there
 * is no invalid end state). tests/fault/model runs it.
 */
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef CHUNKS
#define CHUNKS 4 /* 2 per message */
#endif
#define ALL ((1 << CHUNKS) - 1)

mtype = { FENCE, FENCED, RECONNECT, UP };
mtype = { LIVE, STOPPING, STOPPED, DOWN, RECONNECTING, PROBING };

typedef rail {
	mtype state = LIVE;
	byte epoch;
	bool err; /* the QP of this epoch is in ERR */
	bool there = true; /* the QP exists */
	bool peer_fenced, peer_reconnects, peer_up, probed;
	byte answer; /* bit per chunk that the peer has received */
};
typedef side { rail r[2]; };

side side_[2];
bool hurt[2]; /* the rail loses everything */
byte faults;

/* Sender. */
byte next; /* chunk to post */
byte pending, lost; /* bit per chunk */
byte carrier; /* bit per chunk: rail 0 or 1 */
/* Receiver. */
byte seen, over; /* bit per chunk; bit per message */

/* Capacity for every chunk once per epoch, and for every message of a fence. */
chan net0 = [CHUNKS] of { byte, byte }; /* epoch, chunk */
chan net1 = [CHUNKS] of { byte, byte };
chan ack0 = [CHUNKS] of { byte, byte };
chan ack1 = [CHUNKS] of { byte, byte };
chan cq0 = [CHUNKS] of { byte };
chan cq1 = [CHUNKS] of { byte };
/* Messages to end 0: kind, rail, epoch, chunks that the other end received. */
chan link0 = [6] of { mtype, byte, byte, byte };
chan link1 = [6] of { mtype, byte, byte, byte };

inline tell(e, what, rl, num, has)
{
	if
	:: e == 0 -> link1!what, rl, num, has
	:: else -> link0!what, rl, num, has
	fi
}

/*
 * Immediately drop packets that will have no effect, since they would add
 * states. If the receiver's QP is in ERR, it will refuse every outstanding
 * write on the rail. If the sender's QP is in ERR, every acknowledgement will
 * be ignored.
 */
inline forget(ch)
{
	do
	:: nempty(ch) -> ch?_, _
	:: empty(ch) -> break
	od
}

inline to_err(e, rl)
{
	side_[e].r[rl].err = true;
	if
	:: e == 1 && rl == 0 -> forget(net0)
	:: e == 1 && rl == 1 -> forget(net1)
	:: e == 0 && rl == 0 -> forget(ack0)
	:: e == 0 && rl == 1 -> forget(ack1)
	fi
}

inline stop(e, rl)
{
	to_err(e, rl);
	side_[e].r[rl].state = STOPPING
}

/* DOWN also stands for REPLAYING, since this end makes its part of the replay
 * in one step. */
inline complete(e, rl)
{
	side_[e].r[rl].state = DOWN;
	side_[e].r[rl].there = false;
	side_[e].r[rl].epoch++;
	side_[e].r[rl].peer_fenced = false;
	side_[e].r[rl].peer_reconnects = false;
	side_[e].r[rl].peer_up = false;
	side_[e].r[rl].probed = false;
	if
	:: e == 0 ->
		/* Chunks are lost if this rail carried them and the receiver
		 * does not have them. */
		lost = lost | (pending & ~side_[0].r[rl].answer &
			       (rl == 1 -> carrier : ~carrier) & ALL);
		pending = pending & ~((rl == 1 -> carrier : ~carrier) & ALL &
				      side_[0].r[rl].answer)
	:: else
	fi;
	side_[e].r[rl].answer = 0
}

inline connect(e, rl)
{
	if
	:: side_[e].r[rl].state == RECONNECTING && side_[e].r[rl].peer_reconnects ->
		side_[e].r[rl].state = PROBING;
		side_[e].r[rl].there = true;
		side_[e].r[rl].err = false
	:: else
	fi
}

inline resume(e, rl)
{
	if
	:: side_[e].r[rl].state == PROBING && side_[e].r[rl].probed &&
	   side_[e].r[rl].peer_up -> side_[e].r[rl].state = LIVE
	:: else
	fi
}

inline message(e, what, rl, num, has)
{
	assert(num == side_[e].r[rl].epoch);
	if
	:: what == FENCE ->
		if
		:: side_[e].r[rl].state != STOPPING &&
		   side_[e].r[rl].state != STOPPED -> stop(e, rl)
		:: else
		fi
	:: what == FENCED ->
		assert(!side_[e].r[rl].peer_fenced);
		side_[e].r[rl].peer_fenced = true;
		side_[e].r[rl].answer = has;
		if
		:: side_[e].r[rl].state == STOPPED -> complete(e, rl)
		:: side_[e].r[rl].state == STOPPING
		:: else -> stop(e, rl)
		fi
	:: what == RECONNECT ->
		side_[e].r[rl].peer_reconnects = true;
		connect(e, rl)
	:: what == UP ->
		side_[e].r[rl].peer_up = true;
		resume(e, rl)
	fi
}

/* The steps of the fence on one rail at one end. */
inline steps(e, rl, flushed, has)
{
	if
	:: (side_[e].r[rl].state == LIVE || side_[e].r[rl].state == PROBING) &&
	   (side_[e].r[rl].err || hurt[rl]) ->
		stop(e, rl);
		tell(e, FENCE, rl, side_[e].r[rl].epoch, 0)
	:: side_[e].r[rl].state == STOPPING && flushed ->
		tell(e, FENCED, rl, side_[e].r[rl].epoch, has);
		side_[e].r[rl].state = STOPPED;
		if
#ifdef HASTY /* a bug that the check must find */
		:: e == 0 && !side_[e].r[rl].peer_fenced -> complete(e, rl)
#endif
		:: side_[e].r[rl].peer_fenced -> complete(e, rl)
		:: else
		fi
	:: side_[e].r[rl].state == DOWN && !hurt[rl] ->
		tell(e, RECONNECT, rl, side_[e].r[rl].epoch, 0);
		side_[e].r[rl].state = RECONNECTING;
		connect(e, rl)
	:: side_[e].r[rl].state == PROBING && !side_[e].r[rl].probed &&
	   !hurt[rl] && !side_[e].r[rl].err ->
		side_[e].r[rl].probed = true;
		tell(e, UP, rl, side_[e].r[rl].epoch, 0);
		resume(e, rl)
	fi
}

inline put(rl, c)
{
	if
	:: rl == 0 -> carrier = carrier & ~(1 << c);
		if
		:: side_[1].r[0].err || side_[0].r[0].err
		:: else -> net0!side_[0].r[0].epoch, c
		fi
	:: else -> carrier = carrier | (1 << c);
		if
		:: side_[1].r[1].err || side_[0].r[1].err
		:: else -> net1!side_[0].r[1].epoch, c
		fi
	fi
}

inline take_ack(rl, ch)
{
	ch?ep, c;
	if
	:: !side_[0].r[rl].err && ep == side_[0].r[rl].epoch ->
		pending = pending & ~(1 << c)
	:: else
	fi;
	c = 0;
	ep = 0
}

active proctype sender()
{
	byte c, rl, ep, have;
	mtype kind;

end:
	do
	:: d_step { nempty(link0) -> link0?kind, rl, ep, have;
		message(0, kind, rl, ep, have);
		rl = 0; ep = 0; have = 0 }
	:: atomic { steps(0, 0, true, 0) }
	:: atomic { steps(0, 1, true, 0) }
	:: d_step { nempty(ack0) -> take_ack(0, ack0) }
	:: d_step { nempty(ack1) -> take_ack(1, ack1) }
	:: atomic { lost && (side_[0].r[0].state == LIVE ||
			     side_[0].r[1].state == LIVE) ->
		c = 0;
		do
		:: lost & (1 << c) -> break
		:: else -> c++
		od;
		lost = lost & ~(1 << c);
		if
		:: side_[0].r[0].state == LIVE -> put(0, c)
		:: side_[0].r[1].state == LIVE -> put(1, c)
		fi;
		c = 0 }
	:: atomic { !lost && next < CHUNKS &&
		    side_[0].r[0].state == LIVE ->
		pending = pending | (1 << next); put(0, next); next++ }
	:: atomic { !lost && next < CHUNKS &&
		    side_[0].r[1].state == LIVE ->
		pending = pending | (1 << next); put(1, next); next++ }
	od
}

inline see(ch)
{
	ch?c;
	assert(!(seen & (1 << c)));
	seen = seen | (1 << c);
	if
	:: (seen >> (c & ~1) & 3) == 3 -> over = over | (1 << (c / 2))
	:: else
	fi;
	c = 0
}

active proctype receiver()
{
	byte c, rl, ep, have;
	mtype kind;

end:
	do
	:: d_step { nempty(link1) -> link1?kind, rl, ep, have;
		message(1, kind, rl, ep, have);
		rl = 0; ep = 0; have = 0 }
	/* The rail is flushed if no completion is pending: a QP in ERR gets no
	 * further completion. */
	:: atomic { steps(1, 0, (len(cq0) == 0), seen) }
	:: atomic { steps(1, 1, (len(cq1) == 0), seen) }
	:: d_step { nempty(cq0) -> see(cq0) }
	:: d_step { nempty(cq1) -> see(cq1) }
	od
}

inline deliver(rl, ch, cq, ack)
{
	ch?ep, c;
	if
	:: side_[1].r[rl].there && !side_[1].r[rl].err &&
	   ep == side_[1].r[rl].epoch ->
		assert(!(over & (1 << (c / 2))));
		cq!c;
		if
		:: side_[0].r[rl].err
		:: else -> ack!ep, c
		fi
	:: else /* the receiver's QP refuses the write */
	fi;
	c = 0;
	ep = 0
}

active proctype network()
{
	byte c, ep;

end:
	do
	:: d_step { !hurt[0] && nempty(net0) -> deliver(0, net0, cq0, ack0) }
	:: d_step { !hurt[1] && nempty(net1) -> deliver(1, net1, cq1, ack1) }
	od
}

active proctype fate()
{
end:
	do
	:: d_step { faults < FAULTS && !hurt[0] -> hurt[0] = true; faults++ }
	:: d_step { faults < FAULTS && !hurt[1] -> hurt[1] = true; faults++ }
	:: d_step { faults < FAULTS && side_[0].r[0].state == LIVE ->
		to_err(0, 0); faults++ }
	:: d_step { faults < FAULTS && side_[1].r[0].state == LIVE ->
		to_err(1, 0); faults++ }
	:: hurt[0] -> hurt[0] = false
	:: hurt[1] -> hurt[1] = false
	od
}

/* Processes may stop at their end labels, but only after all chunks were
 * received. */
active proctype judge()
{
	(seen == ALL && pending == 0 && lost == 0 && next == CHUNKS)
}
