// SPDX-License-Identifier: GPL-2.0-only
/*
 * What one task, or one cgroup, may take of the rings and of the reader that
 * all of a mount share, so that who floods them takes it from himself alone.
 *
 * Rates are kept in a small table by a clock per task and per cgroup: it runs
 * ahead of the time by an interval for each event, and by a burst at most.  The
 * table is written without a lock; what CPUs lose against each other makes it
 * lenient, nothing else.  What is in a ring is not counted when it is put there
 * or taken out: when a ring fills up, a sample of its records tells.
 */
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "ppc.h"
#include "upc.h"

#define PPC_FAIR_BITS	6
#define PPC_FAIR_WAYS	4
#define PPC_FAIR_SAMPLE	16
/* Of the root, where there are no tenants to tell apart. */
#define PPC_ROOT_CGROUP	1
/* So many times as much as a task may its cgroup have. */
#define PPC_FAIR_GROUP	4

struct ppc_clock {
	u64 who;
	u64 until_ns;
};

struct ppc_fair {
	struct ppc_clock clocks[1 << PPC_FAIR_BITS][PPC_FAIR_WAYS];
};

/* Of a task. */
static const struct {
	u32 interval_ns;
	u32 burst;
} ppc_fair_rates[] = {
	[PPC_FAIR_HINT]  = { .interval_ns = NSEC_PER_MSEC,	 .burst = 1024 },
	[PPC_FAIR_EVENT] = { .interval_ns = NSEC_PER_SEC >> 16,	 .burst = 16384 },
	[PPC_FAIR_WAKE]  = { .interval_ns = 4 * NSEC_PER_MSEC,	 .burst = 32 },
};

struct ppc_fair *ppc_fair_create(void)
{
	return kvzalloc(sizeof(struct ppc_fair), GFP_KERNEL);
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
	if (idle)
		WRITE_ONCE(idle->who, who);
	return idle;
}

static bool ppc_clock_advance(struct ppc_fair *fair, u64 who, u64 now_ns, u64 interval_ns,
			      u64 burst)
{
	struct ppc_clock *clock = ppc_clock_of(fair, who, now_ns);
	u64 until_ns;

	if (!clock)
		return true;
	until_ns = max(READ_ONCE(clock->until_ns), now_ns);
	if (until_ns - now_ns > burst * interval_ns)
		return false;
	WRITE_ONCE(clock->until_ns, until_ns + interval_ns);
	return true;
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
	u64 group = ev->cgroup_id << 3 | kind << 1 | 1;
	u32 interval_ns = ppc_fair_rates[kind].interval_ns, burst = ppc_fair_rates[kind].burst;

	if (!ppc_clock_advance(fair, task, ev->time_ns, interval_ns, burst))
		return false;
	return ev->cgroup_id == PPC_ROOT_CGROUP ||
	       ppc_clock_advance(fair, group, ev->time_ns, interval_ns / PPC_FAIR_GROUP,
				 burst * PPC_FAIR_GROUP);
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
 * Return: true also for a full ring, which is nobody's fault
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
