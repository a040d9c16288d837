// SPDX-License-Identifier: GPL-2.0-only
/*
 * MAIO's window as a program of bpf_readahead_ops: the file is cut into chunks, and user space gives, in a map, which
 * chunk is read after which.  A miss loads the whole chunk around it; the first use of a chunk starts the read of the
 * next one in the order.  The mark of the kernel's read-ahead is the reader's position.
 */
#include "vmlinux.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "maio_window.h"

char _license[] SEC("license") = "GPL";

/* Set by the loader before it loads the program. */
const volatile __u64 inode_nr;
const volatile __u32 chunk_pages = 256;
const volatile __u32 folio_order;
const volatile _Bool only_counts;

__u64 counts[MAIO_COUNTS];

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAIO_CHUNKS);
	__type(key, __u32);
	__type(value, __u32);
} next_chunk SEC(".maps");

SEC("struct_ops/window")
int BPF_PROG(window, struct bpf_readahead *win, struct inode *inode)
{
	if (inode->i_ino != inode_nr)
		return 0;
	__u32 cause = win->cause;
	if (cause <= MAIO_MARKS)
		__sync_fetch_and_add(&counts[cause], 1);
	if (only_counts)
		return 0;
	__u32 chunk = win->index / chunk_pages;
	if (cause == BPF_READAHEAD_MARK) {
		__u32 *next = bpf_map_lookup_elem(&next_chunk, &chunk);
		if (!next || *next == MAIO_END) {
			/* The page is cached: a window of it reads nothing. */
			win->size = 1;
			return 1;
		}
		chunk = *next;
	}
	__u64 start = (__u64)chunk * chunk_pages;
	win->start = start;
	win->size = chunk_pages;
	/*
	 * The mark: on the chunk's first page, or on the missed one.  A fault maps the page that it
	 * waited for without a look at its mark, so there it is the next one.
	 */
	win->async_size = chunk_pages;
	if (cause != BPF_READAHEAD_MARK)
		win->async_size -= win->index - start + (cause == BPF_READAHEAD_FAULT);
	win->order = folio_order;
	__sync_fetch_and_add(&counts[MAIO_WINDOWS], 1);
	return 1;
}

SEC(".struct_ops.link")
struct bpf_readahead_ops maio = {
	.window = (void *)window,
};
