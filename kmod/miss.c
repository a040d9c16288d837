// SPDX-License-Identifier: GPL-2.0-only
/*
 * Miss detection: finds the pages of an access that are absent from the lower
 * page cache, reports them, and loads the demand window at once while a policy
 * manages read-ahead.
 *
 * Paper: 3.1 (miss detection).
 * Differs from the paper: hits are reported as well on request (beacons,
 * trace), because with prefetch ahead of the application there are no misses.
 *
 * Context: the application's read or fault.  Faults come with mmap_lock or the
 * VMA lock held: nothing here waits for user space or copies to it, and a wait
 * for the device drops the lock first.
 */
#include <linux/pagemap.h>
#include <linux/vmstat.h>
#include <linux/xarray.h>

#include "ppc.h"
#include "trace.h"

/* Most pages of demand windows that one read() submits before it reads. */
#define PPC_READ_WINDOW_PAGES	((16UL << 20) >> PAGE_SHIFT)

/* Most absent extents that one read() reports one by one; the rest are one event. */
#define PPC_READ_EXTENTS	64

static pgoff_t ppc_pages(const struct address_space *mapping)
{
	return DIV_ROUND_UP(i_size_read(mapping->host), PAGE_SIZE);
}

static __always_inline struct ppc_event ppc_event_of(struct ppc_open *po, u8 kind, u8 flags,
						     pgoff_t index, unsigned long nr)
{
	return (struct ppc_event) {
		.file_id = PPC_I(po->inode)->file_id,
		.open_id = po->open_id,
		.offset = (u64)index << PAGE_SHIFT,
		.length = min_t(u64, (u64)nr << PAGE_SHIFT, U32_MAX & PAGE_MASK),
		.kind = kind,
		.flags = flags,
	};
}

static void ppc_emit_progress(struct ppc_open *po, u8 flags, pgoff_t index, unsigned long nr)
{
	struct ppc_event ev = ppc_event_of(po, PPC_EV_PROGRESS, flags | PPC_EVF_HIT, index, nr);

	ppc_upc_emit_limited(po->sbi, &ev);
}

/*
 * Small windows and native read-around cause dozens of misses per MiB of a
 * mapping; waking the consumer for each would be costly.  The first miss in a
 * MiB of an open file wakes it; later ones there wait for the next
 * wake-up, or a moment.
 */
static bool ppc_miss_is_urgent(struct ppc_open *po, pgoff_t index)
{
	if (index - READ_ONCE(po->history.urgent_page) < PPC_URGENT_PAGES)
		return false;
	WRITE_ONCE(po->history.urgent_page, index);
	return true;
}

/**
 * ppc_tests_bypass - whether this read will show if the file is cached
 * @po: open file
 * @pos: of the read, in bytes
 *
 * FUSE and network file systems may bypass the page cache, by the server's
 * choice and without a sign.  A read that leaves an absent page absent shows
 * it.  No window is loaded until a read has left its page in the cache, and
 * after some that have not, nothing is reported for this open file until one
 * does.
 */
bool ppc_tests_bypass(struct ppc_open *po, loff_t pos)
{
	return READ_ONCE(po->history.bypass) &&
	       !ppc_is_present(PPC_I(po->inode)->mapping, pos >> PAGE_SHIFT);
}

/* After a read of at least one byte at @pos for which ppc_tests_bypass() was true. */
void ppc_learn_bypass(struct ppc_open *po, loff_t pos)
{
	u8 bypass = READ_ONCE(po->history.bypass);

	if (ppc_is_present(PPC_I(po->inode)->mapping, pos >> PAGE_SHIFT))
		WRITE_ONCE(po->history.bypass, 0);
	else if (bypass && bypass < PPC_BYPASS_ASSUMED)
		WRITE_ONCE(po->history.bypass, bypass + 1);
}

