/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read-ahead: the programming example of the paper's section 3.2.  What lies
 * ahead of a miss is prefetched, what lies behind is evicted when memory is
 * tight.  Like the kernel's read-ahead it works per open file (per process
 * and file, where open files have no number) and doubles its window while reads
 * stay sequential; it also follows PROGRESS events, so that a reader that no
 * longer misses is still kept ahead of.
 *
 * Config: {"window_min": "2M", "window_max": "64M", "behind": "64M",
 *          "evict": true, "unmap": false}; sizes as numbers or "16M".
 * Threads: all hooks run on one thread, one at a time.
 */
#include <string.h>

#include "config.h"
#include "ppc.h"

#define NR_STREAMS 256u /* open files followed at once; the oldest is forgotten */
#define CHUNK (8ull << 20)
#define BEACON (1ull << 20)

struct stream {
	uint64_t file; /* 0 = unused */
	uint32_t open_id;
	int32_t pid; /* tells readers of a file apart where open files have no number */
	uint64_t file_bytes;
	uint64_t pos;     /* the reader has come this far */
	uint64_t next;    /* asked for up to here */
	uint64_t cached;  /* the kernel has read ahead up to here by itself */
	uint64_t window;  /* keep this much ahead; 0 until reads are sequential */
	uint64_t evicted; /* dropped up to here */
	int is_told;      /* PROGRESS says where the reader is */
	uint64_t used;    /* sequence number of the last event, for replacement */
};

static const struct ppc_context *context;
static struct readahead_config config;
static struct stream streams[NR_STREAMS];
static uint64_t sequence;

static struct ppc_io ios[NR_STREAMS];
static struct prefetch_ios prefetch_list = {.ios = ios};
static struct evict_ios evict_list = {.ios = ios};

static int readahead_init(void *private)
{
	char error[256];

	context = private;
	memset(streams, 0, sizeof(streams));
	sequence = 0;
	if (readahead_read_config(context->config, &config, error, sizeof(error)) != 0) {
		context->log(context, PPC_LOG_ERROR, error);
		return -1;
	}
	return context->want(context, PPC_WANT_MANAGED_RA | PPC_WANT_PROGRESS, BEACON);
}

static int readahead_exit(void)
{
	return 0;
}

static struct stream *find_stream(const struct miss_io *io)
{
	struct stream *oldest = &streams[0];

	for (uint32_t i = 0; i < NR_STREAMS; i++) {
		if (streams[i].file == io->file && streams[i].open_id == io->open_id &&
		    (io->open_id || streams[i].pid == io->pid))
			return &streams[i];
		if (streams[i].used < oldest->used)
			oldest = &streams[i];
	}
	memset(oldest, 0, sizeof(*oldest));
	oldest->file = io->file;
	oldest->open_id = io->open_id;
	oldest->pid = io->pid;
	oldest->pos = oldest->next = oldest->evicted = io->offset;
	return oldest;
}

/* A miss in sequence says that the window was too small. */
static void grow(struct stream *s, int miss)
{
	if (s->window == 0)
		s->window = config.window_min;
	else if (miss && s->window < config.window_max)
		s->window = s->window * 2 < config.window_max ? s->window * 2 : config.window_max;
}

/*
 * Pages that came into the cache unread: the kernel's own read-ahead may be two windows before its
 * reader, who would seem to jump there and back each time.
 */
static void note_cached(struct stream *s, const struct miss_io *io)
{
	uint64_t reach = s->next > s->cached ? s->next : s->cached;

	if (s->window == 0 || io->offset > reach + config.window_min)
		return;
	if (io->offset + io->size > s->cached)
		s->cached = io->offset + io->size;
	grow(s, 1);
}

/* Moves the stream to where the reader is; returns 1 when it jumped. */
static int advance(struct stream *s, const struct miss_io *io)
{
	uint64_t end = io->offset + io->size;
	uint64_t reach = s->next > s->pos ? s->next : s->pos;
	int miss = io->kind == PPC_MISS_READ || io->kind == PPC_MISS_FAULT;
	int unread = miss && (io->flags & PPC_F_NOT_USER);
	uint64_t pos = unread ? io->offset : end;
	int first = s->used == 0;
	/* Reading from the start is taken for sequential at once. */
	int sequential = first ? io->offset == 0
			       : io->offset + 2 * config.window_min >= s->pos &&
					 io->offset <= reach + config.window_min;

	s->file_bytes = io->file_bytes;
	s->used = ++sequence;
	if (s->is_told && unread) {
		note_cached(s, io);
		return 0;
	}
	s->is_told |= !miss;
	if (!sequential) {
		s->pos = pos;
		s->next = end;
		s->cached = 0;
		s->evicted = io->offset;
		s->window = 0;
		return !first;
	}
	if (pos > s->pos)
		s->pos = pos;
	if (s->next < end)
		s->next = end;
	grow(s, miss);
	return 0;
}

