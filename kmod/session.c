// SPDX-License-Identifier: GPL-2.0-only
/*
 * A session: the event rings of one consumer, from its ATTACH to the release of
 * its descriptor; their mapping, the lease, its sleep.  README.md
 * draws the barriers.
 */
#include <linux/log2.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "ppc.h"
#include "upc.h"

/*
 * There is a ring for each possible CPU, and firmware often announces many more
 * than exist.  So the events are divided among the CPUs that run, unless that
 * takes more than four times the memory.
 */
static u32 ppc_ring_entries(u32 queue_events, u32 nr)
{
	u32 entries = min(queue_events / num_online_cpus(), queue_events / DIV_ROUND_UP(nr, 4));

	return rounddown_pow_of_two(max_t(u32, entries, PPC_RING_ENTRIES_MIN));
}

/**
 * ppc_session_create - rings for one consumer
 * @queue_events: least number of events in all rings together; each ring holds
 *	at least PPC_RING_ENTRIES_MIN
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
	s->entries = ppc_ring_entries(queue_events, nr);
	s->ring_stride = PAGE_ALIGN(PAGE_SIZE + s->entries * sizeof(struct ppc_event));
	s->consumer_bytes = PAGE_ALIGN(sizeof(struct ppc_consumer) +
				       nr * sizeof(struct ppc_ring_tail));
	s->ring_area = vmalloc_user(nr * s->ring_stride);
	s->consumer = vmalloc_user(s->consumer_bytes);
	s->fair = ppc_fair_create();
	if (!s->ring_area || !s->consumer || !s->fair) {
		ppc_fair_free(s->fair);
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
	ppc_fair_free(s->fair);
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
 * @vma: its offset selects the area; shared, no longer than the area
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

/**
 * ppc_session_pending - whether a ring holds unconsumed records
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
 * ppc_session_lease_expired - whether the lease has run out
 * @s: session
 *
 * It has if a ring held records for lease_ms, its tail did not move, and no
 * ioctl came.
 *
 * Context: one caller at a time.
 */
bool ppc_session_lease_expired(struct ppc_session *s)
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
 * ppc_session_prepare_sleep - the consumer is about to sleep
 * @s: session
 *
 * User space sets need_wakeup too, but a wake-up under way may clear it after
 * the consumer's last look.
 *
 * Return: false when events are pending
 */
bool ppc_session_prepare_sleep(struct ppc_session *s)
{
	WRITE_ONCE(s->consumer->need_wakeup, 1);
	/* (B) need_wakeup before the heads */
	smp_mb();
	if (!ppc_session_pending(s))
		return true;
	WRITE_ONCE(s->consumer->need_wakeup, 0);
	return false;
}

/* Attachment or mount ended: wakes the consumer in any case. */
void ppc_session_wake(struct ppc_session *s)
{
	wake_up_interruptible_all(&s->wait);
}

struct wait_queue_head *ppc_session_wait(struct ppc_session *s)
{
	return &s->wait;
}
