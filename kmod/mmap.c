// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mappings.  A VMA gets the lower file, so that reclaim and eviction find its
 * pages, and a copy of the lower vm_operations in which .fault and .map_pages
 * are ours; vmf and vma are handed on unchanged.
 *
 * The copy is part of struct ppc_open: container_of(vma->vm_ops) is how a
 * fault finds the open file.  Each VMA holds a reference through .open and
 * .close (fork, split, mremap), so the copy outlives close().
 */
#include "ppc.h"

static struct ppc_open *ppc_open_of_vma(const struct vm_area_struct *vma)
{
	return container_of(vma->vm_ops, struct ppc_open, map.ops);
}

static vm_fault_t ppc_fault(struct vm_fault *vmf)
{
	struct ppc_open *po = ppc_open_of_vma(vmf->vma);
	unsigned long mode = READ_ONCE(po->sbi->mode);
	bool hit = false;
	vm_fault_t ret;

	if (mode) {
		ret = ppc_report_fault(po, vmf, mode, &hit);
		if (ret)
			return ret;
	}
	ret = po->map.lower->fault(vmf);
	if (unlikely((ret & (VM_FAULT_SIGBUS | VM_FAULT_RETRY)) == VM_FAULT_SIGBUS) &&
	    ppc_drop_failed(vmf->vma->vm_file->f_mapping, vmf->pgoff))
		ret = po->map.lower->fault(vmf);
	/* after VM_FAULT_RETRY the locks are gone, and vma and po may be */
	if (unlikely(mode & PPC_MODE_TRACE) && !(ret & VM_FAULT_RETRY))
		ppc_fault_access(po, vmf, ret, hit);
	return ret;
}

/* Whether [start, end] lies in one stride, behind the pages mapped with its beacon. */
static bool ppc_is_past_beacon(const struct ppc_open *po, pgoff_t start, pgoff_t end, u32 shift)
{
	if (PPC_MAPS_FOLIOS)
		return !((READ_ONCE(po->history.beacon_page) ^ end) >> shift) &&
		       start >= READ_ONCE(po->history.beacon_end);
	return !(((start - 1) ^ end) >> shift);
}

/*
 * Fault-around maps present pages without calling .fault.  While positions are
 * wanted, this function replaces it and leaves out the first page of each
 * beacon stride with the pages mapped together with it (every page, when
 * tracing), so that their first touch calls ppc_fault().
 */
static PPC_MAPPED ppc_map_pages(struct vm_fault *vmf, pgoff_t start, pgoff_t end)
{
	struct ppc_open *po = ppc_open_of_vma(vmf->vma);
	unsigned long mode = READ_ONCE(po->sbi->mode);
	u32 shift = READ_ONCE(po->sbi->beacon_shift);
	pgoff_t from = start;

	if (unlikely(mode & PPC_MODE_TRACE))
		return PPC_MAPPED_NONE;
	if ((mode & PPC_MODE_BEACON) && !ppc_is_past_beacon(po, start, end, shift)) {
		pgoff_t stride = 1UL << shift;
		pgoff_t beacon = round_down(vmf->pgoff, stride);

		if (vmf->pgoff == beacon)
			return PPC_MAPPED_NONE;
		from = max(start, beacon + 1);
		end = min(end, beacon + stride - 1);
		/* at most a page table is mapped at once */
		if (PPC_MAPS_FOLIOS && vmf->pgoff - beacon < PTRS_PER_PTE) {
			from = max(from, ppc_beacon_end(po, vmf, beacon));
			if (vmf->pgoff < from)
				return PPC_MAPPED_NONE;
		}
	}
	return ppc_lower_map_pages(po->map.lower, vmf, start, from, end);
}

static void ppc_vm_open(struct vm_area_struct *vma)
{
	struct ppc_open *po = ppc_open_of_vma(vma);

	ppc_open_get(po);
	if (po->map.lower->open)
		po->map.lower->open(vma);
}

static void ppc_vm_close(struct vm_area_struct *vma)
{
	struct ppc_open *po = ppc_open_of_vma(vma);

	if (po->map.lower->close)
		po->map.lower->close(vma);
	ppc_open_put(po);
}

static void ppc_set_map_pages(struct ppc_open *po, const struct vm_operations_struct *lower)
{
	unsigned long mode = READ_ONCE(po->sbi->mode);

	if (!lower || !lower->map_pages)
		return;
	WRITE_ONCE(po->map.ops.map_pages, mode & (PPC_MODE_BEACON | PPC_MODE_TRACE) ?
						 ppc_map_pages : lower->map_pages);
}

/**
 * ppc_choose_map_pages - use our .map_pages while positions are wanted
 * @po: open file
 *
 * Faults read the pointer without a lock; both functions are valid at any time,
 * and the pointer is NULL only if the lower one is.
 *
 * Context: ppc_open_list.lock held.
 */
void ppc_choose_map_pages(struct ppc_open *po)
{
	ppc_set_map_pages(po, po->map.lower);
}

static void ppc_copy_vm_ops(struct ppc_open *po, const struct vm_operations_struct *ops)
{
	spin_lock(&po->list->lock);
	if (!po->map.lower) {
		po->map.ops = *ops;
		ppc_clear_mapped(&po->map.ops);
		po->map.ops.open = ppc_vm_open;
		po->map.ops.close = ppc_vm_close;
		po->map.ops.fault = ppc_fault;
		ppc_set_map_pages(po, ops);
		/* pairs with the acquire in ppc_wrap_vm_ops() */
		smp_store_release(&po->map.lower, ops);
	}
	spin_unlock(&po->list->lock);
}

/*
 * Copies the lower operations once per open file.  False: this VMA has other
 * operations than the first one (the file changed to DAX, say) or operations
 * that cannot be wrapped; it then stays native.  A ppc mount below has wrapped
 * them already: its handlers expect their own copy in the VMA, and see the
 * faults.
 */
static bool ppc_wrap_vm_ops(struct ppc_open *po, const struct vm_operations_struct *ops)
{
	if (!ops || !ops->fault || ops->fault == ppc_fault)
		return false;
	/* pairs with the release in ppc_copy_vm_ops() */
	if (!smp_load_acquire(&po->map.lower))
		ppc_copy_vm_ops(po, ops);
	return po->map.lower == ops;
}

/**
 * ppc_mmap - ->mmap of regular files
 * @file: ours
 * @vma: new
 *
 * Context: mmap_lock held for writing.
 * Return: 0 or -errno
 */
int ppc_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct ppc_open *po = PPC_F(file);
	int err;

	if ((vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) == (VM_SHARED | VM_MAYWRITE))
		return -EACCES;
	if (!can_mmap_file(po->lower))
		return -ENODEV;

	err = ppc_map_lower(file, po->lower, vma);
	if (err)
		return err;
	/*
	 * A passthrough file of FUSE is mapped from the page cache of another
	 * file, unknown here: such a VMA stays native.
	 */
	if (vma->vm_file->f_mapping == PPC_I(po->inode)->mapping &&
	    ppc_wrap_vm_ops(po, vma->vm_ops)) {
		ppc_open_get(po);
		vma->vm_ops = &po->map.ops;
	}
	return 0;
}
