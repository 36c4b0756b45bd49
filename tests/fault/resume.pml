/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection whose proxies are killed. Rank S sends through proxy PS. Rank
 * R receives through proxy PR. Three sends match two receives. The first
 * receive is a group of two buffers. The second send waits for the second
 * receive while the third fills the group. KILLS is the number of kills. BREAKS
 * is the number of losses of the peer link. CUTS is the number of losses of a
 * lane at one end. These faults may happen at any step, even while a rank
 * resumes. tests/fault/resume_model runs the model. It also runs the model with
 * each of its bugs (BUG_*), which the search must find.
 *
 * The search checks these rules. A receive completes once, with the bytes of
 * its own send, and nothing is written into it afterwards. A send completes
 * after its receive, with the same result. A connect is paired with exactly one
 * end. The peer learns of a close. No request fails. Everything completes
 * (judge(), and no endless cycle of states).
 *
 * The state that outlives a proxy belongs to the rank: the requests (nsent,
 * nrecv), the completion words (word_s, word_r), and the records (rec) in reply
 * segments that stay mapped.
 */
#ifndef KILLS
#define KILLS 2
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#ifndef CUTS /* lanes lost while both proxies live */
#define CUTS 0
#endif
#define SENDS 3
#define RECVS 2
#define ALL_S 7
#define ALL_R 3
#define MOST (KILLS + CUTS + 3) /* maximum number of incarnations of an end */

#ifdef SINGLE_FIRST /* the receives are one buffer, then the group */
#define BUFS(g) (1 + (g))
#define CELL(g, b) ((g) + (b))
#define WANTED(cell) (cell)
#else /* the receives are the group, then one buffer */
#define BUFS(g) (2 - (g))
#define CELL(g, b) (2 * (g) + (b))
#define WANTED(cell) ((cell) == 0 -> 0 : 3 - (cell))
#endif
#define TAG(send) ((send) / 2) /* tags 0, 0, 1 */
/* The second buffer of the group has tag 1, the others have tag 0. */
#define BUF_TAG(b) (b)
#ifdef LARGE /* send 1 is larger than its buffer, so its receive is refused */
#define REFUSED(send) ((send) == 1)
#else
#define REFUSED(send) false
#endif

#if defined(BUG_HANGUP) || defined(BUG_NO_DRAIN)
#define GHOST
#endif

mtype = { OPEN, ACCEPT, WAITS, AGAIN, CLOSE, CLOSED };
/* States of an end of the connection in its proxy. NONE: the rank has not
 * created the end. LOST: the other end's proxy is gone, and this end will do
 * nothing more. */
mtype = { NONE, WAIT, LIVE, LOST };

/* Rank S: the library's memory and its mappings. */
byte nsent; /* number of sends posted */
/* bit per send: it completed; it completed with -EMSGSIZE */
byte word_s, refused_s;
/* 1 + the receive that a send answers. The record is in the reply segment that
 * the connection's thread used last. This segment stays mapped until the thread
 * swaps to the new end. */
byte rec[SENDS];
byte a; /* incarnation of this end */
/* the helper has attached; the connection's thread uses the new end */
bool att_s, swap_s;
/* The rank has closed the connection; the peer knows that. */
bool closing, forgot;

/* Rank R. */
byte nrecv;
byte word_r, refused_r; /* bit per receive: completed; refused */
byte cell[3]; /* memory of each buffer: 1 + the send whose bytes it holds */
byte b;
bool att_r, told_r, swap_r;
bool knows; /* the rank has the connection, not only a waiting accept */
bool heard; /* the peer's close has arrived */
#ifdef WINDOW
byte took; /* bit per receive: bytes copied out of the window */
#endif

/* Proxy PS. All of its state dies with the process. */
bool up_s = true;
mtype st_s = NONE;
byte b_of; /* incarnation of the other end with which `a` is paired */
byte base_s; /* number of the receive in slot 0 */
byte queue; /* bit per send: taken from the ring but not posted */
byte slot_s; /* slot that is being answered */
byte filled; /* bit per buffer of the slot: its send was posted */
/* the table: number of slots announced; receive in slot 0 */
byte cts, cts_base;
byte ack; /* number of slots completed, as the other end wrote it */
/* OPEN was sent on this link; CLOSE was sent; this is a new process */
bool sent_s, csent_s, fresh_s;
#ifdef BUG_RECORD_LATE
byte owes; /* 1 + the send whose record is still to be stored */
#endif
#ifdef BUG_HELPER_SWAPS
bool halfway;
#endif
#ifdef BUG_LOUD
bool failed; /* a request failed */
#endif
#ifdef BUG_BOOT
bool again_r; /* the handle was made by an earlier process */
#endif

