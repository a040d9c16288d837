// SPDX-License-Identifier: GPL-2.0-only
/*
 * User-space page-cache events (UPC): puts events into the rings, one per
 * possible CPU, which one consumer maps.  Knows nothing of files or devices.
 *
 * Paper: 3.1 UPC.
 * Differs from the paper: rings that user space maps instead of a list it
 * reads, because the wake-up and the copy, not the enqueue, are the cost.
 *
 * Writers run in the application's read or fault.  They never wait: a full ring
 * drops the event and counts it.  The barriers (A) and (B) pair with user space
 * as README.md draws it under Races.
 *
 * The kernel only compares values that user space writes into the consumer
 * page: head is private, and a wild tail makes the ring look full or empty.
 */
#include <linux/cgroup.h>
#include <linux/ktime.h>
#include <linux/pid_namespace.h>
#include <linux/sched/signal.h>
#include <linux/wait.h>

#include "ppc.h"
#include "trace.h"
#include "upc.h"

/*
 * A sleeping consumer is not woken for events that can wait until none came for
 * PPC_WAKE_DELAY_MS, at most PPC_WAKE_DELAYS_MAX times in a row.
 */
#define PPC_WAKE_DELAY_MS	50U
#define PPC_WAKE_DELAYS_MAX	20U

/* Fills in the current task and the time. */
static void ppc_stamp(const struct ppc_session *s, struct ppc_event *ev)
{
	if (likely(s->pid_ns == &init_pid_ns)) {
		ev->tgid = current->tgid;
		ev->tid = current->pid;
	} else {
		ev->tgid = task_tgid_nr_ns(current, s->pid_ns);
		ev->tid = task_pid_nr_ns(current, s->pid_ns);
	}
	ev->start_ns = current->group_leader->start_boottime;
#ifdef CONFIG_CGROUPS
	ev->cgroup_id = cgroup_id(task_dfl_cgroup(current));
#endif
	ev->time_ns = ktime_get_ns();
}

static void ppc_count_dropped(struct ppc_sb *sbi, const struct ppc_event *ev)
{
	ppc_stat_add(sbi, PPC_STAT_DROPPED, 1);
	trace_ppc_event_dropped(ppc_dev_minor(sbi), ev->file_id, ev->offset, ev->length, ev->kind,
				ev->flags);
}

/* The consumer has detached since the caller read the mode. */
static void ppc_drop_detached(struct ppc_sb *sbi, const struct ppc_event *ev)
{
	ppc_stat_add(sbi, PPC_STAT_DROPPED_DETACHED, 1);
	ppc_count_dropped(sbi, ev);
}

/**
 * ppc_upc_stamp - fill in task and time of an event to be queued later
 * @sbi: mount
 * @ev: file, extent and kind are set
 *
 * Context: any task context.
 * Return: false when no consumer is attached any more; the event counts as lost
 */
bool ppc_upc_stamp(struct ppc_sb *sbi, struct ppc_event *ev)
{
	struct ppc_session *s;

	rcu_read_lock();
	s = rcu_dereference(sbi->session);
	if (s)
		ppc_stamp(s, ev);
	else
		ppc_drop_detached(sbi, ev);
	rcu_read_unlock();
	return s;
}

/* Caller has preemption off.  Returns the counter of the event's fate. */
static enum ppc_stat ppc_ring_put(struct ppc_session *s, u32 cpu, const struct ppc_event *ev)
{
	struct ppc_ring *ring = &s->rings[cpu];
	u32 used = ring->head - ppc_ring_tail_of(s, cpu);
	struct ppc_event *slot;
	u32 seq;

