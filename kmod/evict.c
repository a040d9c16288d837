// SPDX-License-Identifier: GPL-2.0-only
/*
 * EVICT: drops clean page cache of a range.  Safe at any time: a task that
 * still maps a dropped page faults the same bytes in again.
 *
 * Paper: 3.2, the evictor.
 * Differs from the paper: mapped pages can be dropped too (UNMAP), since
 * loaders map their checkpoints.
 */
#include <linux/fadvise.h>
#include <linux/interval_tree_generic.h>
#include <linux/pagemap.h>
#include <linux/xarray.h>

#include "ppc.h"
#include "trace.h"

/*
 * A chunk is looked at, unmapped and dropped at once.  It begins at a multiple
 * of its size, which is that of the largest folio, so no folio lies across two.
 */
#define PPC_EVICT_CHUNK_PAGES	2048UL
/* Draining LRU batches interrupts every CPU: once per this many bytes evicted. */
#define PPC_DRAIN_BYTES		(64LL << 20)

struct ppc_evictor {
	struct ppc_sb *sbi;
	struct ppc_evict *req;
	struct inode *inode;
	struct address_space *mapping;
	u64 asked;
	u64 mapped, dirty, locked, busy;	/* resident bytes that stay */
	u64 writeback;				/* reported as dirty */
	u64 reading, straddling;		/* parts of busy */
	pgoff_t busy_first, busy_last;		/* the first busy folio; first > last: none */
	pgoff_t last;				/* of the range */
	pgoff_t locked_from, locked_to;		/* see ppc_find_locked() */
	bool killed;
};

static unsigned long ppc_vma_first(struct vm_area_struct *vma)
{
	return vma->vm_pgoff;
}

static unsigned long ppc_vma_last(struct vm_area_struct *vma)
{
	return vma->vm_pgoff + vma_pages(vma) - 1;
}

/* mm's own search of the tree is not exported. */
INTERVAL_TREE_DEFINE(struct vm_area_struct, shared.rb, unsigned long, shared.rb_subtree_last,
		     ppc_vma_first, ppc_vma_last, static __maybe_unused, ppc_vma_tree)

/*
 * Finds the first extent of the range, from @first on, that a VM_LOCKED mapping
 * covers.  It stays valid until the eviction is past it, so in most cases the
 * mappings are searched once.  PG_mlocked alone does not tell: kernels before
 * 6.7 do not set it on large folios.
 */
static void ppc_find_locked(struct ppc_evictor *e, pgoff_t first)
{
	struct vm_area_struct *vma;

	e->locked_from = ULONG_MAX;
	e->locked_to = ULONG_MAX;
	if (!mapping_mapped(e->mapping))
		return;
	i_mmap_lock_read(e->mapping);
	for (vma = ppc_vma_tree_iter_first(&e->mapping->i_mmap, first, e->last); vma;
	     vma = ppc_vma_tree_iter_next(vma, first, e->last)) {
		if (!(READ_ONCE(vma->vm_flags) & VM_LOCKED))
			continue;
		/* sorted by start: no later VMA begins earlier */
		e->locked_from = max(ppc_vma_first(vma), first);
		e->locked_to = ppc_vma_last(vma);
		break;
	}
	i_mmap_unlock_read(e->mapping);
}

/* Finds the first extent in [*first, *last] that a VM_LOCKED mapping covers. */
static bool ppc_next_locked(struct ppc_evictor *e, pgoff_t *first, pgoff_t *last)
{
	if (*first > e->locked_to)
		ppc_find_locked(e, *first);
	if (e->locked_from > *last)
		return false;
	*first = max(*first, e->locked_from);
	*last = min(*last, e->locked_to);
	return true;
}

static bool ppc_keeps_locked(const struct ppc_evictor *e)
{
	return !(e->req->flags & PPC_EVICT_EVEN_LOCKED);
}

static bool ppc_is_kept(const struct ppc_evictor *e, struct folio *folio)
{
	return ppc_keeps_locked(e) && folio_test_mlocked(folio);
}

/* Pages of [index, last] that a folio covers from index on. */
static unsigned long ppc_folio_span(struct folio *folio, pgoff_t index, pgoff_t last)
{
	pgoff_t next = folio_next_index(folio);

	return next > index ? min(next, last + 1) - index : 1;
}

/*
 * Finds a run of resident folios that may all be dropped, from *first on;
 * *mapped tells whether one is mapped.
 */