/* Proxy PR. */
bool up_r = true;
mtype st_r = NONE;
byte a_of, base_r;
byte cts_r, acked_r;
byte arrived; /* bit per slot: the completion of its IMM is in the CQ */
byte refuse; /* bit per slot: the record refuses it */
byte offer; /* incarnation in a waiting OPEN; 0 means none */
byte paired; /* the last incarnation that was accepted */
bool listens, pclose, fresh_r;
bool sent_r; /* PR has reported on this link that it waits */

bool linked;
byte kills, breaks, cuts;
#ifdef STRANGER
bool strange;
#endif

/* Messages on the peer link to PR and to PS. An end notices a broken link late,
 * so it still reads what was sent before. */
chan to_r = [3] of { mtype, byte }; /* kind, a */
chan to_s = [3] of { mtype, byte, byte, byte }; /* kind, a, b, base */
/* Packets on the rail. Fields: the slot; the buffer, or 2 for the IMM; 1 + the
 * send, or for an IMM whether the receive is refused. */
chan net = [6] of { byte, byte, byte };

byte i, j, k; /* local to one step */
mtype kind;

#ifdef GHOST
chan gnet = [6] of { byte, byte, byte };
byte garrived, gbase;
#endif

inline drop_net()
{
	do
	:: nempty(net) -> net?_, _, _
	:: empty(net) -> break
	od
}

inline drop_to_s()
{
	do
	:: nempty(to_s) -> to_s?_, _, _, _
	:: empty(to_s) -> break
	od
}

inline drop_to_r()
{
	do
	:: nempty(to_r) -> to_r?_, _
	:: empty(to_r) -> break
	od
}

/* The first receive without a completion word. */
#define FIRST (!(word_r & 1) -> 0 : (!(word_r & 2) -> 1 : 2))

inline clear_s()
{
	queue = 0;
	slot_s = 0;
	filled = 0;
	ack = 0;
#ifndef BUG_SAME_TABLES
	cts = 0;
	cts_base = 0;
#endif
	base_s = 0;
	b_of = 0;
#ifdef BUG_RECORD_LATE
	owes = 0;
#endif
}

/* Move the lane's QPs to ERR. After this, nothing is posted, no bytes arrive,
 * and no word or record is written. */
inline stop_s()
{
	clear_s();
	st_s = LOST
}

inline to_ghost()
{
#ifdef GHOST
	gbase = base_r;
	do
	:: nempty(net) -> net?i, j, k;
		if
		:: nfull(gnet) -> gnet!i, j, k
		:: full(gnet)
		fi
	:: empty(net) -> break
	od;
	garrived = arrived;
	i = 0;
	j = 0;
	k = 0
#else
	skip
#endif
}

inline clear_r()
{
	drop_net();
	arrived = 0;
	refuse = 0;
	cts_r = 0;
	acked_r = 0;
	base_r = 0;
	a_of = 0
}

inline stop_r()
{
#ifdef BUG_NO_DRAIN
	to_ghost();
	garrived = 0;
#endif
	clear_r();
	sent_r = false;
	st_r = LOST
}

inline die_s()
{
	clear_s();
	cts = 0;
	cts_base = 0;
	st_s = NONE;
	up_s = false;
	att_s = false;
	sent_s = false;
	csent_s = false;
	fresh_s = false;
	fresh_r = up_r;
	linked = false;
	drop_to_s()
#ifdef BUG_LOUD
	;
	if
	:: swap_s && nsent && word_s != ALL_S -> failed = true
	:: else
	fi
#endif
}

inline die_r()
{
#ifdef BUG_HANGUP
	to_ghost();
#endif
	clear_r();
	st_r = NONE;
	up_r = false;
	att_r = false;
	told_r = false;
	offer = 0;
	paired = 0;
	sent_r = false;
	listens = false;
	pclose = false;
	fresh_r = false;
	fresh_s = up_s;
	linked = false;
	drop_to_r()
}

