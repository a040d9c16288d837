// SPDX-License-Identifier: GPL-2.0-only
/*
 * ACCESS events while tracing: adjacent accesses of one thread are merged in
 * the open file and queued as one event.
 */
#include <linux/jiffies.h>

#include "ppc.h"

#define PPC_ACCESS_MAX_BYTES	(16U << 20)
#define PPC_ACCESS_MAX_NS	(100 * NSEC_PER_MSEC)
#define PPC_ACCESS_FLUSH_MS	100

/* Caller holds po->lock. */
static bool ppc_access_merges(const struct ppc_event *pending, const struct ppc_event *ev)
{
	u64 pending_end = pending->offset + pending->length;
	u64 end = ev->offset + ev->length;

	return pending->length && pending->tid == ev->tid && pending->flags == ev->flags &&
	       pending->tgid == ev->tgid && ev->offset >= pending->offset &&
	       ev->offset <= pending_end && end - pending->offset <= PPC_ACCESS_MAX_BYTES &&
	       ev->time_ns - pending->time_ns < PPC_ACCESS_MAX_NS;
}

/**
 * ppc_access - note an access of pages
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

	if (!ppc_upc_fill(po->sbi, &ev))
		return;
	spin_lock(&po->lock);
	if (ppc_access_merges(&po->pending, &ev)) {
		u64 end = max(po->pending.offset + po->pending.length, ev.offset + ev.length);

		po->pending.length = end - po->pending.offset;
		ppc_stat_add(po->sbi, PPC_STAT_COALESCED, 1);
	} else {
		out = po->pending;
		po->pending = ev;
	}
	spin_unlock(&po->lock);
	if (out.length)
		ppc_upc_queue(po->sbi, &out);
}

/**
 * ppc_access_flush - queue what is still pending
 * @po: open file
 *
 * Context: any that may take a spinlock.
 */
void ppc_access_flush(struct ppc_open *po)
{
	struct ppc_event out;

	spin_lock(&po->lock);
	out = po->pending;
	po->pending.length = 0;
	spin_unlock(&po->lock);
	if (out.length)
		ppc_upc_queue(po->sbi, &out);
}

/**
 * ppc_access_flush_all - the same of all open files
 * @sbi: mount
 */
void ppc_access_flush_all(struct ppc_sb *sbi)
{
	struct ppc_open *po;

	spin_lock(&sbi->open_lock);
	list_for_each_entry(po, &sbi->open_files, link) {
		if (READ_ONCE(po->pending.length))
			ppc_access_flush(po);
	}
	spin_unlock(&sbi->open_lock);
}

/* While tracing: the last access of a file must not wait for the next one. */
void ppc_access_flush_work(struct work_struct *work)
{
	struct ppc_sb *sbi = container_of(to_delayed_work(work), struct ppc_sb, flush_work);

	ppc_access_flush_all(sbi);
	if (READ_ONCE(sbi->mode) & PPC_MODE_TRACE)
		schedule_delayed_work(&sbi->flush_work, msecs_to_jiffies(PPC_ACCESS_FLUSH_MS));
}
