// SPDX-License-Identifier: GPL-2.0-only
/*
 * LOAD: reads absent pages of a range into the page cache, in the caller.
 *
 * Works in steps of 2 MiB: by large folios where the lower file system takes
 * them (fill.c), else through its WILLNEED on a private file whose read-ahead
 * limit is one step.  So requests are as large as the device takes, and each
 * lower file system does its own locking.  With WAIT, one step is in flight
 * while the caller waits for the step before it.
 *
 * Paper: 3.2, the loader.
 */
#include <linux/blkdev.h>
#include <linux/fadvise.h>
#include <linux/memcontrol.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "ppc.h"
#include "trace.h"

/* Absent extents that one step may ask for. */
#define PPC_STEP_EXTENTS	16

struct ppc_step_io {
	struct {
		pgoff_t first;
		unsigned long nr;
	} extent[PPC_STEP_EXTENTS];
	unsigned int extents;
};

struct ppc_loader {
	struct ppc_sb *sbi;
	struct ppc_load *req;
	struct file *file;		/* opened by ppc_open_private() */
	struct address_space *mapping;
	struct mem_cgroup *memcg;	/* NULL: the caller's */
	const atomic64_t *cancel;	/* newest generation of the slot; NULL: none */
};

/* Reason to stop before the next step; PPC_STOP_DONE: none. */
static u32 ppc_load_stop(const struct ppc_loader *l)
{
	const struct ppc_load *req = l->req;

	if (ppc_dev_dying(l->sbi))
		return PPC_STOP_UNMOUNT;
	if (signal_pending(current))
		return PPC_STOP_SIGNAL;
	if (l->cancel && (u64)atomic64_read(l->cancel) > req->generation)
		return PPC_STOP_CANCELLED;
	return PPC_STOP_DONE;
}

/* Finds the absent extents of [first, last]; returns the first page not looked at. */
static pgoff_t ppc_step_scan(struct ppc_loader *l, pgoff_t first, pgoff_t last,
			     struct ppc_step_io *io)
{
	unsigned long nr, absent = 0;
	pgoff_t at = first, end = last + 1;

	io->extents = 0;
	while (at <= last) {
		nr = ppc_next_absent(l->mapping, &at, last);
		if (!nr)
			break;
		if (io->extents == PPC_STEP_EXTENTS) {
			end = at;
			break;
		}
		io->extent[io->extents].first = at;
		io->extent[io->extents].nr = nr;
		io->extents++;
		absent += nr;
		at += nr;
	}
	l->req->submitted += (u64)absent << PAGE_SHIFT;
	l->req->resident += (u64)(end - first - absent) << PAGE_SHIFT;
	return end;
}

/* False: no page could be added; memory is short. */
static bool ppc_step_submit(struct ppc_loader *l, struct ppc_step_io *io)
{
	struct mem_cgroup *old = NULL;
	struct blk_plug plug;
	unsigned int i;
	pgoff_t probe;

	if (!io->extents)
		return true;
	if (l->memcg)
		old = set_active_memcg(l->memcg);
	blk_start_plug(&plug);
	for (i = 0; i < io->extents; i++) {
		if (ppc_fills_large(l->mapping))
			ppc_fill(ppc_bottom_file(l->file), io->extent[i].first,
				 io->extent[i].nr, true);
		else
			vfs_fadvise(l->file, (loff_t)io->extent[i].first << PAGE_SHIFT,
				    (loff_t)io->extent[i].nr << PAGE_SHIFT, POSIX_FADV_WILLNEED);
	}
	blk_finish_plug(&plug);
	if (l->memcg)
		set_active_memcg(old);

	for (i = 0; i < io->extents; i++) {
		probe = io->extent[i].first;
		if (ppc_next_absent(l->mapping, &probe, probe + io->extent[i].nr - 1) <
		    io->extent[i].nr)
			return true;
	}
	return false;
}

/* No page was added: memory is short, or the file has become shorter. */
static u32 ppc_load_why_none(const struct ppc_loader *l, const struct ppc_step_io *io)
{
	u64 offset = (u64)io->extent[0].first << PAGE_SHIFT;

	return offset < i_size_read(l->mapping->host) ? PPC_STOP_NOMEM : PPC_STOP_EOF;
}

/* Counts bytes of the page at @index up to @end that are uptodate after their reads. */
static int ppc_wait_folio(struct ppc_loader *l, pgoff_t index, pgoff_t end, unsigned long *nr)
{
	struct folio *folio = filemap_get_folio(l->mapping, index);
	bool failed;
	int err;

	*nr = 1;
	if (ppc_no_folio(folio)) {
		l->req->failed += PAGE_SIZE;	/* never added, or reclaimed at once */
		return 0;
	}
	err = folio_wait_locked_killable(folio);
	if (!err) {
		*nr = min(folio_next_index(folio), end) - index;
		if (folio_test_uptodate(folio))
			l->req->loaded += (u64)*nr << PAGE_SHIFT;
		else
			l->req->failed += (u64)*nr << PAGE_SHIFT;
	}
	failed = !err && !folio_test_uptodate(folio);
	folio_put(folio);
	/* nor may other readers of the lower file fail on it */
	if (failed)
		ppc_drop_failed(l->mapping, index);
	return err;
}