static __always_inline void ppc_emit_miss(struct ppc_open *po, u8 kind, u8 flags, pgoff_t index,
					  unsigned long nr)
{
	struct ppc_event ev = ppc_event_of(po, kind, flags, index, nr);

	ppc_stat_add(po->sbi,
		     kind == PPC_EV_MISS_READ ? PPC_STAT_MISSES_READ : PPC_STAT_MISSES_FAULT, 1);
	trace_ppc_miss(ppc_dev_minor(po->sbi), ev.file_id, index, nr, kind);
	ppc_upc_emit(po->sbi, &ev, ppc_miss_is_urgent(po, index));
}

/*
 * Starts reading the aligned windows around [index, index + nr) and returns
 * when the requests are submitted; the lower read or fault waits for its page.
 */
static void ppc_load_window(struct ppc_open *po, struct file *lower, pgoff_t index,
			    unsigned long nr)
{
	struct address_space *mapping = PPC_I(po->inode)->mapping;
	unsigned long window = READ_ONCE(po->sbi->window_pages);
	pgoff_t start = round_down(index, window);
	pgoff_t end = min(round_up(index + nr, window), ppc_pages(mapping));
	unsigned long absent;

	if (start >= end || !ppc_can_readahead(mapping))
		return;
	absent = ppc_count_absent(mapping, start, end - 1);
	if (!absent)
		return;
	ppc_start_window(ppc_bottom_file(lower), start, end - start);
	ppc_stat_add(po->sbi, PPC_STAT_WINDOW_BYTES, (u64)absent << PAGE_SHIFT);
}

static bool ppc_manages(const struct ppc_open *po, unsigned long mode)
{
	return (mode & PPC_MODE_MANAGED) && !READ_ONCE(PPC_I(po->inode)->native);
}

/* Without events->lock it may not see the newest one. */
static bool ppc_beacon_listed(const struct ppc_open_events *events, u64 key)
{
	unsigned int i, n = READ_ONCE(events->beacons);

	for (i = 0; i < n; i++) {
		if (READ_ONCE(events->beacon_recent[i]) == key)
			return true;
	}
	return false;
}

/*
 * Whether a PROGRESS event in this beacon stride of this open file was sent for
 * this thread group lately; remembers it.
 */
static bool ppc_beacon_known(struct ppc_open *po, u64 beacon)
{
	struct ppc_open_events *events = &po->events;
	u64 key = (beacon << 32) | (u32)current->tgid;
	bool known;

	if (likely(READ_ONCE(events->beacon_last) == key))
		return true;
	/* nothing is written when threads read one descriptor in several strides */
	if (ppc_beacon_listed(events, key))
		return true;
	spin_lock(&events->lock);
	known = ppc_beacon_listed(events, key);
	if (!known) {
		WRITE_ONCE(events->beacon_recent[events->beacon_next], key);
		events->beacon_next = (events->beacon_next + 1) % PPC_BEACON_RECENT;
		WRITE_ONCE(events->beacons, min(events->beacons + 1, PPC_BEACON_RECENT));
		WRITE_ONCE(events->beacon_last, key);
	}
	spin_unlock(&events->lock);
	return known;
}

/**
 * ppc_report_read - report a read that is about to happen
 * @po: open file
 * @pos: in bytes
 * @count: in bytes
 * @mode: PPC_MODE_*, as read once by the caller, not 0
 *
 * Context: may sleep (allocates page cache while a policy manages read-ahead).
 */
