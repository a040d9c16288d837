/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The null policy: the commented template to start from, and the probe that
 * measures what events alone cost.  It asks for nothing, so read-ahead and
 * eviction stay the kernel's; it only counts what it is told.
 *
 * Build your own copy outside this tree:
 *   cc -shared -fPIC -fvisibility=hidden -I include null.c -o libppc_mine.so
 *   ppcctl reg_policy /models /path/to/libppc_mine.so '{"any": "config"}'
 * The library and all directories above it must be root's, and writable by root alone.
 *
 * Threads: all hooks run on one thread, one at a time; no locks are needed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ppc.h"

static const struct ppc_context *context;
static uint64_t misses;
static uint64_t missed_bytes;
static uint64_t events;

/* Optional.  Once, at registration.  Keep the context: it lives until after
 * ppc_exit.  Its "config" is the JSON object given to reg_policy.  Returning
 * non-zero refuses the registration; say why through context->log first. */
static int null_init(void *private)
{
	context = private;
	misses = missed_bytes = events = 0;
	/* Choose events.  0: misses only, and the kernel goes on reading ahead.
	 * A policy that reads ahead itself asks for PPC_WANT_MANAGED_RA; one that
	 * must see hits too adds PPC_WANT_PROGRESS (every so many bytes of a file)
	 * or PPC_WANT_TRACE (everything; costs the reader something). */
	return context->want(context, 0, 0);
}

/* Optional.  Once, when the policy goes, for whatever reason.  Free what you
 * own; loads of yours have been drained before. */
static int null_exit(void)
{
	char line[96];

	snprintf(line, sizeof(line), "null: %" PRIu64 " misses of %" PRIu64 " bytes", misses,
		 missed_bytes);
	context->log(context, PPC_LOG_INFO, line);
	context = NULL;
	return 0;
}

/* Optional.  For every miss: which ranges to load.  The reader does not wait for
 * the answer.  The list belongs to the policy and must stay valid until the next
 * hook; NULL = nothing.  Here although it returns nothing, to count. */
static struct prefetch_ios *null_prefetch(struct miss_io *miss)
{
	misses++;
	missed_bytes += miss->size;
	return NULL;
}

/* Optional.  Only while memory use is above the threshold: after each miss
 * (with it) and every 200 ms (with NULL).  Which ranges to drop.  Absent = the
 * kernel's eviction, so this policy has none:
 *
 * static struct evict_ios *null_evict(struct miss_io *miss);
 */

/* Optional.  PROGRESS, ACCESS, OPEN and CLOSE, if want() asked for them. */
static void null_event(const struct miss_io *event)
{
	(void)event;
	events++;
}

/* Optional.  The loader has room and asks for the next ranges, most urgent
 * first, without a miss having happened:
 *
 * static struct prefetch_ios *null_plan(const struct ppc_plan_request *request);
 */

/* Optional.  What became of each range that was loaded or evicted:
 *
 * static void null_done(const struct ppc_result *result);
 */

/* Optional.  A JSON message of the control plane; unknown op = NULL. */
static const char *null_control(const char *json)
{
	static char reply[128];

	if (!strstr(json, "\"status\""))
		return NULL;
	snprintf(reply, sizeof(reply),
		 "{\"misses\": %" PRIu64 ", \"missed_bytes\": %" PRIu64 ", \"events\": %" PRIu64 "}",
		 misses, missed_bytes, events);
	return reply;
}

/* Optional.  About every 200 ms. */
static void null_tick(uint64_t now_ns)
{
	(void)now_ns;
	context->stat(context, "misses", misses);
	context->stat(context, "missed_bytes", missed_bytes);
	context->stat(context, "events", events);
}

static const struct ppc_operation null_policy = {
	.ppc_init = null_init,
	.ppc_exit = null_exit,
	.ppc_prefetch = null_prefetch,
	.ppc_event = null_event,
	.ppc_control = null_control,
	.ppc_tick = null_tick,
};

/* The only name that a policy exports (besides the ABI number in ppc.h). */
struct ppc_operation *register_policy()
{
	return (struct ppc_operation *)&null_policy;
}
