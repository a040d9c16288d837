// SPDX-License-Identifier: GPL-2.0-only
/*
 * What one task, or one cgroup, may take of the rings and of the reader that
 * all of a mount share: a task that floods them loses events of its own only.
 *
 * Rates are kept in a small table by a clock per task and per cgroup: it runs
 * ahead of the time by an interval for each event, and by a burst at most.  The
 * table is written without a lock; what CPUs lose against each other makes it
 * lenient, nothing else.  What is in a ring is not counted when it is put there
 * or taken out: when a ring fills up, a sample of its records tells.
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
/* The root cgroup, where there are no tenants to tell apart. */
#define PPC_ROOT_CGROUP	1
/* A cgroup may have so many times as much as a task, or more on a large machine. */
#define PPC_FAIR_GROUP	4
#define PPC_FAIR_CPUS	4
/* A first touch of a page by a fault costs more than a read of one byte. */
#define PPC_FAIR_FAULT	8

struct ppc_clock {
	u64 who;
	u64 until_ns;
	u64 read_bytes;		/* by its thread up to the last event; see ppc_fair_position() */
};

struct ppc_fair {
	u32 group;
	struct ppc_clock clocks[1 << PPC_FAIR_BITS][PPC_FAIR_WAYS];
};

/* By read(2) and the like. */
static u64 ppc_bytes_read(const struct task_struct *task)
{
#ifdef CONFIG_TASK_XACCT
	return task->ioac.rchar;
#else
	return 0;
#endif
}

/* Limits of a task; for PROGRESS: of a thread. */
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

/* The clock of who, or one that stands; NULL: there are too many others to tell them apart. */
static struct ppc_clock *ppc_clock_of(struct ppc_fair *fair, u64 who, u64 now_ns)
{
	struct ppc_clock *set = fair->clocks[hash_64(who, PPC_FAIR_BITS)], *idle = NULL;
	int i;

	for (i = 0; i < PPC_FAIR_WAYS; i++) {
		if (READ_ONCE(set[i].who) == who)
			return &set[i];
		if (READ_ONCE(set[i].until_ns) <= now_ns)
			idle = &set[i];
	}
	if (idle) {
		WRITE_ONCE(idle->who, who);
		WRITE_ONCE(idle->read_bytes, 0);
	}
	return idle;
}

/* By @cost_ns for this event, of @interval_ns that one may cost. */
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
 * ppc_fair_allows - whether who causes an event may do so once more now
 * @fair: of the reader
 * @kind: what it costs
 * @ev: complete but for seq and cpu
 *
 * Context: any; does not sleep.
 */
bool ppc_fair_allows(struct ppc_fair *fair, enum ppc_fair_kind kind, const struct ppc_event *ev)
{
	/* no two processes begin in the same nanosecond, or they share a clock */
	u64 task = ev->start_ns << 3 | kind << 1;
	u32 interval_ns = ppc_fair_rates[kind].interval_ns;

	return ppc_clock_advance(ppc_clock_of(fair, task, ev->time_ns), ev->time_ns, interval_ns,
				 interval_ns, ppc_fair_rates[kind].burst) &&
	       ppc_group_advance(fair, kind, ev, interval_ns);
}

/**
 * ppc_fair_position - the same for PROGRESS of the current thread
 * @fair: of the reader
 * @ev: complete but for seq and cpu
 * @beacon_bytes: distance of PROGRESS events
 *
 * What the thread has read since its last one is taken off the cost, so a reader
 * that goes from beacon to beacon costs nothing however fast it is, and one that
 * jumps costs the whole.
 *
 * Context: any task context; does not sleep.
 */
bool ppc_fair_position(struct ppc_fair *fair, const struct ppc_event *ev, u32 beacon_bytes)
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
 * ppc_fair_share - whether a ring that fills up has room for an event of its kind
 * @s: session
 * @ring: which ring
 * @used: records in it; by a wild tail any number
 * @ev: complete but for seq and cpu
 *
 * A task gets three quarters of a ring at most and a cgroup seven eighths; less
 * where others have filled it, down to what is free times three, or seven.
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