void ppc_report_read(struct ppc_open *po, loff_t pos, size_t count, unsigned long mode)
{
	struct address_space *mapping = PPC_I(po->inode)->mapping;
	loff_t size = i_size_read(mapping->host);
	unsigned long budget = PPC_READ_WINDOW_PAGES;
	unsigned int extents = 0;
	pgoff_t first, last, at;
	unsigned long nr;
	u8 bypass;

	if (!count || pos < 0 || pos >= size || IS_DAX(mapping->host))
		return;
	first = pos >> PAGE_SHIFT;
	last = (min_t(u64, (u64)pos + count, size) - 1) >> PAGE_SHIFT;

	for (at = first; at <= last; at += nr) {
		nr = ppc_next_absent(mapping, &at, last);
		if (!nr)
			break;
		bypass = READ_ONCE(po->history.bypass);
		if (unlikely(bypass == PPC_BYPASS_ASSUMED))
			return;
		/* bounds a read of GiBs with many holes */
		if (unlikely(++extents == PPC_READ_EXTENTS))
			nr = last - at + 1;
		ppc_emit_miss(po, PPC_EV_MISS_READ, 0, at, nr);
		if (budget && !bypass && ppc_manages(po, mode) && !READ_ONCE(po->ra.random)) {
			ppc_load_window(po, po->lower, at, min(nr, budget));
			budget -= min(nr, budget);
		}
		cond_resched();
	}

	if (mode & PPC_MODE_TRACE)
		ppc_access(po, first, last - first + 1, extents ? 0 : PPC_EVF_HIT);
	if (mode & PPC_MODE_BEACON) {
		u64 beacon = last >> READ_ONCE(po->sbi->beacon_shift);

		/* A miss has reported the position already. */
		if (!ppc_beacon_known(po, beacon) && !extents)
			ppc_emit_progress(po, 0, first, last - first + 1);
	}
}

static u8 ppc_fault_flags(const struct vm_fault *vmf)
{
	u8 flags = 0;

	/*
	 * A kernel copy for the user (write() from the mapping) is
	 * interruptible; populate and GUP are not, and do not consume the page.
	 */
	if (!(vmf->flags & (FAULT_FLAG_USER | FAULT_FLAG_INTERRUPTIBLE)))
		flags |= PPC_EVF_NOT_USER;
	if (vmf->flags & FAULT_FLAG_WRITE)
		flags |= PPC_EVF_WRITE;
	return flags;
}

/*
 * For tracing: whether the first try of this thread's current fault was a hit.
 * A thread is in one fault at a time; threads that share a slot may take each
 * other's hit when they fault at the same time.
 */
static u64 *ppc_fault_slot(const struct ppc_open *po)
{
	return &po->sbi->recent_faults[current->pid % PPC_RECENT_FAULTS];
}

static u64 ppc_fault_key(const struct vm_fault *vmf)
{
	return ((u64)current->pid << 32) | (u32)vmf->pgoff;
}

static void ppc_remember_fault(struct ppc_open *po, const struct vm_fault *vmf, bool hit)
{
	u64 *slot = ppc_fault_slot(po), key = ppc_fault_key(vmf);

	if (hit)
		WRITE_ONCE(*slot, key);
	else if (READ_ONCE(*slot) == key)
		WRITE_ONCE(*slot, 0);
}

/*
 * The end of the pages that are mapped together with a beacon page, cached
 * because faults near it come in dozens.  If the folio has been replaced, it
 * was evicted, and the miss has reported the position.
 */
pgoff_t ppc_beacon_end(struct ppc_open *po, const struct vm_fault *vmf, pgoff_t beacon)
{
	pgoff_t end;

	if (READ_ONCE(po->history.beacon_page) == beacon)
		return READ_ONCE(po->history.beacon_end);
	end = ppc_mapped_end(vmf, beacon);
	if (end) {
		WRITE_ONCE(po->history.beacon_end, end);
		WRITE_ONCE(po->history.beacon_page, beacon);
	}
	return end;
}

/* Whether a fault maps the first page of its beacon stride. */
static bool ppc_fault_at_beacon(struct ppc_open *po, const struct vm_fault *vmf)
{
	pgoff_t index = vmf->pgoff;
	pgoff_t beacon = round_down(index, 1UL << READ_ONCE(po->sbi->beacon_shift));

	if (index == beacon)
		return true;
	/* at most a page table is mapped at once */
	if (!PPC_MAPS_FOLIOS || index - beacon >= PTRS_PER_PTE)
		return false;
	return index < ppc_beacon_end(po, vmf, beacon);
}

