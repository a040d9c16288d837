// SPDX-License-Identifier: GPL-2.0-only
/*
 * BPF programs that turn a stock kernel's page-cache activity into events of a PPC mount:
 * insertions are misses, reads and faults are positions.  They run on the application's path, so
 * all work is bounded: an unregistered file costs one look-up, a listed one mostly two; an event
 * that does not fit into its ring is counted and dropped.
 *
 * Linux 6.12 and later has tracepoints for all three; before, fentry programs enter functions.  The
 * loader of this object chooses the programs for the running kernel.
 */
#include "observer_note.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline unsigned int folio_order(struct folio *folio)
{
	struct folio___memdesc *memdesc = (void *)folio;
	struct folio___flags *flagged = (void *)folio;
	struct folio___order *ordered = (void *)folio;
	unsigned long flags = 0, second = 0;
	unsigned char order = 0;

	if (bpf_core_field_exists(memdesc->flags.f))
		flags = BPF_CORE_READ(memdesc, flags.f);
	else
		flags = BPF_CORE_READ(flagged, flags);
	if (!(flags >> bpf_core_enum_value(enum pageflags, PG_head) & 1))
		return 0;
	if (bpf_core_field_exists(ordered->_folio_order)) {
		order = BPF_CORE_READ(ordered, _folio_order);
	} else {
		second = BPF_CORE_READ(flagged, _flags_1);
		order = second & 0xff;
	}
	return order <= MAX_FOLIO_ORDER ? order : 0;
}

/* The entry of a page in the page cache: a folio, a value or nothing. */
static __always_inline unsigned long entry_at(struct address_space *mapping, __u64 index)
{
	unsigned long entry = (unsigned long)BPF_CORE_READ(mapping, i_pages.xa_head);

	/* The low bits of nodes are 2; small such entries refer to sibling slots. */
	for (int level = 0; level < XA_MOST_LEVELS && (entry & 3) == 2; level++) {
		struct xa_node *node = (void *)(entry - 2);
		__u64 slot = index >> BPF_CORE_READ(node, shift) & (XA_SLOTS - 1);

		if (bpf_core_read(&entry, sizeof(entry), &node->slots[slot]))
			return 0;
		if ((entry & 3) == 2 && entry >> 2 < XA_SLOTS &&
		    bpf_core_read(&entry, sizeof(entry), &node->slots[entry >> 2 & (XA_SLOTS - 1)]))
			return 0;
	}
	return entry;
}

/*
 * The folio that holds a page; false: none.  An index beyond the tree finds some other page's
 * entry, and memory freed meanwhile may hold anything.
 */
static __always_inline _Bool folio_range(struct address_space *mapping, __u64 index, __u64 *first,
					 __u64 *end)
{
	struct folio *folio = (void *)entry_at(mapping, index);
	__u64 start, pages;

	if (!folio || (unsigned long)folio & 3)
		return 0;
	start = BPF_CORE_READ(folio, index);
	pages = 1ULL << folio_order(folio);
	if (index < start || index - start >= pages)
		return 0;
	*first = start;
	*end = start + pages;
	return 1;
}

