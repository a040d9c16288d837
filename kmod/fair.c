// SPDX-License-Identifier: GPL-2.0-only
/*
 * Limits what one task or cgroup may take of the rings and of the consumer
 * that all tasks of a mount share, so that a flood loses only its own events.
 *
 * A small table holds a clock per task and per cgroup.  Each event advances the
 * clock by an interval, at most a burst ahead of real time.  CPUs write the
 * table without a lock; lost updates only make the limits more lenient.
 * Records in a ring are not counted on entry or exit: when a ring fills up, a
 * sample of its records tells whose they are.
 */
#include <linux/hash.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "ppc.h"
#include "upc.h"

#define PPC_FAIR_BITS	8
#define PPC_FAIR_WAYS	4
#define PPC_FAIR_SAMPLE	16
/* The root cgroup: no tenants to tell apart. */
#define PPC_ROOT_CGROUP	1
/* A cgroup's limit in multiples of a task's, or more on a large machine. */
#define PPC_FAIR_GROUP	4
#define PPC_FAIR_CPUS	4
/* A first touch by a fault costs more CPU than a one-byte read. */
#define PPC_FAIR_FAULT	8

struct ppc_clock {
	u64 key;
	u64 until_ns;
	u64 read_bytes;		/* by its thread; see ppc_fair_allows_progress() */
};

struct ppc_fair {
	u32 group;
	struct ppc_clock clocks[1 << PPC_FAIR_BITS][PPC_FAIR_WAYS];
};

/* Bytes of read(2) and its relatives. */
static u64 ppc_bytes_read(const struct task_struct *task)
{
#ifdef CONFIG_TASK_XACCT
	return task->ioac.rchar;
#else
	return 0;
#endif
}

/* Limits of a task; for PROGRESS, of a thread. */
static const struct {
	u32 interval_ns;
	u32 burst;
} ppc_fair_rates[] = {
	[PPC_FAIR_PROGRESS] = { .interval_ns = NSEC_PER_MSEC,	    .burst = 1024 },
	[PPC_FAIR_OPEN]	    = { .interval_ns = NSEC_PER_MSEC,	    .burst = 1024 },
	[PPC_FAIR_EVENT]    = { .interval_ns = NSEC_PER_SEC >> 16,  .burst = 16384 },
	[PPC_FAIR_WAKE]	    = { .interval_ns = 4 * NSEC_PER_MSEC,   .burst = 32 },
};

struct ppc_fair *ppc_fair_create(void)
{
	struct ppc_fair *fair = kvzalloc(sizeof(*fair), GFP_KERNEL);

	if (fair)
		fair->group = max_t(u32, PPC_FAIR_GROUP, num_online_cpus() / PPC_FAIR_CPUS);
	return fair;
}

void ppc_fair_free(struct ppc_fair *fair)
{
	kvfree(fair);
}

/* Finds the clock of a key, or takes over an idle one; NULL: all clocks are busy. */
static struct ppc_clock *ppc_clock_of(struct ppc_fair *fair, u64 key, u64 now_ns)
{
	struct ppc_clock *set = fair->clocks[hash_64(key, PPC_FAIR_BITS)], *idle = NULL;
	int i;

	for (i = 0; i < PPC_FAIR_WAYS; i++) {
		if (READ_ONCE(set[i].key) == key)
			return &set[i];
		if (READ_ONCE(set[i].until_ns) <= now_ns)
			idle = &set[i];
	}
	if (idle) {
		WRITE_ONCE(idle->key, key);
		WRITE_ONCE(idle->read_bytes, 0);
	}
	return idle;
}

/* Advances a clock by @cost_ns, at most @interval_ns for one event. */
static bool ppc_clock_advance(struct ppc_clock *clock, u64 now_ns, u64 cost_ns, u64 interval_ns,
			      u64 burst)
{
	u64 until_ns;

	if (!clock)
		return true;
	until_ns = max(READ_ONCE(clock->until_ns), now_ns);
	if (until_ns - now_ns > burst * interval_ns)
		return false;
	WRITE_ONCE(clock->until_ns, until_ns + cost_ns);
	return true;
}