/*
 * Waits for the page as filemap_fault() does: without the lock where the fault
 * can be retried, since other threads may need the lock; and until the page is
 * present, since the second try would wait with the lock held.
 */
static vm_fault_t ppc_fault_window(struct ppc_open *po, struct vm_fault *vmf)
{
	pgoff_t index = vmf->pgoff;
	struct folio *folio;

	if (vmf->flags & FAULT_FLAG_RETRY_NOWAIT)
		return 0;
	if (!fault_flag_allow_retry_first(vmf->flags)) {
		ppc_load_window(po, po->lower, index, 1);
		return 0;
	}
	/* once the lock is dropped the VMA, and its reference, may go */
	ppc_open_get(po);
	release_fault_lock(vmf);
	count_vm_event(PGMAJFAULT);
	ppc_load_window(po, po->lower, index, 1);
	folio = filemap_get_folio(PPC_I(po->inode)->mapping, index);
	if (!ppc_no_folio(folio)) {
		folio_wait_locked_killable(folio);
		folio_put(folio);
	}
	ppc_open_put(po);
	return VM_FAULT_MAJOR | VM_FAULT_RETRY;
}

/**
 * ppc_report_fault - report a fault that is about to be handled
 * @po: open file of the VMA
 * @vmf: the fault
 * @mode: PPC_MODE_*, as read once by the caller, not 0
 * @hit: out: whether the page was present at the first try
 *
 * Context: mmap_lock or the VMA lock held.
 * Return: 0, or the result to end the fault with; then the lock is dropped, and
 * @po and the VMA may be gone
 */
vm_fault_t ppc_report_fault(struct ppc_open *po, struct vm_fault *vmf, unsigned long mode,
			    bool *hit)
{
	struct address_space *mapping = vmf->vma->vm_file->f_mapping;
	pgoff_t index = vmf->pgoff;

	/* A second try: the first one waited for the page. */
	if (vmf->flags & FAULT_FLAG_TRIED) {
		*hit = READ_ONCE(*ppc_fault_slot(po)) == ppc_fault_key(vmf);
		return 0;
	}
	*hit = false;
	if (index >= ppc_pages(mapping) || IS_DAX(mapping->host))
		return 0;

	*hit = ppc_is_present(mapping, index);
	if (mode & PPC_MODE_TRACE)
		ppc_remember_fault(po, vmf, *hit);
	if (*hit) {
		if ((mode & PPC_MODE_BEACON) && ppc_fault_at_beacon(po, vmf))
			ppc_emit_progress(po, ppc_fault_flags(vmf) | PPC_EVF_MMAP, index, 1);
		return 0;
	}

	ppc_emit_miss(po, PPC_EV_MISS_FAULT, ppc_fault_flags(vmf), index, 1);
	if (PPC_FAULT_WINDOW && ppc_manages(po, mode) && !(vmf->vma->vm_flags & VM_RAND_READ))
		return ppc_fault_window(po, vmf);
	return 0;
}

/**
 * ppc_fault_access - for tracing: record the pages that a fault has mapped
 * @po: open file of the VMA
 * @vmf: the fault
 * @ret: what the lower handler returned, not VM_FAULT_RETRY
 * @hit: from ppc_report_fault()
 *
 * Context: mmap_lock or the VMA lock held, vmf->page locked if @ret says so.
 */
void ppc_fault_access(struct ppc_open *po, struct vm_fault *vmf, vm_fault_t ret, bool hit)
{
	u8 flags = ppc_fault_flags(vmf) | PPC_EVF_MMAP | (hit ? PPC_EVF_HIT : 0);
	struct address_space *mapping = vmf->vma->vm_file->f_mapping;
	pgoff_t first = vmf->pgoff;
	unsigned long nr = 1;

	if (first >= ppc_pages(mapping) || IS_DAX(mapping->host))
		return;
	if (ret & VM_FAULT_LOCKED)
		nr = ppc_fault_span(vmf, &first);
	ppc_access(po, first, nr, flags);
}