/* Streams share groups; readahead_done asks again for what a jump of another stream interrupted. */
static uint32_t group_of(const struct stream *s)
{
	return (uint32_t)(s - streams) % 64;
}

/* What is missing in the window, at most max bytes; 0 = nothing worth asking. */
static uint64_t ahead(struct stream *s, uint64_t max, struct ppc_io *io)
{
	uint64_t from = s->cached > s->pos ? s->cached : s->pos;
	uint64_t target = from + s->window;
	uint64_t size;

	if (s->next < from)
		s->next = from;
	if (s->file_bytes && target > s->file_bytes)
		target = s->file_bytes;
	if (s->window == 0 || s->next >= target)
		return 0;
	/* Half a window left: not yet, unless the file ends there. */
	if (s->next - from > s->window / 2 && target != s->file_bytes)
		return 0;
	size = target - s->next < max ? target - s->next : max;
	memset(io, 0, sizeof(*io));
	io->file = s->file;
	io->offset = s->next;
	io->size = size;
	io->xpu = PPC_NO_XPU;
	io->group = group_of(s);
	s->next += size;
	return size;
}

/*
 * The stream of an event.  A jump leaves nothing to ask for yet, so no list could replace the loads
 * that are queued where the reader was: they are interrupted.
 */
static struct stream *follow(const struct miss_io *io)
{
	struct stream *s = find_stream(io);

	if (advance(s, io))
		context->interrupt(context, group_of(s));
	return s;
}

static struct prefetch_ios *readahead_prefetch(struct miss_io *miss)
{
	prefetch_list.nr = ahead(follow(miss), config.window_max, &ios[0]) != 0;
	return prefetch_list.nr ? &prefetch_list : NULL;
}

static void readahead_event(const struct miss_io *event)
{
	if (event->kind == PPC_PROGRESS)
		follow(event);
}

/* Called whenever the loader has room: keeps all windows full. */
static struct prefetch_ios *readahead_plan(const struct ppc_plan_request *request)
{
	uint64_t left = request->max_bytes;

	prefetch_list.nr = 0;
	for (uint32_t i = 0; i < NR_STREAMS && left > 0; i++) {
		uint64_t got;

		if (streams[i].file == 0)
			continue;
		got = ahead(&streams[i], left < CHUNK ? left : CHUNK, &ios[prefetch_list.nr]);
		prefetch_list.nr += got != 0;
		left -= got;
	}
	return prefetch_list.nr ? &prefetch_list : NULL;
}

static void behind_range(struct stream *s)
{
	struct ppc_io *io = &ios[evict_list.nr];
	uint64_t until = s->pos > config.behind ? s->pos - config.behind : 0;

	if (s->file == 0 || s->window == 0 || until <= s->evicted)
		return;
	memset(io, 0, sizeof(*io));
	io->file = s->file;
	io->offset = s->evicted;
	io->size = until - s->evicted;
	io->flags = config.unmap ? PPC_IO_UNMAP : 0;
	s->evicted = until;
	evict_list.nr++;
}

/* With an event: behind its reader; periodically: behind every reader. */
static struct evict_ios *readahead_evict(struct miss_io *event)
{
	evict_list.nr = 0;
	if (!config.evict)
		return NULL;
	if (event) {
		behind_range(find_stream(event));
	} else {
		for (uint32_t i = 0; i < NR_STREAMS; i++)
			behind_range(&streams[i]);
	}
	return evict_list.nr ? &evict_list : NULL;
}

/* What the loader stopped early is asked for again. */
static void readahead_done(const struct ppc_result *result)
{
	if (result->kind != PPC_LOADED || !result->interrupted)
		return;
	for (uint32_t i = 0; i < NR_STREAMS; i++) {
		struct stream *s = &streams[i];
		uint64_t from = result->offset + result->ok + result->resident;

		if (s->file == result->file && group_of(s) == result->group && s->next > from) {
			s->next = from > s->pos ? from : s->pos;
			s->cached = 0;
		}
	}
}

static const struct ppc_operation readahead_policy = {
	.ppc_init = readahead_init,
	.ppc_exit = readahead_exit,
	.ppc_prefetch = readahead_prefetch,
	.ppc_evict = readahead_evict,
	.ppc_event = readahead_event,
	.ppc_plan = readahead_plan,
	.ppc_done = readahead_done,
};

struct ppc_operation *register_policy()
{
	return (struct ppc_operation *)&readahead_policy;
}
