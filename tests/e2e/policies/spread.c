/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the runtime: at a file's first miss its first half is put on XPU
 * 0's node and its second half on XPU 1's, each in a group of its own.  Every
 * miss leaves a line in the time series that says which XPU its process has.
 */
#include <ppc.h>
#include <stdio.h>

static const struct ppc_context *context;
static struct ppc_io ios[2];
static struct prefetch_ios list = {.nr = 2, .ios = ios};
static uint64_t last_file;

static int spread_init(void *arg)
{
	context = arg;
	return 0;
}

static struct prefetch_ios *spread_prefetch(struct miss_io *miss)
{
	uint64_t half = miss->file_bytes / 2;
	char line[128];

	snprintf(line, sizeof(line), "{\"pid\":%d,\"xpu\":%d}", miss->pid, miss->xpu);
	context->trace(context, line);
	if (miss->file == last_file)
		return NULL;
	last_file = miss->file;
	for (unsigned int i = 0; i < 2; i++) {
		ios[i].file = miss->file;
		ios[i].offset = i * half;
		ios[i].size = half;
		ios[i].xpu = (int32_t)i;
		ios[i].group = i;
	}
	return &list;
}

static const struct ppc_operation operation = {
	.ppc_init = spread_init,
	.ppc_prefetch = spread_prefetch,
};

struct ppc_operation *register_policy(void)
{
	return (struct ppc_operation *)&operation;
}