/* Complete send i from the rank's own records. */
inline end_by_record()
{
	word_s = word_s | (1 << i);
	if
#ifndef BUG_RECORD_WITHOUT_RESULT
	:: REFUSED(i) -> refused_s = refused_s | (1 << i)
#endif
	:: else
	fi;
	check_send()
}

/* Send i is complete. Check that its receive is complete, too, with the same
 * result. */
inline check_send()
{
	k = 0;
	do
	:: k < 3 && WANTED(k) != i -> k++
	:: else -> break
	od;
	/* Set `j` to the receive that has cell `k`. */
#ifdef SINGLE_FIRST
	j = (k > 0 -> 1 : 0);
#else
	j = k / 2;
#endif
	assert(word_r & (1 << j));
	assert(((refused_s >> i) & 1) == ((refused_r >> j) & 1));
	j = 0;
	k = 0
}

active proctype rank_s()
{
end:
	do
	/* The helper attaches: its proxy has ended and a new proxy runs. */
	:: d_step { up_s && !att_s && !forgot ->
		att_s = true;
		if
		:: !closing -> a++;
			assert(a <= MOST);
#ifdef BUG_UNMAP_RECORD
			rec[0] = 0;
			rec[1] = 0;
			rec[2] = 0;
#endif
			st_s = WAIT;
			swap_s = false
		:: else
		fi;
		i = 0 }
	/* The helper resumes: its proxy runs and reports that the peer's proxy
	 * is gone. */
	:: d_step { up_s && att_s && st_s == LOST && !closing ->
		a++;
		assert(a <= MOST);
		st_s = WAIT;
		swap_s = false;
		sent_s = false }
	/* The connection's thread swaps to the new end. */
#ifdef BUG_HELPER_SWAPS
	:: d_step { halfway -> swap_s = up_s && st_s == LIVE; halfway = false }
	:: d_step { up_s && att_s && st_s == LIVE && !swap_s && !halfway ->
		halfway = true;
#else
	:: d_step { up_s && att_s && st_s == LIVE && !swap_s ->
		swap_s = true;
#endif
		i = 0;
		do
		:: i < nsent ->
			if
			:: word_s & (1 << i)
			:: else ->
				if
				:: rec[i] && rec[i] - 1 < base_s ->
					end_by_record()
#ifdef BUG_REQUEST_LOST
				:: else
#else
				:: else -> queue = queue | (1 << i)
#endif
				fi
			fi;
			rec[i] = 0;
			i++
		:: else -> break
		od;
		i = 0 }
	/* The rank posts a send. If its proxy has died, the proxy does not take
	 * the send. */
#ifdef BUG_HELPER_SWAPS
	:: d_step { halfway && nsent < SENDS -> nsent++ }
#endif
	:: d_step { swap_s && nsent < SENDS ->
		if
		:: up_s && st_s == LIVE -> queue = queue | (1 << nsent)
		:: else
		fi;
		nsent++ }
	:: d_step { word_s == ALL_S && !closing -> closing = true;
#ifdef BUG_CLOSE_FORGOTTEN
		forgot = up_s && att_s
#endif
		}
	od
}

active proctype rank_r()
{
end:
	do
	/* Resume the connections before the listeners. */
#ifdef BUG_LISTEN_FIRST
	:: d_step { up_r && !att_r -> att_r = true; listens = true }
	:: d_step { up_r && att_r && !told_r ->
		told_r = true;
		if
		/* another accept has taken the connection */
		:: st_r != NONE -> assert(false)
		:: else
		fi;
#else
	:: d_step { up_r && !att_r ->
		att_r = true;
		told_r = true;
#endif
		assert(knows || nrecv == 0);
		if
		:: knows && !heard -> b++;
			assert(b <= MOST);
			st_r = WAIT;
			swap_r = false
		:: else
		fi;
		i = 0 }
	:: d_step { up_r && told_r && !listens -> listens = true }
	:: d_step { up_r && att_r && st_r == LOST && !heard ->
		b++;
		assert(b <= MOST);
		st_r = WAIT;
		swap_r = false }
	:: d_step { up_r && att_r && st_r == LIVE && !swap_r ->
		swap_r = true;
#ifdef WINDOW
#ifdef BUG_UNMAP
		if
		:: !(took & 1) -> cell[0] = 0
		:: else
		fi;
#endif
#endif
		/* A repeated receive starts at its first byte. */
		i = FIRST;
		do
		:: i < RECVS ->
			cell[CELL(i, 0)] = 0;
			if
			:: BUFS(i) == 2 -> cell[CELL(i, 1)] = 0
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0 }
	:: d_step { swap_r && nrecv < RECVS -> nrecv++ }
#ifdef WINDOW
	:: d_step { word_r & ~took ->
		i = (took & 1);
		if
		:: (refused_r >> i) & 1
		:: else -> assert(cell[CELL(i, 0)] == 1 + WANTED(CELL(i, 0)))
		fi;
		took = took | (1 << i);
		i = 0 }
#endif
	od
}

inline deliver_write(g)
{
	assert(g < nrecv);
	assert(!(word_r & (1 << (g)))); /* nothing is written after its end */
	cell[CELL(g, j)] = k
}

active proctype rail()
{
end:
	do
	:: d_step { nempty(net) && up_r && st_r == LIVE ->
		net?i, j, k;
		assert(i < cts_r);
		if
		:: j < 2 -> deliver_write(base_r + i)
		:: else -> arrived = arrived | (1 << i);
			refuse = refuse | (k << i)
		fi;
		i = 0;
		j = 0;
		k = 0 }
#ifdef GHOST
	:: d_step { nempty(gnet) ->
		gnet?i, j, k;
		if
		:: j < 2 -> deliver_write(gbase + i)
		:: else -> garrived = garrived | (1 << i)
		fi;
		i = 0;
		j = 0;
		k = 0 }
#endif
#ifdef BUG_HANGUP
	:: d_step { garrived & (1 << (FIRST - gbase)) && FIRST >= gbase ->
		garrived = garrived & ~(1 << (FIRST - gbase));
		word_r = word_r | (1 << FIRST) }
#endif
	od
}

/* The oldest waiting send with the buffer's tag, or SENDS if none waits. */
#define OLDEST(t) (t == 0 -> (queue & 1 -> 0 : (queue & 2 -> 1 : SENDS)) \
			  : (queue & 4 -> 2 : SENDS))

/* The QPs of both ends are connected to each other. */
#define CONNECTED (up_r && st_r == LIVE && a_of == a && b == b_of)

inline answer(buf)
{
	i = OLDEST(BUF_TAG(buf));
	queue = queue & ~(1 << i);
#ifdef BUG_RECORD_LATE
	owes = i + 1;
#else
	rec[i] = base_s + slot_s + 1;
#endif
	if
	:: !CONNECTED /* no end receives the packet */
	:: else ->
		if
		:: REFUSED(i) -> net!slot_s, 2, 1
		:: else -> net!slot_s, buf, i + 1
		fi
	fi;
	filled = filled | (1 << buf);
	if
	:: filled == (1 << BUFS(cts_base + slot_s)) - 1 ->
		if
		:: !CONNECTED || REFUSED(i)
		:: else -> net!slot_s, 2, 0
		fi;
		slot_s++;
		filled = 0
	:: else
	fi;
#ifdef BUG_EARLY_END
	word_s = word_s | (1 << i);
	check_send();
#endif
	i = 0
}

#define ANSWERS(buf) (up_s && st_s == LIVE && swap_s && slot_s < cts && \
		      buf < BUFS(cts_base + slot_s) &&                  \
		      !(filled & (1 << buf)) && OLDEST(BUF_TAG(buf)) < SENDS)