	/* no gap in the sequence: other tasks lost nothing */
	if (unlikely(used >= s->entries / 8) && !ppc_fair_share(s, cpu, used, ev))
		return PPC_STAT_DROPPED_FLOOD;
	seq = ring->seq++;
	if (used >= s->entries) {
		ring->lost = true;
		WRITE_ONCE(ring->shared->dropped, ++ring->dropped);
		return PPC_STAT_DROPPED_FULL;
	}
	slot = &ring->records[ring->head & (s->entries - 1)];
	*slot = *ev;
	slot->seq = seq;
	slot->cpu = cpu;
	if (ring->lost) {
		slot->flags |= PPC_EVF_LOST;
		ring->lost = false;
	}
	WRITE_ONCE(ring->head, ring->head + 1);
	WRITE_ONCE(ring->shared->queued, ring->shared->queued + 1);
	/* (A) the record before the head */
	smp_store_release(&ring->shared->head, ring->head);
	return PPC_STAT_QUEUED;
}

static void ppc_wake_consumer(struct ppc_sb *sbi, struct ppc_session *s)
{
	WRITE_ONCE(s->consumer->need_wakeup, 0);
	ppc_stat_add(sbi, PPC_STAT_WAKEUPS, 1);
	wake_up_interruptible(&s->wait);
}

/*
 * Whether the consumer may sleep on: events came since the last look, and its
 * lease is far from out.
 */
static bool ppc_may_delay_wakeup(struct ppc_session *s)
{
	u32 most = min(READ_ONCE(s->lease_ms) / 2 / PPC_WAKE_DELAY_MS, PPC_WAKE_DELAYS_MAX);
	u32 i, before = s->wake_heads;

	s->wake_heads = 0;
	for (i = 0; i < s->nr_rings; i++)
		s->wake_heads += READ_ONCE(s->rings[i].head);
	return s->wake_heads != before && ++s->wake_delays < most;
}

/**
 * ppc_upc_wake_work - wake the consumer for events that could wait
 * @work: of a mount
 */
void ppc_upc_wake_work(struct work_struct *work)
{
	struct ppc_sb *sbi = container_of(to_delayed_work(work), struct ppc_sb, wake_work);
	struct ppc_session *s;
	bool urgent;

	rcu_read_lock();
	s = rcu_dereference(sbi->session);
	if (!s)
		goto out;
	/* a full barrier before the rings: a task that saw it set has queued its event */
	urgent = xchg(&s->urgent_pending, false);
	if (!READ_ONCE(s->consumer->need_wakeup) || !ppc_session_pending(s)) {
		s->wake_delays = 0;
	} else if (!urgent && ppc_may_delay_wakeup(s)) {
		schedule_delayed_work(&sbi->wake_work, msecs_to_jiffies(PPC_WAKE_DELAY_MS));
	} else {
		s->wake_delays = 0;
		ppc_stat_add(sbi, PPC_STAT_WAKEUPS_LATE, 1);
		ppc_wake_consumer(sbi, s);
	}
out:
	rcu_read_unlock();
}

/*
 * Wakes the consumer at the next tick: for urgent events of a task that has woken
 * it at once too often.
 */
static void ppc_wake_at_tick(struct ppc_sb *sbi, struct ppc_session *s)
{
	/* urgent_pending alone is not enough: work that found the session detached left it set */
	if (READ_ONCE(s->urgent_pending) && delayed_work_pending(&sbi->wake_work))
		return;
	WRITE_ONCE(s->urgent_pending, true);
	cancel_delayed_work(&sbi->wake_work);
	schedule_delayed_work(&sbi->wake_work, 1);
}

static void ppc_enqueue_wake(struct ppc_sb *sbi, struct ppc_session *s, u32 cpu,
			     const struct ppc_event *ev, bool urgent)
{
	/* Do not delay when the ring may fill up meanwhile. */
	if (ppc_ring_used(s, cpu) >= s->entries / 2)
		ppc_wake_consumer(sbi, s);
	else if (urgent && ppc_fair_allows(s->fair, PPC_FAIR_WAKE, ev))
		ppc_wake_consumer(sbi, s);
	else if (urgent)
		ppc_wake_at_tick(sbi, s);
	else if (!delayed_work_pending(&sbi->wake_work))
		schedule_delayed_work(&sbi->wake_work, msecs_to_jiffies(PPC_WAKE_DELAY_MS));
}

