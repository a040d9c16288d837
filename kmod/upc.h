/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The event rings of one consumer, shared by session.c (their life and the
 * consumer's side) and upc.c (the writers' side).
 */
#ifndef PPC_UPC_H
#define PPC_UPC_H

#include <linux/types.h>
#include <linux/wait.h>

#include <ppc/uapi.h>

struct ppc_fair;
struct pid_namespace;

struct ppc_ring {
	struct ppc_ring_head *shared;	/* user space reads it */
	struct ppc_event *records;
	u32 head;			/* written on its CPU, preemption off */
	u32 seq;
	u64 dropped;
	bool lost;			/* report a loss with the next record */
	u32 lease_tail;			/* tail at the last lease check, and when it moved */
	unsigned long lease_moved;
} ____cacheline_aligned_in_smp;

struct ppc_session {
	wait_queue_head_t wait;
	struct pid_namespace *pid_ns;	/* of the attaching task; pids are given in it */
	struct ppc_consumer *consumer;	/* written by user space */
	struct ppc_ring_tail *tails;	/* behind it, likewise */
	void *ring_area;
	size_t ring_stride;
	size_t consumer_bytes;
	u32 entries;			/* per ring, power of two */
	u32 nr_rings;
	u32 lease_ms;
	bool urgent_pending;		/* an urgent event waits; see ppc_wake_at_tick() */
	u32 wake_delays;		/* used by ppc_upc_wake_work() only, like wake_heads */
	u32 wake_heads;
	struct ppc_fair *fair;
	unsigned long renewed;		/* jiffies of the last ioctl of its descriptor */
	struct ppc_ring rings[];
};

static inline u32 ppc_ring_tail_of(const struct ppc_session *s, u32 i)
{
	/* pairs with the consumer's store-release after it copied the records */
	return smp_load_acquire(&s->tails[i].tail);
}

static inline u32 ppc_ring_used(const struct ppc_session *s, u32 i)
{
	return READ_ONCE(s->rings[i].head) - ppc_ring_tail_of(s, i);
}

/* fair.c */
enum ppc_fair_kind {
	PPC_FAIR_PROGRESS,	/* this and OPEN: free of cost for the causing task */
	PPC_FAIR_OPEN,		/* OPEN, CLOSE */
	PPC_FAIR_EVENT,		/* all others, once they pile up */
	PPC_FAIR_WAKE,		/* wake-ups of a sleeping consumer at once */
};

struct ppc_fair *ppc_fair_create(void);
void ppc_fair_free(struct ppc_fair *fair);
bool ppc_fair_allows(struct ppc_fair *fair, enum ppc_fair_kind kind, const struct ppc_event *ev);
bool ppc_fair_allows_progress(struct ppc_fair *fair, const struct ppc_event *ev, u32 beacon_bytes);
bool ppc_fair_share(const struct ppc_session *s, u32 ring, u32 used, const struct ppc_event *ev);

#endif /* PPC_UPC_H */