static int ppc_step_wait(struct ppc_loader *l, const struct ppc_step_io *io)
{
	unsigned int i;

	for (i = 0; i < io->extents; i++) {
		pgoff_t index = io->extent[i].first;
		pgoff_t end = index + io->extent[i].nr;
		unsigned long nr;
		int err;

		for (; index < end; index += nr) {
			err = ppc_wait_folio(l, index, end, &nr);
			if (err)
				return err;
		}
		cond_resched();
	}
	return 0;
}

/* Pages [first, last]; sets stop, and *done to the number of pages considered. */
static void ppc_load_steps(struct ppc_loader *l, pgoff_t first, pgoff_t last, pgoff_t *done)
{
	bool wait = l->req->flags & PPC_LOAD_WAIT;
	struct ppc_step_io io[2] = {};
	pgoff_t at = first;
	unsigned int turn = 0;
	int err = 0;

	while (at <= last && !err) {
		struct ppc_step_io *now = &io[turn & 1];
		/* steps are aligned, so that neighbouring calls do not split requests */
		pgoff_t end = min(round_down(at, PPC_STEP_PAGES) + PPC_STEP_PAGES - 1, last);

		l->req->stop = ppc_load_stop(l);
		if (l->req->stop != PPC_STOP_DONE)
			break;
		at = ppc_step_scan(l, at, end, now);
		if (!ppc_step_submit(l, now))
			l->req->stop = ppc_load_why_none(l, now);
		turn++;
		if (wait && turn > 1)
			err = ppc_step_wait(l, &io[turn & 1]);
		if (l->req->stop != PPC_STOP_DONE)
			break;
		cond_resched();
	}
	if (wait && turn && !err)
		err = ppc_step_wait(l, &io[(turn - 1) & 1]);
	if (err)
		l->req->stop = PPC_STOP_SIGNAL;
	*done = at;
}

/* A stop by unmount is not counted: the counters are gone. */
static void ppc_load_count_stop(struct ppc_sb *sbi, u32 stop)
{
	switch (stop) {
	case PPC_STOP_SIGNAL:
		ppc_stat_add(sbi, PPC_STAT_LOAD_SIGNAL, 1);
		break;
	case PPC_STOP_CANCELLED:
		ppc_stat_add(sbi, PPC_STAT_LOAD_CANCELLED, 1);
		break;
	case PPC_STOP_NOMEM:
		ppc_stat_add(sbi, PPC_STAT_LOAD_NOMEM, 1);
		break;
	case PPC_STOP_UNSUPPORTED:
		ppc_stat_add(sbi, PPC_STAT_LOAD_UNSUPPORTED, 1);
		break;
	}
}

/**
 * ppc_load_range - PPC_IOC_LOAD
 * @sbi: mount
 * @inode: ours, regular, referenced
 * @req: arguments were checked; the numbers are set here
 * @memcg: cgroup to charge, NULL: the caller's
 * @cancel: newest generation of the request's slot, NULL: none
 *
 * Context: ioctl; CPU, memory policy and I/O context are the caller's.
 * Return: 0 with true numbers, also when stopped early; -errno when nothing
 * was tried
 */
int ppc_load_range(struct ppc_sb *sbi, struct inode *inode, struct ppc_load *req,
		   struct mem_cgroup *memcg, const atomic64_t *cancel)
{
	struct ppc_loader l = { .sbi = sbi, .req = req, .memcg = memcg, .cancel = cancel };
	u64 end = req->offset + req->length, size;
	pgoff_t first, done;

	req->loaded = 0;
	req->submitted = 0;
	req->resident = 0;
	req->failed = 0;
	req->done = 0;
	req->stop = PPC_STOP_DONE;

	l.mapping = PPC_I(inode)->mapping;
	if (!ppc_can_readahead(l.mapping)) {
		req->stop = PPC_STOP_UNSUPPORTED;
		goto out;
	}
	size = i_size_read(l.mapping->host);
	if (req->offset >= size) {
		req->stop = PPC_STOP_EOF;
		goto out;
	}
	l.file = ppc_open_private(sbi, inode);
	if (IS_ERR(l.file))
		return PTR_ERR(l.file);
	l.file->f_ra.ra_pages = PPC_STEP_PAGES;

	first = req->offset >> PAGE_SHIFT;
	ppc_load_steps(&l, first, (min(end, size) - 1) >> PAGE_SHIFT, &done);
	fput(l.file);

	req->done = done > first ? min((u64)done << PAGE_SHIFT, min(end, size)) - req->offset : 0;
	if (req->stop == PPC_STOP_DONE && end > size)
		req->stop = PPC_STOP_EOF;
out:
	ppc_stat_add(sbi, PPC_STAT_LOADED_BYTES,
		     (req->flags & PPC_LOAD_WAIT) ? req->loaded : req->submitted);
	ppc_stat_add(sbi, PPC_STAT_LOAD_RESIDENT_BYTES, req->resident);
	ppc_stat_add(sbi, PPC_STAT_LOAD_FAILED_BYTES, req->failed);
	ppc_load_count_stop(sbi, req->stop);
	trace_ppc_load(ppc_dev_minor(sbi), req->file_id, req->offset, req->done, req->submitted,
		       req->resident, req->failed, req->stop);
	return 0;
}