static void ppc_enqueue(struct ppc_sb *sbi, struct ppc_session *s, const struct ppc_event *ev,
			bool urgent)
{
	u32 cpu = get_cpu();
	enum ppc_stat outcome = ppc_ring_put(s, cpu, ev);

	put_cpu();
	if (likely(outcome == PPC_STAT_QUEUED)) {
		ppc_stat_add(sbi, PPC_STAT_QUEUED, 1);
		trace_ppc_event_queued(ppc_dev_minor(sbi), ev->file_id, ev->offset, ev->length,
				       ev->kind, ev->flags);
	} else {
		ppc_stat_add(sbi, outcome, 1);
		ppc_count_dropped(sbi, ev);
	}
	/* (B) the head before need_wakeup */
	smp_mb();
	if (READ_ONCE(s->consumer->need_wakeup))
		ppc_enqueue_wake(sbi, s, cpu, ev, urgent);
}

/**
 * ppc_upc_emit - complete an event of the current task and queue it
 * @sbi: mount
 * @ev: file, extent and kind are set
 * @urgent: wake a sleeping consumer at once, not a little later
 *
 * Context: task context, may hold spinlocks; does not sleep.
 */
void ppc_upc_emit(struct ppc_sb *sbi, struct ppc_event *ev, bool urgent)
{
	struct ppc_session *s;

	rcu_read_lock();
	s = rcu_dereference(sbi->session);
	if (likely(s)) {
		ppc_stamp(s, ev);
		ppc_enqueue(sbi, s, ev, urgent);
	} else {
		ppc_drop_detached(sbi, ev);
	}
	rcu_read_unlock();
}

static bool ppc_limit_allows(struct ppc_sb *sbi, struct ppc_session *s, const struct ppc_event *ev)
{
	if (ev->kind == PPC_EV_PROGRESS)
		return ppc_fair_allows_progress(s->fair, ev,
						PAGE_SIZE << READ_ONCE(sbi->beacon_shift));
	return ppc_fair_allows(s->fair, PPC_FAIR_OPEN, ev);
}

/**
 * ppc_upc_emit_limited - ppc_upc_emit() with a limit, for events that a task can
 * cause for free
 * @sbi: mount
 * @ev: PROGRESS, OPEN or CLOSE
 *
 * The limits are in fair.c.  These events are urgent.
 *
 * Context: as ppc_upc_emit().
 * Return: whether the limit allowed it
 */
bool ppc_upc_emit_limited(struct ppc_sb *sbi, struct ppc_event *ev)
{
	struct ppc_session *s;
	bool allowed = false;

	rcu_read_lock();
	s = rcu_dereference(sbi->session);
	if (unlikely(!s)) {
		ppc_drop_detached(sbi, ev);
	} else {
		ppc_stamp(s, ev);
		allowed = ppc_limit_allows(sbi, s, ev);
		if (allowed) {
			ppc_enqueue(sbi, s, ev, true);
		} else {
			ppc_stat_add(sbi, PPC_STAT_DROPPED_FLOOD, 1);
			ppc_count_dropped(sbi, ev);
		}
	}
	rcu_read_unlock();
	return allowed;
}

/**
 * ppc_upc_queue - put an event into this CPU's ring, or count it as lost
 * @sbi: mount
 * @ev: complete except seq and cpu
 *
 * Context: task context, may hold spinlocks; does not sleep.
 */
void ppc_upc_queue(struct ppc_sb *sbi, const struct ppc_event *ev)
{
	struct ppc_session *s;

	rcu_read_lock();
	s = rcu_dereference(sbi->session);
	if (likely(s))
		/* not urgent: accesses are late already */
		ppc_enqueue(sbi, s, ev, false);
	else
		ppc_drop_detached(sbi, ev);
	rcu_read_unlock();
}