#ifdef BUG_RECORD_LATE
#define STORED (owes == 0)
#else
#define STORED true
#endif
#define OVER_AT_PEER(s) (up_s && st_s == LIVE && swap_s &&             \
			 rec[s] > base_s && rec[s] <= base_s + ack &&  \
			 !(word_s & (1 << s)))

inline finish(s)
{
	i = s;
	word_s = word_s | (1 << i);
	if
	:: REFUSED(i) -> refused_s = refused_s | (1 << i)
	:: else
	fi;
	check_send();
	i = 0
}

active proctype proxy_s()
{
end:
	do
	/* Shard: answer a slot. The record and the WR are one step, since a
	 * kill between them has the same effect as a loss of the WR. */
	:: d_step { STORED && ANSWERS(0) -> answer(0) }
	:: d_step { STORED && ANSWERS(1) -> answer(1) }
#ifdef BUG_RECORD_LATE
	:: d_step { owes -> rec[owes - 1] = base_s + slot_s +
			(filled == 0 -> 0 : 1); owes = 0 }
#endif
	:: d_step { OVER_AT_PEER(0) -> finish(0) }
	:: d_step { OVER_AT_PEER(1) -> finish(1) }
	:: d_step { OVER_AT_PEER(2) -> finish(2) }
	/* Control thread: send the OPEN. */
	:: d_step { up_s && linked && st_s == WAIT && !sent_s && nfull(to_r) ->
		sent_s = true;
		to_r!OPEN, a }
	:: d_step { up_s && linked && att_s && closing && !forgot && !csent_s &&
		    nfull(to_r) ->
		csent_s = true;
		to_r!CLOSE, 0 }
	:: d_step { up_s && nempty(to_s) ->
		to_s?kind, i, j, k;
		if
		:: kind == CLOSED -> forgot = true
		:: kind == AGAIN && st_s == WAIT && i == a -> stop_s()
		:: kind == WAITS && st_s == LIVE && j > b_of -> stop_s()
		:: kind == ACCEPT && st_s == WAIT && i == a ->
			st_s = LIVE;
			b_of = j;
			base_s = k
		:: kind == ACCEPT && st_s == LIVE && i == a && j > b_of ->
			stop_s()
		:: else
		fi;
		i = 0;
		j = 0;
		k = 0 }
	od
}

