// SPDX-License-Identifier: GPL-2.0-only
/*
 * Event rings: one per possible CPU, mapped by one reader.  Knows nothing of
 * files or devices.
 *
 * Paper: 3.1 UPC.
 * Differs from the paper: rings that user space maps instead of a list it
 * reads, because the wake-up and the copy, not the enqueue, are the cost.
 *
 * Writers run in the application's read or fault.  They never wait: a full
 * ring drops the event and counts it.  Two barriers pair with user space:
 *
 *	kernel				reader
 *	write record			need_wakeup = 1
 *	store-release head	(A)	full barrier			(B)
 *	smp_mb()		(B)	load-acquire heads	(A)
 *	if (need_wakeup) wake		none new: poll()
 *
 * Whatever user space writes into the consumer page, the kernel only compares:
 * head is private, a wild tail makes the ring look full or empty.
 */
#include <linux/cgroup.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/pid_namespace.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <linux/wait.h>

#include "ppc.h"
#include "trace.h"

/*
 * Over events that are not urgent a sleeping reader is left asleep until none
 * came for that long, at most that many times in a row.
 */
#define PPC_LATE_MS		50U
#define PPC_LATE_TURNS		20U

struct ppc_ring {
	struct ppc_ring_head *shared;	/* user space reads it */
	struct ppc_event *records;
	u32 head;			/* written on this CPU, preemption off */
	u32 seq;
	u64 dropped;
	bool lost;			/* say so in the next record */
	u32 lease_tail;			/* the lease check's last look, and when it moved */
	unsigned long lease_moved;
} ____cacheline_aligned_in_smp;

struct ppc_session {
	wait_queue_head_t wait;
	struct pid_namespace *pid_ns;	/* of the attaching task; pids are given in it */
	struct ppc_consumer *consumer;	/* user space writes it */
	struct ppc_ring_tail *tails;	/* behind it, likewise */
	void *ring_area;
	size_t ring_stride;
	size_t consumer_bytes;
	u32 entries;			/* per ring, power of two */
	u32 nr_rings;
	u32 lease_ms;
	u32 late_turns;			/* of ppc_upc_late_work() only, like late_heads */
	u32 late_heads;
	unsigned long renewed;		/* jiffies of the last ioctl of its descriptor */
	struct ppc_ring rings[];
};

/**
 * ppc_session_create - rings for one reader
 * @queue_events: how many events all rings may hold together, at least; each
 *	ring holds PPC_RING_ENTRIES_MIN whatever that says
 *
 * Context: may sleep.
 * Return: a session or ERR_PTR
 */
struct ppc_session *ppc_session_create(u32 queue_events)
{
	u32 nr = nr_cpu_ids, i;
	struct ppc_session *s = kvzalloc(struct_size(s, rings, nr), GFP_KERNEL);

	if (!s)
		return ERR_PTR(-ENOMEM);
	init_waitqueue_head(&s->wait);
	s->nr_rings = nr;
	s->entries = rounddown_pow_of_two(max_t(u32, queue_events / nr, PPC_RING_ENTRIES_MIN));
	s->ring_stride = PAGE_ALIGN(PAGE_SIZE + s->entries * sizeof(struct ppc_event));
	s->consumer_bytes = PAGE_ALIGN(sizeof(struct ppc_consumer) +
				       nr * sizeof(struct ppc_ring_tail));
	s->ring_area = vmalloc_user(nr * s->ring_stride);
	s->consumer = vmalloc_user(s->consumer_bytes);
	if (!s->ring_area || !s->consumer) {
		vfree(s->ring_area);
		vfree(s->consumer);
		kvfree(s);
		return ERR_PTR(-ENOMEM);
	}
	s->tails = (struct ppc_ring_tail *)(s->consumer + 1);
	for (i = 0; i < nr; i++) {
		struct ppc_ring *ring = &s->rings[i];

		ring->shared = s->ring_area + i * s->ring_stride;
		ring->shared->entries = s->entries;
		ring->records = (void *)ring->shared + PAGE_SIZE;
	}
	s->pid_ns = get_pid_ns(task_active_pid_ns(current));
	return s;
}

/**
 * ppc_session_free - undo ppc_session_create()
 * @s: detached; an RCU grace period has passed since
 *
 * Pages that are still mapped live until they are unmapped.
 */
void ppc_session_free(struct ppc_session *s)
{
	put_pid_ns(s->pid_ns);
	vfree(s->ring_area);
	vfree(s->consumer);
	kvfree(s);
}

void ppc_session_describe(const struct ppc_session *s, struct ppc_attach *out)
{
	out->nr_rings = s->nr_rings;
	out->ring_entries = s->entries;
	out->ring_stride = s->ring_stride;
	out->consumer_bytes = s->consumer_bytes;
}

/**
 * ppc_session_mmap - map the rings or the consumer page
 * @s: session
 * @vma: its offset says which; shared, at most as long as the area
 *
 * Return: 0 or -EINVAL, -EPERM (rings are read-only)
 */
