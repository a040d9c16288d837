// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs that do nothing, on the tracepoints that the observer uses: what a tracepoint with a
 * program costs by itself.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

SEC("tp_btf/mm_filemap_get_pages")
int empty_read(void *ctx)
{
	return 0;
}

SEC("tp_btf/mm_filemap_map_pages")
int empty_map(void *ctx)
{
	return 0;
}

SEC("tp_btf/mm_filemap_fault")
int empty_fault(void *ctx)
{
	return 0;
}