static unsigned long ppc_evict_run(struct ppc_evictor *e, pgoff_t *first, pgoff_t last,
				   bool *mapped)
{
	XA_STATE(xas, &e->mapping->i_pages, *first);
	pgoff_t start = 0, end = 0;
	struct folio *folio;
	bool found = false;

	*mapped = false;
	rcu_read_lock();
	xas_for_each(&xas, folio, last) {
		pgoff_t index = max(xas.xa_index, *first);
		bool is_kept, is_mapped;
		unsigned long nr;

		if (xas_retry(&xas, folio) || xa_is_value(folio) || !ppc_folio_pin(&xas, folio))
			continue;
		nr = ppc_folio_span(folio, index, last);
		is_kept = ppc_is_kept(e, folio);
		is_mapped = folio_mapped(folio);
		folio_put(folio);
		if (is_kept) {
			if (found)
				break;
			e->asked += (u64)nr << PAGE_SHIFT;
			continue;
		}
		if (!found)
			start = index;
		found = true;
		end = index + nr;
		e->asked += (u64)nr << PAGE_SHIFT;
		*mapped |= is_mapped;
	}
	rcu_read_unlock();
	*first = start;
	return found ? end - start : 0;
}

static void ppc_evict_pages(struct ppc_evictor *e, pgoff_t first, pgoff_t last)
{
	unsigned long nr;
	bool mapped;

	while (first <= last) {
		nr = ppc_evict_run(e, &first, last, &mapped);
		if (!nr)
			break;
		if (mapped && (e->req->flags & PPC_EVICT_UNMAP))
			unmap_mapping_range(e->mapping, (loff_t)first << PAGE_SHIFT,
					    (loff_t)nr << PAGE_SHIFT, 0);
		invalidate_mapping_pages(e->mapping, first, first + nr - 1);
		first += nr;
	}
}

/* A folio that straddles an end of the range cannot be dropped. */
static void ppc_count_busy(struct ppc_evictor *e, struct folio *folio, u64 bytes, pgoff_t first,
			   pgoff_t last)
{
	e->busy += bytes;
	if (folio_test_locked(folio))
		e->reading += bytes;
	else if (folio->index < first || folio_next_index(folio) - 1 > last)
		e->straddling += bytes;
	if (e->busy_first <= e->busy_last || folio->index < first ||
	    folio_next_index(folio) - 1 > last)
		return;
	e->busy_first = folio->index;
	e->busy_last = folio_next_index(folio) - 1;
}

/* Counts the resident bytes of [first, last]; locked: a VM_LOCKED mapping covers them. */
static void ppc_count_left(struct ppc_evictor *e, pgoff_t first, pgoff_t last, bool locked)
{
	XA_STATE(xas, &e->mapping->i_pages, first);
	struct folio *folio;

	rcu_read_lock();
	xas_for_each(&xas, folio, last) {
		pgoff_t index = max(xas.xa_index, first);
		u64 bytes;

		if (xas_retry(&xas, folio) || xa_is_value(folio) || !ppc_folio_pin(&xas, folio))
			continue;
		bytes = (u64)ppc_folio_span(folio, index, last) << PAGE_SHIFT;
		if (locked || ppc_is_kept(e, folio))
			e->locked += bytes;
		else if (folio_test_writeback(folio))
			e->writeback += bytes;
		else if (folio_test_dirty(folio))
			e->dirty += bytes;
		else if (folio_mapped(folio))
			e->mapped += bytes;
		else
			ppc_count_busy(e, folio, bytes, first, last);
		folio_put(folio);
	}
	rcu_read_unlock();
}

/* One chunk: drops its pages around locked extents, then counts what is left. */
static void ppc_evict_chunk(struct ppc_evictor *e, pgoff_t first, pgoff_t last)
{
	while (first <= last) {
		pgoff_t from = first, to = last;
		bool locked = ppc_keeps_locked(e) && ppc_next_locked(e, &from, &to);
		pgoff_t stop = locked ? from : last + 1;
		u64 before;

		if (first < stop) {
			ppc_evict_pages(e, first, stop - 1);
			ppc_count_left(e, first, stop - 1, false);
		}
		if (!locked)
			break;
		before = e->locked;
		ppc_count_left(e, from, to, true);
		e->asked += e->locked - before;
		first = to + 1;
		cond_resched();
	}
}