int ppc_session_mmap(struct ppc_session *s, struct vm_area_struct *vma)
{
	const unsigned long consumer_pgoff = PPC_MMAP_CONSUMER >> PAGE_SHIFT;

	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP);
	if (vma->vm_pgoff >= consumer_pgoff)
		return remap_vmalloc_range(vma, s->consumer, vma->vm_pgoff - consumer_pgoff);
	if (vma->vm_flags & VM_WRITE)
		return -EPERM;
	vm_flags_clear(vma, VM_MAYWRITE);
	return remap_vmalloc_range(vma, s->ring_area, vma->vm_pgoff);
}

static u32 ppc_ring_tail_of(const struct ppc_session *s, u32 i)
{
	/* pairs with the reader's store-release: it has copied the records out */
	return smp_load_acquire(&s->tails[i].tail);
}

static u32 ppc_ring_used(const struct ppc_session *s, u32 i)
{
	return READ_ONCE(s->rings[i].head) - ppc_ring_tail_of(s, i);
}

/**
 * ppc_session_pending - whether a ring holds records that were not consumed
 * @s: session
 */
bool ppc_session_pending(const struct ppc_session *s)
{
	u32 i;

	for (i = 0; i < s->nr_rings; i++) {
		if (ppc_ring_used(s, i))
			return true;
	}
	return false;
}

/**
 * ppc_session_stuck - whether the lease has run out
 * @s: session
 *
 * It has when some ring has held records for lease_ms without its tail moving,
 * and no ioctl came meanwhile.
 *
 * Context: one caller at a time.
 */
bool ppc_session_stuck(struct ppc_session *s)
{
	unsigned long lease = msecs_to_jiffies(READ_ONCE(s->lease_ms));
	unsigned long now = jiffies;
	bool stuck = false;
	u32 i;

	for (i = 0; i < s->nr_rings; i++) {
		struct ppc_ring *ring = &s->rings[i];
		u32 tail = ppc_ring_tail_of(s, i);

		if (tail == READ_ONCE(ring->head) || tail != ring->lease_tail) {
			ring->lease_tail = tail;
			ring->lease_moved = now;
		} else if (time_after_eq(now, ring->lease_moved + lease)) {
			stuck = true;
		}
	}
	return stuck && time_after_eq(now, READ_ONCE(s->renewed) + lease);
}

void ppc_session_renew(struct ppc_session *s)
{
	WRITE_ONCE(s->renewed, jiffies);
}

void ppc_session_set_lease(struct ppc_session *s, u32 lease_ms)
{
	u32 i;

	WRITE_ONCE(s->lease_ms, lease_ms);
	for (i = 0; i < s->nr_rings; i++)
		s->rings[i].lease_moved = jiffies;
	ppc_session_renew(s);
}

u32 ppc_session_lease_ms(const struct ppc_session *s)
{
	return READ_ONCE(s->lease_ms);
}

/**
 * ppc_session_announce - the reader is about to sleep
 * @s: session
 *
 * User space announces it as well, but a wake-up under way may clear that after
 * the reader's last look.
 *
 * Return: false when it had better not: events are pending
 */
bool ppc_session_announce(struct ppc_session *s)
{
	WRITE_ONCE(s->consumer->need_wakeup, 1);
	/* (B) need_wakeup before the heads */
	smp_mb();
	if (!ppc_session_pending(s))
		return true;
	WRITE_ONCE(s->consumer->need_wakeup, 0);
	return false;
}

/* Attachment or mount ended: the reader must learn, asleep or not. */
void ppc_session_wake(struct ppc_session *s)
{
	wake_up_interruptible_all(&s->wait);
}

struct wait_queue_head *ppc_session_wait(struct ppc_session *s)
{
	return &s->wait;
}

/* Who and when, for an event of the current task. */
static void ppc_fill(const struct ppc_session *s, struct ppc_event *ev)
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

/* The reader has gone since the caller looked at the mode. */
static void ppc_put_nowhere(struct ppc_sb *sbi, const struct ppc_event *ev)
{
	ppc_stat_add(sbi, PPC_STAT_DROPPED, 1);
	ppc_stat_add(sbi, PPC_STAT_DROPPED_DETACHED, 1);
	trace_ppc_event_dropped(ppc_dev_minor(sbi), ev->file_id, ev->offset, ev->length, ev->kind,
				ev->flags);
}

/**
 * ppc_upc_fill - who and when, for an event that is to be queued later
 * @sbi: mount
 * @ev: file, extent and kind are the caller's
 *
 * Context: any task context.
 * Return: false when nobody is attached any more; it is counted as lost
 */
bool ppc_upc_fill(struct ppc_sb *sbi, struct ppc_event *ev)
{
	struct ppc_session *s;

	rcu_read_lock();
	s = rcu_dereference(sbi->session);
	if (s)
		ppc_fill(s, ev);
	else
		ppc_put_nowhere(sbi, ev);
	rcu_read_unlock();
	return s;
}