static bool ppc_group_advance(struct ppc_fair *fair, enum ppc_fair_kind kind,
			      const struct ppc_event *ev, u64 cost_ns)
{
	u32 more = kind == PPC_FAIR_WAKE ? PPC_FAIR_GROUP : fair->group;
	u64 group = ev->cgroup_id << 3 | kind << 1 | 1;

	return ev->cgroup_id == PPC_ROOT_CGROUP ||
	       ppc_clock_advance(ppc_clock_of(fair, group, ev->time_ns), ev->time_ns,
				 cost_ns / more, ppc_fair_rates[kind].interval_ns / more,
				 ppc_fair_rates[kind].burst * more);
}

/**
 * ppc_fair_allows - whether a task may cause another event now
 * @fair: of the session
 * @kind: which limit applies
 * @ev: complete except seq and cpu
 *
 * Context: any; does not sleep.
 */
bool ppc_fair_allows(struct ppc_fair *fair, enum ppc_fair_kind kind, const struct ppc_event *ev)
{
	/* processes that start in the same nanosecond share a clock */
	u64 task = ev->start_ns << 3 | kind << 1;
	u32 interval_ns = ppc_fair_rates[kind].interval_ns;

	return ppc_clock_advance(ppc_clock_of(fair, task, ev->time_ns), ev->time_ns, interval_ns,
				 interval_ns, ppc_fair_rates[kind].burst) &&
	       ppc_group_advance(fair, kind, ev, interval_ns);
}

/**
 * ppc_fair_allows_progress - ppc_fair_allows() for PROGRESS of the current thread
 * @fair: of the session
 * @ev: complete except seq and cpu
 * @beacon_bytes: distance of PROGRESS events
 *
 * Bytes that the thread has read since its last event reduce the cost: a reader
 * that goes from beacon to beacon costs nothing at any speed; one that jumps
 * costs the full interval.
 *
 * Context: any task context; does not sleep.
 */
bool ppc_fair_allows_progress(struct ppc_fair *fair, const struct ppc_event *ev, u32 beacon_bytes)
{
	const u32 interval_ns = ppc_fair_rates[PPC_FAIR_PROGRESS].interval_ns;
	u64 thread = current->start_boottime << 3 | PPC_FAIR_PROGRESS << 1;
	struct ppc_clock *clock = ppc_clock_of(fair, thread, ev->time_ns);
	u64 cost_ns = interval_ns, before, now;

	if (!clock)
		return true;
	if (ev->flags & PPC_EVF_MMAP) {
		cost_ns /= PPC_FAIR_FAULT;
	} else {
		now = ppc_bytes_read(current);
		before = READ_ONCE(clock->read_bytes);
		WRITE_ONCE(clock->read_bytes, now);
		if (now - before >= beacon_bytes)
			return true;
		cost_ns -= div_u64(cost_ns * (now - before), beacon_bytes);
	}
	return ppc_clock_advance(clock, ev->time_ns, cost_ns, interval_ns,
				 ppc_fair_rates[PPC_FAIR_PROGRESS].burst) &&
	       ppc_group_advance(fair, PPC_FAIR_PROGRESS, ev, cost_ns);
}

/**
 * ppc_fair_share - whether a filling ring has room for another event of a task
 * @s: session
 * @ring: which ring
 * @used: records in it; any number if the tail is wild
 * @ev: complete except seq and cpu
 *
 * A task gets at most three quarters of a ring, a cgroup seven eighths, and no
 * more than three or seven times the free records.
 *
 * Context: preemption is off, on the CPU of the ring.
 * Return: true also for a full ring, which is no task's fault
 */
bool ppc_fair_share(const struct ppc_session *s, u32 ring, u32 used, const struct ppc_event *ev)
{
	const struct ppc_event *records = s->rings[ring].records, *record;
	u64 room = s->entries - min(used, s->entries), task = 0, group = 0;
	u32 first = s->rings[ring].head - used, step = used / PPC_FAIR_SAMPLE, i;

	if (!room)
		return true;
	if (used >= s->entries / 2) {
		for (i = 0; i < PPC_FAIR_SAMPLE; i++) {
			record = &records[(first + i * step) & (s->entries - 1)];
			task += record->tgid == ev->tgid && record->start_ns == ev->start_ns;
			group += record->cgroup_id == ev->cgroup_id;
		}
		if (task * used > 3 * room * PPC_FAIR_SAMPLE)
			return false;
		if (group * used > 7 * room * PPC_FAIR_SAMPLE && ev->cgroup_id != PPC_ROOT_CGROUP)
			return false;
	}
	return ppc_fair_allows(s->fair, PPC_FAIR_EVENT, ev);
}
