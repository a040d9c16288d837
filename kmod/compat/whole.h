/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From 6.18 on a fault, and each page that fault-around finds, maps the whole
 * large folio, if it lies within the file (tmpfs apart), the VMA and a page
 * table.  The rules are those of finish_fault() and filemap_map_pages(), which
 * are not for modules to change.
 */
#ifndef PPC_COMPAT_WHOLE_H
#define PPC_COMPAT_WHOLE_H

#include <linux/mm.h>
#include <linux/pagemap.h>

static inline bool compat_mapped_whole(const struct vm_fault *vmf, struct folio *folio)
{
	const struct vm_area_struct *vma = vmf->vma;
	struct address_space *mapping = vma->vm_file->f_mapping;
	pgoff_t pages = DIV_ROUND_UP(i_size_read(mapping->host), PAGE_SIZE);
	pgoff_t next = folio_next_index(folio);
	unsigned long start;

	if (vmf->flags & FAULT_FLAG_WRITE)
		return false;
	if (folio->index < vma->vm_pgoff || next > vma->vm_pgoff + vma_pages(vma))
		return false;
	if (next > pages && mapping->a_ops->readahead)
		return false;
	start = vma->vm_start + ((folio->index - vma->vm_pgoff) << PAGE_SHIFT);
	return (start & PMD_MASK) == ((start + folio_size(folio) - 1) & PMD_MASK);
}

/* Pages that were mapped together with vmf->page, which is locked; *first: where they begin. */
static inline unsigned long ppc_fault_span(const struct vm_fault *vmf, pgoff_t *first)
{
	struct folio *folio = page_folio(vmf->page);

	if (!folio_test_large(folio) || !compat_mapped_whole(vmf, folio)) {
		*first = vmf->pgoff;
		return 1;
	}
	*first = folio->index;
	return folio_nr_pages(folio);
}

/* The end of the pages that are mapped together with the page at @index; 0 when that is absent. */
static inline pgoff_t ppc_mapped_end(const struct vm_fault *vmf, pgoff_t index)
{
	struct folio *folio = filemap_get_folio(vmf->vma->vm_file->f_mapping, index);
	pgoff_t end = index + 1;

	if (IS_ERR(folio))
		return 0;
	if (folio_test_large(folio) && compat_mapped_whole(vmf, folio))
		end = folio_next_index(folio);
	folio_put(folio);
	return end;
}

#endif /* PPC_COMPAT_WHOLE_H */