/* Preemption is off.  False: full. */
static bool ppc_ring_put(struct ppc_session *s, u32 cpu, const struct ppc_event *ev)
{
	struct ppc_ring *ring = &s->rings[cpu];
	struct ppc_event *slot;
	u32 seq = ring->seq++;

	if (ring->head - ppc_ring_tail_of(s, cpu) >= s->entries) {
		ring->lost = true;
		WRITE_ONCE(ring->shared->dropped, ++ring->dropped);
		return false;
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
	return true;
}

static void ppc_wake_reader(struct ppc_sb *sbi, struct ppc_session *s)
{
	WRITE_ONCE(s->consumer->need_wakeup, 0);
	ppc_stat_add(sbi, PPC_STAT_WAKEUPS, 1);
	wake_up_interruptible(&s->wait);
}

/* Whether the reader may sleep on: more came since the last look, and its lease is far from out. */
static bool ppc_may_put_off(struct ppc_session *s)
{
	u32 most = min(READ_ONCE(s->lease_ms) / 2 / PPC_LATE_MS, PPC_LATE_TURNS);
	u32 i, before = s->late_heads;

	s->late_heads = 0;
	for (i = 0; i < s->nr_rings; i++)
		s->late_heads += READ_ONCE(s->rings[i].head);
	return s->late_heads != before && ++s->late_turns < most;
}

/**
 * ppc_upc_late_work - wake the reader for events that could wait a little
 * @work: of a mount
 */
void ppc_upc_late_work(struct work_struct *work)
{
	struct ppc_sb *sbi = container_of(to_delayed_work(work), struct ppc_sb, late_work);
	struct ppc_session *s;

	rcu_read_lock();
	s = rcu_dereference(sbi->session);
	if (!s)
		goto out;
	if (!READ_ONCE(s->consumer->need_wakeup) || !ppc_session_pending(s)) {
		s->late_turns = 0;
	} else if (ppc_may_put_off(s)) {
		schedule_delayed_work(&sbi->late_work, msecs_to_jiffies(PPC_LATE_MS));
	} else {
		s->late_turns = 0;
		ppc_stat_add(sbi, PPC_STAT_WAKEUPS_LATE, 1);
		ppc_wake_reader(sbi, s);
	}
out:
	rcu_read_unlock();
}

static void ppc_put(struct ppc_sb *sbi, struct ppc_session *s, const struct ppc_event *ev,
		    bool urgent)
{
	u32 cpu = get_cpu();
	bool queued = ppc_ring_put(s, cpu, ev);

	put_cpu();
	if (likely(queued)) {
		ppc_stat_add(sbi, PPC_STAT_QUEUED, 1);
		trace_ppc_event_queued(ppc_dev_minor(sbi), ev->file_id, ev->offset, ev->length,
				       ev->kind, ev->flags);
	} else {
		ppc_stat_add(sbi, PPC_STAT_DROPPED, 1);
		ppc_stat_add(sbi, PPC_STAT_DROPPED_FULL, 1);
		trace_ppc_event_dropped(ppc_dev_minor(sbi), ev->file_id, ev->offset, ev->length,
					ev->kind, ev->flags);
	}
	/* (B) the head before need_wakeup */
	smp_mb();
	if (!READ_ONCE(s->consumer->need_wakeup))
		return;
	/* No time to put it off when the ring may fill up meanwhile. */
	if (urgent || ppc_ring_used(s, cpu) >= s->entries / 2)
		ppc_wake_reader(sbi, s);
	else if (!delayed_work_pending(&sbi->late_work))
		schedule_delayed_work(&sbi->late_work, msecs_to_jiffies(PPC_LATE_MS));
}

/**
 * ppc_upc_emit - fill an event of the current task and queue it
 * @sbi: mount
 * @ev: file, extent and kind are the caller's
 * @urgent: wake a sleeping reader at once, not a little later
 *
 * Context: task context, may hold spinlocks; does not sleep.
 */
void ppc_upc_emit(struct ppc_sb *sbi, struct ppc_event *ev, bool urgent)
{
	struct ppc_session *s;

	rcu_read_lock();
	s = rcu_dereference(sbi->session);
	if (likely(s)) {
		ppc_fill(s, ev);
		ppc_put(sbi, s, ev, urgent);
	} else {
		ppc_put_nowhere(sbi, ev);
	}
	rcu_read_unlock();
}

/**
 * ppc_upc_queue - put an event into this CPU's ring, or count it as lost
 * @sbi: mount
 * @ev: complete but for seq and cpu
 *
 * Context: task context, may hold spinlocks; does not sleep.
 */
void ppc_upc_queue(struct ppc_sb *sbi, const struct ppc_event *ev)
{
	struct ppc_session *s;

	rcu_read_lock();
	s = rcu_dereference(sbi->session);
	if (likely(s))
		ppc_put(sbi, s, ev, true);
	else
		ppc_put_nowhere(sbi, ev);
	rcu_read_unlock();
}
