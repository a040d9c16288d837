/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Mappings: which file a VMA points at, and what fault-around maps.
 */
#ifndef PPC_COMPAT_MMAP_H
#define PPC_COMPAT_MMAP_H

#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>

/* 6.3: helpers change vma->vm_flags. */
#ifndef PPC_HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}

static inline void vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#endif

/* 5.11. */
#ifndef PPC_HAVE_VMA_SET_FILE
static inline void vma_set_file(struct vm_area_struct *vma, struct file *file)
{
	struct file *old = vma->vm_file;

	vma->vm_file = get_file(file);
	fput(old);
}

/* After an error mmap_region() drops the file that it called, not the VMA's. */
static inline void compat_mmap_failed(struct vm_area_struct *vma, struct file *file)
{
	vma_set_file(vma, file);
}
#else
static inline void compat_mmap_failed(struct vm_area_struct *vma, struct file *file)
{
}
#endif

/* 6.7; before, faults on files hold mmap_lock only. */
#ifndef PPC_HAVE_RELEASE_FAULT_LOCK
static inline void release_fault_lock(struct vm_fault *vmf)
{
	mmap_read_unlock(vmf->vma->vm_mm);
}
#endif

/* 6.16: these functions know ->mmap_prepare(). */
#ifndef PPC_HAVE_VFS_MMAP
static inline bool can_mmap_file(struct file *file)
{
	return file->f_op->mmap;
}

static inline int vfs_mmap(struct file *file, struct vm_area_struct *vma)
{
	return call_mmap(file, vma);
}
#endif

/* 7.1: vfs_mmap() has called it already; it is not for operations set in ->mmap(). */
#ifdef PPC_HAVE_VM_OPS_MAPPED
#define ppc_clear_mapped(ops)	((ops)->mapped = NULL)
#else
#define ppc_clear_mapped(ops)	do { } while (0)
#endif

/*
 * The lower ->map_pages() for [from, to], a part of the range from @start on
 * that the caller is to map.  5.12: it returns a result; before, vmf->address is that
 * of the first page and is not looked up again.
 */
#ifdef PPC_HAVE_MAP_PAGES_RET
#define PPC_MAPPED	vm_fault_t
#define PPC_MAPPED_NONE	0
static inline vm_fault_t ppc_lower_map_pages(const struct vm_operations_struct *ops,
					     struct vm_fault *vmf, pgoff_t start, pgoff_t from,
					     pgoff_t to)
{
	return ops->map_pages(vmf, from, to);
}
#else
#define PPC_MAPPED	void
#define PPC_MAPPED_NONE
static inline void ppc_lower_map_pages(const struct vm_operations_struct *ops,
				       struct vm_fault *vmf, pgoff_t start, pgoff_t from,
				       pgoff_t to)
{
	vmf->address += (from - start) << PAGE_SHIFT;
	if (vmf->pte)
		vmf->pte += from - start;
	ops->map_pages(vmf, from, to);
}
#endif

/* 6.18. */
#ifdef PPC_HAVE_MAPS_FOLIOS
#define PPC_MAPS_FOLIOS	1
#include "whole.h"
#else
#define PPC_MAPS_FOLIOS	0
static inline unsigned long ppc_fault_span(const struct vm_fault *vmf, pgoff_t *first)
{
	*first = vmf->pgoff;
	return 1;
}

static inline pgoff_t ppc_mapped_end(const struct vm_fault *vmf, pgoff_t index)
{
	return index + 1;
}
#endif

#endif /* PPC_COMPAT_MMAP_H */