/* Returns the first page that was not reached. */
static pgoff_t ppc_evict_chunks(struct ppc_evictor *e, pgoff_t first, pgoff_t stop)
{
	pgoff_t at, next;

	e->asked = 0;
	e->mapped = 0;
	e->dirty = 0;
	e->locked = 0;
	e->busy = 0;
	e->writeback = 0;
	e->reading = 0;
	e->straddling = 0;
	e->busy_first = 1;
	e->busy_last = 0;
	e->last = stop - 1;
	if (first < stop)
		ppc_find_locked(e, first);
	for (at = first; at < stop; at = next) {
		if (ppc_dev_dying(e->sbi))
			return at;
		if (fatal_signal_pending(current)) {
			e->killed = true;
			return at;
		}
		next = min(round_down(at, PPC_EVICT_CHUNK_PAGES) + PPC_EVICT_CHUNK_PAGES, stop);
		ppc_evict_chunk(e, at, next - 1);
		cond_resched();
	}
	return stop;
}

/*
 * Pages read a moment ago sit in per-CPU LRU batches and cannot be dropped.
 * Modules cannot drain the batches, but DONTNEED does when it fails to drop a
 * folio; so DONTNEED is called for one such folio, which is clean, so nothing
 * is written.  True: the batches were drained.
 */
static bool ppc_drain_batches(struct ppc_evictor *e)
{
	struct file *file;

	if (e->busy_first > e->busy_last)
		return false;
	if (!(e->req->flags & PPC_EVICT_DRAIN) &&
	    atomic64_read(&e->sbi->asked_bytes) < PPC_DRAIN_BYTES)
		return false;
	file = ppc_open_private(e->sbi, e->inode);
	if (IS_ERR(file))
		return false;
	atomic64_set(&e->sbi->asked_bytes, 0);
	vfs_fadvise(file, (loff_t)e->busy_first << PAGE_SHIFT,
		    (loff_t)(e->busy_last - e->busy_first + 1) << PAGE_SHIFT, POSIX_FADV_DONTNEED);
	fput(file);
	return true;
}

static void ppc_evict_account(const struct ppc_evictor *e)
{
	struct ppc_sb *sbi = e->sbi;

	ppc_stat_add(sbi, PPC_STAT_EVICTED_BYTES, e->req->dropped);
	ppc_stat_add(sbi, PPC_STAT_LEFT_MAPPED, e->mapped);
	ppc_stat_add(sbi, PPC_STAT_LEFT_DIRTY, e->dirty);
	ppc_stat_add(sbi, PPC_STAT_LEFT_WRITEBACK, e->writeback);
	ppc_stat_add(sbi, PPC_STAT_LEFT_LOCKED, e->locked);
	ppc_stat_add(sbi, PPC_STAT_LEFT_READING, e->reading);
	ppc_stat_add(sbi, PPC_STAT_LEFT_STRADDLING, e->straddling);
	ppc_stat_add(sbi, PPC_STAT_LEFT_BUSY, e->busy - e->reading - e->straddling);
	ppc_stat_add(sbi, PPC_STAT_EVICT_SIGNAL, e->killed);
}

/**
 * ppc_evict_range - PPC_IOC_EVICT
 * @sbi: mount
 * @inode: ours, regular, referenced
 * @req: arguments were checked; the numbers are set here
 *
 * Partial pages at the ends stay.  Stops early at a fatal signal or unmount.
 *
 * Context: ioctl.
 * Return: 0
 */
int ppc_evict_range(struct ppc_sb *sbi, struct inode *inode, struct ppc_evict *req)
{
	struct ppc_evictor e = {
		.sbi = sbi, .req = req, .inode = inode, .mapping = PPC_I(inode)->mapping,
	};
	u64 size = i_size_read(e.mapping->host), end = req->offset + req->length, asked, kept;
	pgoff_t first = DIV_ROUND_UP(req->offset, PAGE_SIZE), stop;

	/* the page that holds the end of the file goes whole */
	stop = end >= size ? DIV_ROUND_UP(size, PAGE_SIZE) : end >> PAGE_SHIFT;
	stop = ppc_evict_chunks(&e, first, max(first, stop));
	asked = e.asked;
	atomic64_add(asked, &sbi->asked_bytes);
	/* if it stopped early, the counts cover a part of the range only */
	if (ppc_drain_batches(&e) && ppc_evict_chunks(&e, first, stop) < stop)
		asked = e.asked;

	/* pages read again meanwhile count as busy, never as dropped */
	kept = e.mapped + e.dirty + e.writeback + e.locked;
	req->asked = max(asked, kept);
	req->mapped = e.mapped;
	req->dirty = e.dirty + e.writeback;
	req->locked = e.locked;
	req->busy = min(e.busy, req->asked - kept);
	req->dropped = req->asked - kept - req->busy;
	ppc_evict_account(&e);
	trace_ppc_evict(ppc_dev_minor(sbi), req->file_id, req->offset, req->length, req->asked,
			req->dropped, req->mapped, req->busy);
	return 0;
}
