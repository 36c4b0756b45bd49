/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process adds work while another goes to sleep, on processors that delay
 * their stores. Each processor has a store buffer. At any moment, the oldest
 * store in a buffer may move to memory; with PSO, the oldest store to any word
 * may. A read-modify-write and a system call wait until the buffer is empty. A
 * load reads the processor's own buffer before memory. The search checks two
 * rules. No process sleeps forever while there is work (there is no invalid end
 * state). No eventfd stays set without a process that will read it.
 *
 * SLEEP  mpib_summary_tell() and mpib_shard_sleeps(), include/mpib/segment.h
 * BELL   mpib_bell_ring() and mpib_bell_heard(), runtime/base/bell.c
 * LOCK   notify() and arm(), runtime/verbs/soft/soft_cq.c
 *
 * WITHOUT_TELL and WITHOUT_DOZE remove the ordering of one side. HASTY clears
 * the word of a bell whose eventfd is not written yet. tests/litmus/model runs
 * this model.
 */
#ifndef EACH
#define EACH 2 /* number of pieces of work of each teller */
#endif
#define TELLERS 2
#define OWNER TELLERS
#define ROOM 4

/* Numbers of the words: the work of each teller, then the words of the
 * pattern. */
#define FLAG TELLERS /* sleeping, dirty, or armed */
#define HELD (TELLERS + 1) /* the lock */
#define WORDS (TELLERS + 2)

typedef buffer {
	byte word[ROOM];
	byte value[ROOM];
	byte n;
};

byte memory[WORDS];
buffer kept[TELLERS + 1];
byte count; /* value of the eventfd */
/* number of processes that have set the bell's word but have not written yet */
byte writing;

inline store(by, at, to)
{
	d_step {
		assert(kept[by].n < ROOM);
		kept[by].word[kept[by].n] = at;
		kept[by].value[kept[by].n] = to;
		kept[by].n++
	}
}

inline load(by, at, old)
{
	d_step {
		old = memory[at];
		i = 0;
		do
		:: i < kept[by].n ->
			if
			:: kept[by].word[i] == at -> old = kept[by].value[i]
			:: else
			fi;
			i++
		:: else -> break
		od;
		i = 0
	}
}

#define empty_buffer(by) (kept[by].n == 0)

inline swap(by, at, to, old)
{
	d_step {
		empty_buffer(by) -> old = memory[at];
		memory[at] = to
	}
}

inline kernel_write(by)
{
	d_step { empty_buffer(by) -> count = 1 }
}

inline lock(who)
{
	d_step { empty_buffer(who) && memory[HELD] == 0 -> memory[HELD] = 1 }
}

/* A release store: earlier stores are visible before it, even with PSO. */
inline unlock(who)
{
#ifdef PSO
	empty_buffer(who);
#endif
	store(who, HELD, 0)
}

/* Entry `which` of the buffer moves to memory. */
inline leave(from, which)
{
	d_step {
		memory[kept[from].word[which]] = kept[from].value[which];
		i = which;
		do
		:: i + 1 < kept[from].n ->
			kept[from].word[i] = kept[from].word[i + 1];
			kept[from].value[i] = kept[from].value[i + 1];
			i++
		:: else -> break
		od;
		kept[from].n--;
		kept[from].word[kept[from].n] = 0;
		kept[from].value[kept[from].n] = 0;
		i = 0
	}
}

#define first_of(p) (kept[p].n > 0)
#define second_of(p)                                                           \
	(kept[p].n > 1 && kept[p].word[1] != kept[p].word[0])
#define third_of(p)                                                            \
	(kept[p].n > 2 && kept[p].word[2] != kept[p].word[0] &&                \
	 kept[p].word[2] != kept[p].word[1])

proctype processor(byte p)
{
	byte i;
end:
	do
	:: atomic { first_of(p) -> leave(p, 0) }
#ifdef PSO
	:: atomic { second_of(p) -> leave(p, 1) }
	:: atomic { third_of(p) -> leave(p, 2) }
#endif
	od
}

