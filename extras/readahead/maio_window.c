// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a command while MAIO's window decides on the read-ahead of one file, and prints what was asked.  Needs a kernel
 * with bpf_readahead_ops; built by tests/all/struct-ops.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "maio_window.h"
#include "maio_window.skel.h"

static const char usage[] =
	"usage: maio-window FILE ORDER CHUNK [FOLIO_ORDER] -- COMMAND...\n"
	"  FILE         the file whose windows are decided on\n"
	"  ORDER        a file with the numbers of FILE's chunks, in the order in which they are read;\n"
	"               -: the kernel decides, its misses are counted\n"
	"  CHUNK        pages of a chunk\n"
	"  FOLIO_ORDER  order of the folios, default 0\n";

static int fail(const char *what, int error)
{
	fprintf(stderr, "maio-window: %s: %s\n", what, strerror(error < 0 ? -error : error));
	return 1;
}

/* Fills the map: after which chunk which one is read. */
static int give_order(struct maio_window_bpf *skel, const char *path)
{
	int map = bpf_map__fd(skel->maps.next_chunk);
	__u32 chunk, end = MAIO_END;
	for (chunk = 0; chunk < MAIO_CHUNKS; chunk++) {
		int error = bpf_map_update_elem(map, &chunk, &end, BPF_ANY);
		if (error)
			return error;
	}
	FILE *order = fopen(path, "r");
	if (!order)
		return -errno;
	__u32 last = MAIO_END;
	int error = 0;
	while (!error && fscanf(order, "%u", &chunk) == 1) {
		if (last != MAIO_END)
			error = bpf_map_update_elem(map, &last, &chunk, BPF_ANY);
		last = chunk;
	}
	fclose(order);
	return error;
}

static int run(char **command)
{
	pid_t child = fork();
	if (child < 0)
		return fail("fork", errno);
	if (child == 0) {
		execvp(command[0], command);
		_exit(fail(command[0], errno) + 126);
	}
	int status = 0;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	int words = 0;
	while (words < argc && strcmp(argv[words], "--") != 0)
		words++;
	if (words < 4 || words > 5 || words + 1 >= argc) {
		fputs(usage, stderr);
		return 64;
	}
	struct stat about;
	if (stat(argv[1], &about))
		return fail(argv[1], errno);
	struct maio_window_bpf *skel = maio_window_bpf__open();
	if (!skel)
		return fail("opening the program", errno);
	__u32 chunk_pages = strtoul(argv[3], NULL, 10);
	if (!chunk_pages)
		return fail(argv[3], EINVAL);
	int follows = strcmp(argv[2], "-") != 0;
	skel->struct_ops.maio->dev = about.st_dev;
	skel->rodata->inode_nr = about.st_ino;
	skel->rodata->chunk_pages = chunk_pages;
	skel->rodata->folio_order = words == 5 ? strtoul(argv[4], NULL, 10) : 0;
	skel->rodata->only_counts = !follows;
	int error = maio_window_bpf__load(skel);
	if (error)
		return fail("loading the program (is this a kernel with bpf_readahead_ops?)",
			    error);
	error = follows ? give_order(skel, argv[2]) : 0;
	if (error)
		return fail(argv[2], error);
	struct bpf_link *link = bpf_map__attach_struct_ops(skel->maps.maio);
	if (!link)
		return fail("registering for the file system", errno);
	int status = run(argv + words + 1);
	bpf_link__destroy(link);
	const __u64 *counts = skel->bss->counts;
	printf("misses %llu faults %llu marks %llu windows %llu\n", counts[MAIO_MISSES],
	       counts[MAIO_FAULTS], counts[MAIO_MARKS], counts[MAIO_WINDOWS]);
	maio_window_bpf__destroy(skel);
	return status;
}