/* Pages [first, end) are mapped; from 6.18 on their whole folios are. */
static __always_inline void note_mapped(struct address_space *mapping, __u64 first, __u64 end)
{
	struct inode *host = BPF_CORE_READ(mapping, host);
	struct obs_dir *config = 0;
	struct obs_inode *inode;

	if (!host)
		return;
	inode = find_wanted(host, &config);
	if (!inode)
		return;
	/* A runner that wants only positions needs only the named page. */
	if (looks_for_folios && config->wants_trace) {
		__u64 folio = end, folio_end;

		if (folio_range(mapping, end - 1, &folio, &folio_end))
			end = folio_end;
		if (folio < first || folio_range(mapping, first, &folio, &folio_end))
			first = folio;
	}
	note_access_of(inode, config, first << PAGE_SHIFT, end << PAGE_SHIFT, 1);
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(on_insert, void *inserted)
{
	struct address_space *mapping;
	__u64 index, pages = 1;
	struct inode *host;

	if (has_folios) {
		struct folio *folio = inserted;

		mapping = BPF_CORE_READ(folio, mapping);
		index = BPF_CORE_READ(folio, index);
		pages = 1ULL << folio_order(folio);
	} else {
		struct page *page = inserted;

		mapping = BPF_CORE_READ(page, mapping);
		index = BPF_CORE_READ(page, index);
	}
	host = BPF_CORE_READ(mapping, host);
	/* Before 5.12 a read at the end of a file inserts a page there. */
	if (host && !has_folios && (__s64)(index << PAGE_SHIFT) >= BPF_CORE_READ(host, i_size))
		return 0;
	if (host)
		note_insertion(host, index << PAGE_SHIFT, (index + pages) << PAGE_SHIFT);
	return 0;
}

/* 6.12 and later; both page numbers belong to the range. */
SEC("tp_btf/mm_filemap_get_pages")
int BPF_PROG(on_read, struct address_space *mapping, unsigned long first, unsigned long last)
{
	struct inode *host = BPF_CORE_READ(mapping, host);
	__u64 offset = (__u64)first << PAGE_SHIFT, end = ((__u64)last + 1) << PAGE_SHIFT, size;
	struct obs_dir *config = 0;
	struct obs_inode *inode;

	inode = host ? find_wanted(host, &config) : 0;
	if (!inode)
		return 0;
	/* The range is the rest of the request, which may end beyond the file. */
	size = (BPF_CORE_READ(host, i_size) + PAGE_BYTES - 1) >> PAGE_SHIFT << PAGE_SHIFT;
	if (end > size)
		end = size;
	if (offset < end)
		note_access_of(inode, config, offset, end, 0);
	return 0;
}

SEC("tp_btf/mm_filemap_map_pages")
int BPF_PROG(on_map, struct address_space *mapping, unsigned long first, unsigned long last)
{
	note_mapped(mapping, first, (__u64)last + 1);
	return 0;
}

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(on_fault, struct address_space *mapping, unsigned long index)
{
	note_mapped(mapping, index, (__u64)index + 1);
	return 0;
}

static __always_inline struct inode *host_of_file(struct file *file)
{
	return BPF_CORE_READ(file, f_mapping, host);
}

/* Before 6.12: the functions that contain these tracepoints now. */
SEC("fentry/filemap_fault")
int BPF_PROG(enter_fault, struct vm_fault *vmf)
{
	struct inode *host = host_of_file(BPF_CORE_READ(vmf, vma, vm_file));
	__u64 index = BPF_CORE_READ(vmf, pgoff);

	if (host)
		note_access(host, index << PAGE_SHIFT, (index + 1) << PAGE_SHIFT, 1);
	return 0;
}

SEC("fentry/filemap_map_pages")
int BPF_PROG(enter_map, struct vm_fault *vmf, unsigned long first, unsigned long last)
{
	struct inode *host = host_of_file(BPF_CORE_READ(vmf, vma, vm_file));

	if (host)
		note_access(host, (__u64)first << PAGE_SHIFT, ((__u64)last + 1) << PAGE_SHIFT, 1);
	return 0;
}

/* From 6.18 on a fault maps the whole folio; its tracepoint names one page. */
SEC("fentry/set_pte_range")
int BPF_PROG(enter_map_folio, struct vm_fault *vmf, void *folio, void *page, unsigned int pages,
	     unsigned long address)
{
	struct vm_area_struct *vma = BPF_CORE_READ(vmf, vma);
	struct file *file = BPF_CORE_READ(vma, vm_file);
	struct inode *host = file ? host_of_file(file) : 0;
	__u64 index = BPF_CORE_READ(vma, vm_pgoff) +
		      ((address - BPF_CORE_READ(vma, vm_start)) >> PAGE_SHIFT);

	if (host)
		note_access(host, index << PAGE_SHIFT, (index + pages) << PAGE_SHIFT, 1);
	return 0;
}

/* Maps a huge page at once; no tracepoint reports it. */
SEC("fexit/do_set_pmd")
int BPF_PROG(exit_map_pmd, struct vm_fault *vmf)
{
	struct vm_area_struct *vma = BPF_CORE_READ(vmf, vma);
	struct file *file = BPF_CORE_READ(vma, vm_file);
	struct inode *host = file ? host_of_file(file) : 0;
	__u64 index = BPF_CORE_READ(vma, vm_pgoff) +
		      ((BPF_CORE_READ(vmf, address) - BPF_CORE_READ(vma, vm_start)) >> PAGE_SHIFT);
	__u64 code = 0;

	/* not 0: mapped by small pages instead */
	if (!host || bpf_get_func_ret(ctx, &code) || (__u32)code)
		return 0;
	index = index / PMD_PAGES * PMD_PAGES;
	note_access(host, index << PAGE_SHIFT, (index + PMD_PAGES) << PAGE_SHIFT, 1);
	return 0;
}

static __always_inline void enter_read(struct kiocb *iocb, struct iov_iter *iter)
{
	struct inode *host = host_of_file(BPF_CORE_READ(iocb, ki_filp));
	__u64 offset = BPF_CORE_READ(iocb, ki_pos);
	__u64 end = offset + BPF_CORE_READ(iter, count);
	__u64 size;

	if (!host)
		return;
	/* A program that reads until end of file asks beyond it. */
	size = BPF_CORE_READ(host, i_size);
	if (end > size)
		end = size;
	if (offset < end)
		note_access(host, offset >> PAGE_SHIFT << PAGE_SHIFT,
			    (end + PAGE_BYTES - 1) >> PAGE_SHIFT << PAGE_SHIFT, 0);
}

SEC("fentry/filemap_read")
int BPF_PROG(enter_filemap_read, struct kiocb *iocb, struct iov_iter *iter)
{
	enter_read(iocb, iter);
	return 0;
}

/* 5.10. */
SEC("fentry/generic_file_buffered_read")
int BPF_PROG(enter_buffered_read, struct kiocb *iocb, struct iov_iter *iter)
{
	enter_read(iocb, iter);
	return 0;
}

#define IOCB_WRITE (1 << 6)

/*
 * Direct I/O of `bytes` by the task.  Counts all of it, and reports the first such read of each
 * thread and file.
 */
static __always_inline void note_direct(struct inode *host, __u64 bytes)
{
	struct obs_inode_key inode_key;
	struct obs_reader_key key;
	struct obs_inode *inode = find(host, &inode_key);
	struct obs_reader *reader;
	struct obs_counts *count;
	struct obs_dir *config;
	_Bool is_new;
	__u32 dir;

	if (!inode)
		return;
	dir = inode->dir;
	config = bpf_map_lookup_elem(&dirs, &dir);
	if (!config || !config->is_watched || !config->wants_opens)
		return;
	reader = reader_of(inode, &key, &is_new);
	if (!reader)
		return;
	count = bpf_map_lookup_elem(&counts, &dir);
	if (count)
		count->bypassed += bytes;
	reader->time_ns = bpf_ktime_get_ns();
	if (reader->is_direct)
		return;
	reader->is_direct = 1;
	send_reader(&key, reader, config, 0, 0, kObsOpen, kObsDirect, reader->time_ns, 1);
}

static __always_inline void enter_direct(struct kiocb *iocb, struct iov_iter *iter)
{
	struct inode *host = host_of_file(BPF_CORE_READ(iocb, ki_filp));
	__u64 offset = BPF_CORE_READ(iocb, ki_pos);
	__u64 end = offset + BPF_CORE_READ(iter, count);
	__u64 size;

	if (!host || BPF_CORE_READ(iocb, ki_flags) & IOCB_WRITE)
		return;
	size = BPF_CORE_READ(host, i_size);
	if (end > size)
		end = size;
	if (offset < end)
		note_direct(host, end - offset);
}

/* 6.5 and later, for file systems on iomap.  Buffered reads do not come here. */
SEC("tp_btf/iomap_dio_rw_begin")
int BPF_PROG(on_direct, struct kiocb *iocb, struct iov_iter *iter)
{
	enter_direct(iocb, iter);
	return 0;
}

SEC("fentry/iomap_dio_rw")
int BPF_PROG(enter_iomap_dio, struct kiocb *iocb, struct iov_iter *iter)
{
	enter_direct(iocb, iter);
	return 0;
}

/*
 * Reports an exec to one directory that asked for the executable.  Not inlined, for the verifier.
 */
__noinline int report_exec(__u64 ino, __u32 dev, __u32 dir)
{
	struct obs_exec_key key = { .ino = ino, .dev = dev, .dir = dir };
	struct obs_dir *config = bpf_map_lookup_elem(&dirs, &key.dir);
	struct obs_event event;

	if (!config || !config->is_watched || !config->wants_execs ||
	    !bpf_map_lookup_elem(&executables, &key))
		return 0;
	start_event(&event, ino, bpf_ktime_get_ns());
	identify((struct task_struct *)bpf_get_current_task(), &event.start_ns, &event.cgroup);
	event.dev = dev;
	event.kind = kObsExec;
	event.offset = (__u32)bpf_get_current_uid_gid();
	send(&event, key.dir, config, 1);
	return 0;
}

/*
 * A process has begun to run a program; for a script, its interpreter.  The inode is the page
 * cache's, as for files: on overlay the lower one.
 */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_tid, struct linux_binprm *binprm)
{
	struct file *file = BPF_CORE_READ(binprm, file);
	struct inode *host = file ? host_of_file(file) : 0;
	__u64 ino;
	__u32 dev;

	if (!host)
		return 0;
	ino = BPF_CORE_READ(host, i_ino);
	dev = BPF_CORE_READ(host, i_sb, s_dev);
	for (__u32 dir = 0; dir < kObsMaxDirs; dir++)
		report_exec(ino, dev, dir);
	return 0;
}

/* Lists the page cache's inodes behind mappings; user space selects its own. */
SEC("iter/task_vma")
int list_vmas(struct bpf_iter__task_vma *ctx)
{
	struct task_struct *task = ctx->task;
	struct vm_area_struct *vma = ctx->vma;
	struct obs_vma out = {};
	struct inode *host;
	struct file *file;

	if (!task || !vma)
		return 0;
	out.tgid = BPF_CORE_READ(task, tgid);
	file = BPF_CORE_READ(vma, vm_file);
	if (!file)
		return 0;
	host = host_of_file(file);
	if (!host)
		return 0;
	out.start = BPF_CORE_READ(vma, vm_start);
	out.addr = salted(host);
	out.ino = BPF_CORE_READ(host, i_ino);
	out.dev = BPF_CORE_READ(host, i_sb, s_dev);
	out.generation = BPF_CORE_READ(host, i_generation);
	if (BPF_CORE_READ(host, i_sb, s_magic) == BTRFS_SUPER_MAGIC)
		out.subvolume = subvolume_of(host);
	bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
	return 0;
}