/* Announce a piece of work. The owner must see the work or be woken. */
inline tell(t)
{
#if defined(SLEEP)
#ifdef WITHOUT_TELL
	store(t, t, made);
#else
	swap(t, t, made, was);
#endif
	load(t, FLAG, was);
	if
	:: was == 1 -> kernel_write(t)
	:: else
	fi
#elif defined(BELL)
	store(t, t, made);
#ifdef WITHOUT_TELL
	load(t, FLAG, was);
	if
	:: was == 0 -> store(t, FLAG, 1)
	:: else
	fi;
#else
	d_step {
		empty_buffer(t) -> was = memory[FLAG];
		memory[FLAG] = 1;
		writing = writing + (was == 0 -> 1 : 0)
	}
#endif
	if
	:: was == 0 ->
		d_step {
			empty_buffer(t) -> count = 1;
			writing = (writing > 0 -> writing - 1 : 0)
		}
	:: else
	fi
#elif defined(LOCK)
#ifndef WITHOUT_TELL
	lock(t);
#endif
	store(t, t, made);
	load(t, FLAG, was);
	if
	:: was == 1 ->
		store(t, FLAG, 0);
		kernel_write(t)
	:: else
	fi;
#ifndef WITHOUT_TELL
	unlock(t)
#endif
#endif
}

proctype teller(byte me)
{
	byte made, was, i;

	do
	:: made < EACH ->
		made++;
		tell(me)
	:: else -> break
	od
}

/* Announce the sleep before the last check. */
inline doze()
{
#if defined(SLEEP)
#ifdef WITHOUT_DOZE
	store(OWNER, FLAG, 1)
#else
	swap(OWNER, FLAG, 1, was)
#endif
#elif defined(BELL)
	load(OWNER, FLAG, was);
	if
	:: was == 1 ->
		d_step {
			empty_buffer(OWNER) -> was = count;
			count = 0
		};
		if
#ifdef HASTY
		:: true ->
#else
		:: was == 1 ->
#endif
#ifdef WITHOUT_DOZE
			store(OWNER, FLAG, 0)
#else
			swap(OWNER, FLAG, 0, was)
#endif
#ifndef HASTY
		:: else
#endif
		fi
	:: else -> heard = false /* the owner does not check the work */
	fi
#elif defined(LOCK)
#ifdef WITHOUT_DOZE
	store(OWNER, FLAG, 1)
#else
	lock(OWNER);
	store(OWNER, FLAG, 1);
	unlock(OWNER)
#endif
#endif
}

inline look()
{
	found = false;
	load(OWNER, 0, now0);
	load(OWNER, 1, now1);
	found = now0 != seen0 || now1 != seen1;
	seen0 = now0;
	seen1 = now1;
	now0 = 0;
	now1 = 0
}

/* Sleep until the eventfd is set, and empty it. (The eventfd of a bell is
 * emptied only in doze().) */
inline sleep()
{
#ifdef BELL
	/* If the eventfd is set and no process is about to write it, the bell's
	 * word must be set: otherwise no process would read the eventfd. */
	assert(!(count == 1 && writing == 0 && memory[FLAG] == 0));
	count == 1
#else
	d_step { empty_buffer(OWNER) && count == 1 -> count = 0 };
#ifdef SLEEP
	store(OWNER, FLAG, 0)
#endif
#endif
}

proctype owner()
{
	byte seen0, seen1, now0, now1, was, i;
	bool heard, found;

	do
	:: seen0 == EACH && seen1 == EACH -> break
	:: else ->
		heard = true;
		doze();
		if
		:: heard -> look()
		:: else -> found = false
		fi;
		if
		:: found
		:: else -> sleep()
		fi
	od
}

init {
	atomic {
		run processor(0);
		run processor(1);
		run processor(OWNER);
		run teller(0);
		run teller(1);
		run owner()
	}
}