inline accept_offer()
{
	st_r = LIVE;
	a_of = offer;
	paired = offer;
	base_r = FIRST;
	tell_accept()
}

inline tell_accept()
{
	if
	:: linked -> to_s!ACCEPT, offer, b, base_r
	:: else /* the message is lost; it is repeated on the next link */
	fi;
	offer = 0
}

active proctype proxy_r()
{
end:
	do
	/* Shard: announce new receives, and receives that the rank posts again.
	 * The other end made its table before its OPEN. */
	:: d_step { up_r && st_r == LIVE && swap_r && base_r + cts_r < nrecv ->
		cts_r++;
		if
		:: up_s && a == a_of && (st_s == WAIT || st_s == LIVE) ->
			cts = cts_r;
			cts_base = base_r
		:: else
		fi;
		i = 0 }
	/* Shard: complete slots in order, each after its bytes have arrived. */
#ifdef BUG_OUT_OF_ORDER
	:: d_step { up_r && st_r == LIVE && arrived & 2 && base_r == 0 &&
		    !(word_r & 2) ->
		word_r = word_r | 2;
		arrived = arrived & ~2 }
#endif
	:: d_step { up_r && st_r == LIVE && FIRST < RECVS &&
		    arrived & (1 << (FIRST - base_r)) ->
		i = FIRST;
		if
		:: (refuse >> (i - base_r)) & 1 ->
			refused_r = refused_r | (1 << i)
		:: else ->
			assert(cell[CELL(i, 0)] == 1 + WANTED(CELL(i, 0)));
			assert(BUFS(i) == 1 || cell[CELL(i, 1)] ==
			       1 + WANTED(CELL(i, 1)))
		fi;
		word_r = word_r | (1 << i);
		arrived = arrived & ~(1 << (i - base_r));
		i = 0 }
	/* Shard: write the end-to-end ack after the completion word. */
#ifdef BUG_ACK_FIRST
#define ACKABLE (arrived & 1 && acked_r == 0 -> 1 : FIRST - base_r)
#else
#define ACKABLE (FIRST - base_r)
#endif
	:: d_step { up_r && st_r == LIVE && acked_r < ACKABLE ->
		acked_r = ACKABLE;
		if
		:: up_s && st_s == LIVE && CONNECTED ->
			ack = acked_r
		:: else
		fi;
		i = 0 }
	/* Control thread: handle a message. */
	:: d_step { up_r && nempty(to_r) ->
		to_r?kind, i;
		if
		:: kind == OPEN -> offer = i
		:: kind == CLOSE -> pclose = true
		fi;
		i = 0 }
	/* The rank must learn of the connection before the peer does. */
#ifdef BUG_BOOT
#define LISTENS (listens && !again_r)
#else
#define LISTENS listens
#endif
	:: d_step { up_r && offer && st_r == NONE && LISTENS && !heard &&
		    nfull(to_s) ->
#ifdef BUG_LISTEN_FIRST
		assert(!knows);
#endif
#ifdef BUG_ACCEPT_FIRST
		b++;
		accept_offer() }
	:: d_step { up_r && st_r == LIVE && !knows -> knows = true }
#else
		knows = true;
		b++;
		st_r = WAIT }
