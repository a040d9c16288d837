/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figure 4 of the paper as printed; the four placeholders are filled with its
 * programming example (section 3.2): what lies ahead of the miss is
 * prefetched, what lies behind is evicted.
 */
#include "ppc.h"

#define AHEAD (4ull << 20)
#define BEHIND (2ull << 20)

static struct ppc_io prefetch_io, evict_io;
static struct prefetch_ios prefetch_list = {.nr = 1, .ios = &prefetch_io};
static struct evict_ios evict_list = {.nr = 1, .ios = &evict_io};
static int initialized;

int init(void* private) {
    // Initialize the policy by "private"
    initialized = private != NULL;
    return 0;
}
int exit(void) {
    // Clean the environment and exit
    initialized = 0;
    return 0;
}
struct prefetch_ios* prefetch(struct miss_io *mio) {
    // Utilize "mio" to design prefetch policy
    struct prefetch_ios *ios_for_prefetch = &prefetch_list;
    prefetch_io.path = mio->path;
    prefetch_io.offset = mio->offset + mio->size;
    prefetch_io.size = AHEAD;
    prefetch_io.xpu = PPC_NO_XPU;
    return ios_for_prefetch;
}
struct evict_ios* evict(struct miss_io *mio) {
    // Utilize "mio" to design eviction policy
    struct evict_ios *ios_for_evict = &evict_list;
    if (!mio || mio->offset < BEHIND)
        return NULL;
    evict_io.path = mio->path;
    evict_io.offset = mio->offset - BEHIND;
    evict_io.size = BEHIND;
    return ios_for_evict;
}
const struct ppc_operation policy = {
    .ppc_init = init,
    .ppc_exit = exit,
    .ppc_prefetch = prefetch,
    .ppc_evict = evict,
};
struct ppc_operation *register_policy() {
    return (struct ppc_operation *)&policy;
}
