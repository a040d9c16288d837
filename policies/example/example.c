/* SPDX-License-Identifier: Apache-2.0 */
/* After a miss the next 32 MiB of the file are loaded; of what lies further behind than 32 MiB
 * nothing is kept once memory is short. */
#include <ppc.h>

#define DISTANCE (32ull << 20)

static const struct ppc_context *context;
static uint64_t distance = DISTANCE;
static struct ppc_io ahead, behind;
static struct prefetch_ios to_load = { .nr = 1, .ios = &ahead };
static struct evict_ios to_drop = { .nr = 1, .ios = &behind };

/* Once.  The context lives until after ppc_exit. */
static int example_init(void *private)
{
	context = private;
	context->log(context, PPC_LOG_INFO, "example: runs");
	return 0;
}

/* At each miss: what to load.  The reader does not wait for the answer. */
static struct prefetch_ios *example_prefetch(struct miss_io *miss)
{
	ahead.file = miss->file;
	ahead.offset = miss->offset + miss->size;
	ahead.size = distance; /* beyond the end of the file is cut off */
	ahead.xpu = miss->xpu; /* to the node of the device that the reader feeds */
	ahead.service = miss->service > 0 ? miss->service : 0; /* who pays */
	return &to_load;
}

/* While memory use is above the threshold: what to drop.  miss is NULL every 200 ms. */
static struct evict_ios *example_evict(struct miss_io *miss)
{
	if (!miss || miss->offset < 2 * distance)
		return NULL;
	behind.file = miss->file;
	behind.offset = 0;
	behind.size = miss->offset - distance;
	behind.flags = PPC_IO_UNMAP; /* also what is mapped: it is read again if it is needed */
	return &to_drop;
}

static struct ppc_operation operations = {
	.ppc_init = example_init,
	.ppc_prefetch = example_prefetch,
	.ppc_evict = example_evict,
};

PPC_EXPORT struct ppc_operation *register_policy(void)
{
	return &operations;
}