#endif
	:: d_step { up_r && offer && st_r == WAIT && nfull(to_s) ->
		if
#ifndef BUG_PAIRED_TWICE
		/* Ask the opener to open again: its table has entries of this
		 * end's previous incarnation. */
		:: offer <= paired ->
			if
			:: linked -> to_s!AGAIN, offer, 0, 0
			:: else
			fi;
			offer = 0
#endif
		:: else -> accept_offer()
		fi;
		i = 0 }
#ifndef BUG_WAITS_SILENTLY
	/* Report that this end waits: the opener may still be LIVE with this
	 * end's previous incarnation. */
	:: d_step { up_r && linked && st_r == WAIT && !offer && !sent_r &&
		    nfull(to_s) ->
		sent_r = true;
		to_s!WAITS, 0, b, 0 }
#endif
	:: d_step { up_r && offer && st_r == LIVE && nfull(to_s) ->
		if
#ifdef BUG_ANY_OPEN
		:: true -> tell_accept()
#else
		:: offer == a_of -> tell_accept() /* repeat the ACCEPT */
		:: offer > a_of -> stop_r()
		:: offer < a_of -> offer = 0 /* the OPEN is stale */
#endif
		fi;
		i = 0 }
	:: d_step { up_r && pclose && told_r && knows &&
		    (heard || st_r != NONE) && linked && nfull(to_s) ->
		assert(word_r == ALL_R);
		heard = true;
		clear_r();
		st_r = NONE;
		offer = 0;
		pclose = false;
		to_s!CLOSED, 0, 0, 0 }
	od
}

active proctype fate()
{
end:
	do
	:: d_step { up_s && kills < KILLS -> kills++; die_s(); i = 0 }
	:: d_step { up_r && kills < KILLS -> kills++; die_r(); i = 0 }
	:: d_step { !up_s -> up_s = true }
	:: d_step { !up_r -> up_r = true;
#ifdef BUG_BOOT
		again_r = true
#endif
		}
	:: d_step { linked && breaks < BREAKS -> breaks++; linked = false }
	/* One end loses its lane. */
	:: d_step { cuts < CUTS && st_s == LIVE -> cuts++; stop_s() }
	:: d_step { cuts < CUTS && st_r == LIVE -> cuts++; stop_r(); i = 0 }
	/* The link is connected again. Each end learns whether the other end is
	 * still the same process. An end also reads late messages of the old
	 * link. That does no harm if the other end is a new process: an ACCEPT
	 * names the id of its OPEN, and a new process has a new lane, table and
	 * id. */
	:: d_step { up_s && up_r && !linked ->
		linked = true;
		sent_s = false;
		csent_s = false;
		sent_r = false;
		if
		:: fresh_s ->
#ifndef BUG_ACCEPT_OF_OLD_LANE
			drop_to_s();
#endif
			if
			:: st_s == LIVE -> stop_s()
			:: st_s == WAIT -> clear_s()
			:: else
			fi
		:: else
		fi;
		if
		:: fresh_r && st_r == LIVE -> stop_r()
		:: else
		fi;
		fresh_s = false;
		fresh_r = false }
#ifdef STRANGER /* another node that knows the nonce */
	:: d_step { !strange && up_r && nfull(to_r) ->
		strange = true;
#ifdef BUG_STRANGER
		to_r!OPEN, MOST + 1
#endif
		}
#endif
	od
}

/* Processes may stop at their end labels, but only after this is true. */
active proctype judge()
{
	(word_s == ALL_S && word_r == ALL_R && heard && forgot);
#ifdef WINDOW
	took == ALL_R;
#endif
#ifdef BUG_LOUD
	assert(!failed)
#endif
}
