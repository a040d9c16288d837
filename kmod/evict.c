// SPDX-License-Identifier: GPL-2.0-only
/*
 * EVICT: drops clean page cache of a range.  Safe at any time: whoever still
 * maps a dropped page faults the same bytes in again.
 *
 * Paper: 3.2, the evictor.
 * Differs from the paper: mapped pages can be dropped too (UNMAP), since
 * loaders map their checkpoints.
 */
#include <linux/fadvise.h>
#include <linux/pagemap.h>
#include <linux/xarray.h>

#include "ppc.h"
#include "trace.h"

/* Looked at, unmapped and dropped together. */
#define PPC_EVICT_CHUNK_PAGES	((8UL << 20) >> PAGE_SHIFT)
/* Draining LRU batches interrupts every CPU: once per that much evicted. */
#define PPC_DRAIN_BYTES		(64LL << 20)

struct ppc_evictor {
	struct ppc_sb *sbi;
	struct ppc_evict *req;
	struct inode *inode;
	struct address_space *mapping;
};

static bool ppc_is_kept(const struct ppc_evictor *e, struct folio *folio)
{
	return folio_test_mlocked(folio) && !(e->req->flags & PPC_EVICT_EVEN_LOCKED);
}

/* Pages of [index, last] that a folio covers from index on. */
static unsigned long ppc_folio_span(struct folio *folio, pgoff_t index, pgoff_t last)
{
	pgoff_t next = folio_next_index(folio);

	return next > index ? min(next, last + 1) - index : 1;
}

/*
 * A run of resident folios of which none is kept, from *first on; *mapped says
 * whether one is mapped.  Folios are looked at under RCU only: flags of one
 * that is being freed are read for nothing, and do no harm.
 */
static unsigned long ppc_evict_run(struct ppc_evictor *e, pgoff_t *first, pgoff_t last,
				   u64 *asked, bool *mapped)
{
	XA_STATE(xas, &e->mapping->i_pages, *first);
	pgoff_t start = 0, end = 0;
	struct folio *folio;
	bool found = false;

	*mapped = false;
	rcu_read_lock();
	xas_for_each(&xas, folio, last) {
		pgoff_t index = max(xas.xa_index, *first);
		unsigned long nr;

		if (xas_retry(&xas, folio) || xa_is_value(folio))
			continue;
		nr = ppc_folio_span(folio, index, last);
		if (ppc_is_kept(e, folio)) {
			if (found)
				break;
			*asked += (u64)nr << PAGE_SHIFT;
			continue;
		}
		if (!found)
			start = index;
		found = true;
		end = index + nr;
		*asked += (u64)nr << PAGE_SHIFT;
		*mapped |= folio_mapped(folio);
	}
	rcu_read_unlock();
	*first = start;
	return found ? end - start : 0;
}

struct ppc_left {
	u64 mapped, dirty, locked, busy;
};

static void ppc_count_left(struct ppc_evictor *e, pgoff_t first, pgoff_t last,
			   struct ppc_left *left)
{
	XA_STATE(xas, &e->mapping->i_pages, first);
	struct folio *folio;

	rcu_read_lock();
	xas_for_each(&xas, folio, last) {
		pgoff_t index = max(xas.xa_index, first);
		u64 bytes;

		if (xas_retry(&xas, folio) || xa_is_value(folio))
			continue;
		bytes = (u64)ppc_folio_span(folio, index, last) << PAGE_SHIFT;
		if (ppc_is_kept(e, folio))
			left->locked += bytes;
		else if (folio_test_dirty(folio) || folio_test_writeback(folio))
			left->dirty += bytes;
		else if (folio_mapped(folio))
			left->mapped += bytes;
		else
			left->busy += bytes;
	}
	rcu_read_unlock();
}

static void ppc_evict_pages(struct ppc_evictor *e, pgoff_t first, pgoff_t last, u64 *asked)
{
	unsigned long nr;
	bool mapped;

	while (first <= last) {
		nr = ppc_evict_run(e, &first, last, asked, &mapped);
		if (!nr)
			break;
		if (mapped && (e->req->flags & PPC_EVICT_UNMAP))
			unmap_mapping_range(e->mapping, (loff_t)first << PAGE_SHIFT,
					    (loff_t)nr << PAGE_SHIFT, 0);
		invalidate_mapping_pages(e->mapping, first, first + nr - 1);
		first += nr;
	}
}

/*
 * Pages read a moment ago sit in per-CPU LRU batches and cannot be dropped.
 * DONTNEED drains them; it would also start writing dirty pages, which is not
 * ours to do.
 */
static void ppc_evict_stragglers(struct ppc_evictor *e, pgoff_t first, pgoff_t last)
{
	struct file *file;

	if (mapping_tagged(e->mapping, PAGECACHE_TAG_DIRTY))
		return;
	if (!(e->req->flags & PPC_EVICT_DRAIN) &&
	    atomic64_read(&e->sbi->undrained_bytes) < PPC_DRAIN_BYTES)
		return;
	file = ppc_open_private(e->sbi, e->inode);
	if (IS_ERR(file))
		return;
	atomic64_set(&e->sbi->undrained_bytes, 0);
	vfs_fadvise(file, (loff_t)first << PAGE_SHIFT, (loff_t)(last - first + 1) << PAGE_SHIFT,
		    POSIX_FADV_DONTNEED);
	fput(file);
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
	u64 size = i_size_read(e.mapping->host), end = req->offset + req->length, asked = 0;
	pgoff_t first = DIV_ROUND_UP(req->offset, PAGE_SIZE), stop, at;
	struct ppc_left left = {};
	u64 kept;

	/* the page that holds the end of the file goes whole */
	stop = end >= size ? DIV_ROUND_UP(size, PAGE_SIZE) : end >> PAGE_SHIFT;
	for (at = first; at < stop; at += PPC_EVICT_CHUNK_PAGES) {
		if (ppc_dev_dying(sbi) || fatal_signal_pending(current)) {
			stop = at;
			break;
		}
		ppc_evict_pages(&e, at, min(at + PPC_EVICT_CHUNK_PAGES, stop) - 1, &asked);
		cond_resched();
	}
	if (first < stop)
		ppc_count_left(&e, first, stop - 1, &left);
	atomic64_add(asked, &sbi->undrained_bytes);
	if (left.busy) {
		ppc_evict_stragglers(&e, first, stop - 1);
		memset(&left, 0, sizeof(left));
		ppc_count_left(&e, first, stop - 1, &left);
	}

	/* read again meanwhile: those count as busy, never as dropped */
	kept = left.mapped + left.dirty + left.locked;
	req->asked = max(asked, kept);
	req->mapped = left.mapped;
	req->dirty = left.dirty;
	req->locked = left.locked;
	req->busy = min(left.busy, req->asked - kept);
	req->dropped = req->asked - kept - req->busy;
	ppc_stat_add(sbi, PPC_STAT_EVICTED_BYTES, req->dropped);
	trace_ppc_evict(ppc_dev_minor(sbi), req->file_id, req->offset, req->length, req->asked,
			req->dropped, req->mapped, req->busy);
	return 0;
}
