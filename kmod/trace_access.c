// SPDX-License-Identifier: GPL-2.0-only
/*
 * ACCESS events while tracing: merges adjacent accesses of one thread in the
 * open file, and queues them as one event.
 */
#include <linux/jiffies.h>

#include "ppc.h"

#define PPC_ACCESS_MAX_BYTES	(16U << 20)
#define PPC_ACCESS_MAX_NS	(100 * NSEC_PER_MSEC)
#define PPC_ACCESS_FLUSH_MS	100

/* Caller holds po->events.lock. */
static bool ppc_access_merges(const struct ppc_event *pending, const struct ppc_event *ev)
{
	u64 pending_end = pending->offset + pending->length;
	u64 end = ev->offset + ev->length;

	return pending->length && pending->tid == ev->tid && pending->flags == ev->flags &&
	       pending->tgid == ev->tgid && ev->offset >= pending->offset &&
	       ev->offset <= pending_end && end - pending->offset <= PPC_ACCESS_MAX_BYTES &&
	       ev->time_ns - pending->time_ns < PPC_ACCESS_MAX_NS;
}

/* Lists a file for the flush, which unlists it before looking; caller holds po->events.lock. */
static void ppc_access_list(struct ppc_open *po)
{
	spin_lock(&po->sbi->pending_lock);
	if (list_empty(&po->events.link))
		list_add_tail(&po->events.link, &po->sbi->pending);
	spin_unlock(&po->sbi->pending_lock);
}

/**
 * ppc_access - record an access of pages
 * @po: open file
 * @index: first page
 * @nr: number of pages
 * @flags: PPC_EVF_*
 *
 * Context: read or fault path; takes a spinlock for a moment.
 */
void ppc_access(struct ppc_open *po, pgoff_t index, unsigned long nr, u8 flags)
{
	struct ppc_event ev = {
		.file_id = PPC_I(po->inode)->file_id,
		.open_id = po->open_id,
		.offset = (u64)index << PAGE_SHIFT,
		.length = min_t(u64, (u64)nr << PAGE_SHIFT, U32_MAX & PAGE_MASK),
		.kind = PPC_EV_ACCESS,
		.flags = flags,
	};
	struct ppc_event out = {};

	if (!ppc_upc_stamp(po->sbi, &ev))
		return;
	spin_lock(&po->events.lock);
	if (ppc_access_merges(&po->events.pending, &ev)) {
		struct ppc_event *pending = &po->events.pending;

		pending->length = max(pending->offset + pending->length,
				      ev.offset + ev.length) - pending->offset;
		ppc_stat_add(po->sbi, PPC_STAT_COALESCED, 1);
	} else {
		out = po->events.pending;
		po->events.pending = ev;
		if (list_empty(&po->events.link))
			ppc_access_list(po);
	}
	spin_unlock(&po->events.lock);
	if (out.length)
		ppc_upc_queue(po->sbi, &out);
}

/* Takes the first open file off a list; referenced. */
static struct ppc_open *ppc_access_next(struct ppc_sb *sbi, struct list_head *list)
{
	struct ppc_open *po, *found = NULL;

	spin_lock(&sbi->pending_lock);
	while (!found && !list_empty(list)) {
		po = list_first_entry(list, struct ppc_open, events.link);
		if (ppc_open_try_get(po))
			found = po;
		/* a file with no references left may be freed from here on, see open.c */
		list_del_init_careful(&po->events.link);
	}
	spin_unlock(&sbi->pending_lock);
	return found;
}

/**
 * ppc_access_flush_all - queue the pending accesses of all open files
 * @sbi: mount
 *
 * On return all accesses that were pending at the call are queued.  Files that
 * are read meanwhile are listed anew and left to the next flush.
 *
 * Context: may sleep.
 */
void ppc_access_flush_all(struct ppc_sb *sbi)
{
	struct ppc_open *po;
	LIST_HEAD(list);

	/* wait for another flush: it may still be queueing files it has unlisted */
	mutex_lock(&sbi->flush_mutex);
	spin_lock(&sbi->pending_lock);
	list_splice_init(&sbi->pending, &list);
	spin_unlock(&sbi->pending_lock);
	while ((po = ppc_access_next(sbi, &list))) {
		ppc_access_flush(po);
		ppc_open_put(po);
		cond_resched();
	}
	mutex_unlock(&sbi->flush_mutex);
}

/* The last access of a file must not wait for the next one. */
void ppc_access_flush_work(struct work_struct *work)
{
	struct ppc_sb *sbi = container_of(to_delayed_work(work), struct ppc_sb, flush_work);

	ppc_access_flush_all(sbi);
	if (READ_ONCE(sbi->mode) & PPC_MODE_TRACE)
		schedule_delayed_work(&sbi->flush_work, msecs_to_jiffies(PPC_ACCESS_FLUSH_MS));
}
