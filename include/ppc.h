/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy ABI of PPC: what a cache policy (a shared library) sees.
 *
 * A policy overrides functions of struct ppc_operation, like a file system
 * overrides the VFS's, and hands the table out through register_policy().
 * The four hooks of the paper (section 3.2, Figure 4) come first; the ones
 * after them are optional and may stay NULL.  Lists that hooks return are
 * recommendations: the runtime executes what memory, bandwidth and newer
 * requests allow, and says through ppc_done what really happened.
 *
 * Threads: the runtime calls all hooks of a policy from one thread, never two
 * at a time, so a policy needs no locks.  A hook must not block; one that
 * takes longer than the runtime allows (default 1 s) is counted, and the
 * policy is dropped for the kernel's native one when it happens again.
 * The functions of struct ppc_context may be called from hooks only, but for
 * those that background() names.
 *
 * Ownership: strings and structs passed to a hook live until it returns.
 * Lists and strings a hook returns belong to the policy and must stay valid
 * until the next call of any hook of the policy.
 *
 * Files have two names: a path relative to the mount ("qwen/model-1.safetensors")
 * and a 64-bit number that is cheaper.  Policies never get descriptors.
 *
 * Build: cc -shared -fPIC -fvisibility=hidden policy.c -o libppc_NAME.so
 */
#ifndef PPC_H
#define PPC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PPC_POLICY_ABI 1u
#define PPC_EXPORT __attribute__((visibility("default")))

/* The number the policy was built with; the host checks it before any call. */
extern PPC_EXPORT __attribute__((weak)) const uint32_t ppc_policy_abi;
/* NOLINTNEXTLINE(misc-definitions-in-headers): weak, one per library. */
const uint32_t ppc_policy_abi = PPC_POLICY_ABI;

/* ---------------------------------------------------------------- events */

enum ppc_kind {
	PPC_MISS_READ = 1,  /* read() met absent pages */
	PPC_MISS_FAULT = 2, /* a page fault met absent pages */
	PPC_PROGRESS = 3,   /* reader passed a beacon (PPC_WANT_PROGRESS) */
	PPC_ACCESS = 4,     /* any access, coalesced (PPC_WANT_TRACE) */
	PPC_OPEN = 5,
	PPC_CLOSE = 6,
};

/*
 * Populate, GUP, or (observer: every miss) pages that came into the cache, for a reader or by the
 * kernel's own read-ahead, which may be two windows before its reader: not consumption.
 */
#define PPC_F_NOT_USER 0x01u
#define PPC_F_WRITE 0x02u
#define PPC_F_HIT 0x04u
#define PPC_F_DIRECT 0x08u
#define PPC_F_LOST 0x10u /* events were lost just before this one */
#define PPC_F_MMAP 0x20u

/* A cache miss (contiguous misses of one thread are aggregated), or another event. */
struct miss_io {
	const char *path;    /* relative to the mount root */
	uint64_t offset;     /* bytes, page aligned */
	uint64_t size;       /* bytes */
	int32_t pid;         /* process (tgid), host view; 0 unknown */
	int32_t tid;         /* thread */
	uint64_t file;       /* file number, see ppc_context.file_info */
	uint32_t open_id;    /* open file description; 0: not known (observer) */
	uint32_t kind;       /* enum ppc_kind */
	uint32_t flags;      /* PPC_F_* */
	int32_t xpu;         /* XPU the process is bound to, -1 unknown */
	uint64_t start_ns;   /* process start since boot: (pid, start_ns) is unique */
	uint64_t cgroup_id;  /* of the process, cgroup2 */
	uint64_t time_ns;    /* CLOCK_MONOTONIC of the event */
	uint64_t file_bytes; /* size of the file */
	int32_t service;     /* number of the service the process belongs to, -1 none known */
	int32_t pad;
};

/* ----------------------------------------------------------------- lists */

#define PPC_NO_XPU (-1)
#define PPC_MAX_GROUPS 512u

/* One range to load or to evict. */
struct ppc_io {
	const char *path; /* used when file == 0 */
	uint64_t file;    /* file number, 0 = use path */
	uint64_t offset;  /* bytes; rounded outward to pages */
	uint64_t size;    /* bytes; clamped to the file's end */
	int32_t xpu;      /* load: put it on this XPU's NUMA node; PPC_NO_XPU = any */
	uint32_t group;   /* load: below PPC_MAX_GROUPS, of its service; unit of interruption, see PPC_IOS_REPLACE */
	uint32_t flags;   /* PPC_IO_* */
	uint32_t service; /* id; 0 = the first.  load: who is charged; evict: whose memory it is */
	uint64_t cookie;  /* given back in ppc_result */
};

#define PPC_IO_UNMAP 0x01u       /* evict: also pages that processes map (they re-fault) */
#define PPC_IO_EVEN_LOCKED 0x02u /* evict: also mlocked pages */
#define PPC_IO_DRAIN 0x04u       /* evict: spend effort on stragglers (rarely) */
#define PPC_IO_MANY 0x08u        /* load: small, one of many; a disk serves many at once (PPC_CAN_MANY) */
#define PPC_IO_BURN 0x10u        /* load: dropped again during the load, even if mapped: where the
				    backend evicts by memory groups it goes into one of them */
#define PPC_IO_WAITED 0x20u      /* load: a reader waits for it, or will at once: the kernel makes room
				    for it, as for the reader's own misses */

/* struct prefetch_ios.flags */
#define PPC_IOS_REPLACE 0x01u /* first interrupt what is queued or in flight in the groups named here */
#define PPC_IOS_DEADLINES 0x02u /* it is a struct timed_prefetch_ios (PPC_CAN_DEADLINES) */

/* At most PPC_MAX_IOS ranges a call; what is beyond is refused and counted. */
#define PPC_MAX_IOS 65536u

struct prefetch_ios {
	uint32_t nr;
	uint32_t flags; /* PPC_IOS_* */
	struct ppc_io *ios;
};

/*
 * The same with when each range is needed.  Services share a device by it: who has time lets others
 * go first, and gets its ranges when they are due.  Without it a range is needed at once.
 */
struct timed_prefetch_ios {
	struct prefetch_ios list;    /* flags: PPC_IOS_DEADLINES */
	const uint64_t *deadline_ns; /* list.nr: when its reader will be there, as now_ns; 0 = not known */
};

struct evict_ios {
	uint32_t nr;
	uint32_t flags; /* 0 */
	struct ppc_io *ios;
};

/* What became of one range (ppc_done).  Bytes. */
enum ppc_result_kind { PPC_LOADED = 1, PPC_EVICTED = 2 };
struct ppc_result {
	uint32_t kind;      /* enum ppc_result_kind */
	uint32_t group;
	uint64_t file;
	uint64_t offset;    /* the range as executed (a chunk of what was asked) */
	uint64_t size;
	uint64_t cookie;
	uint64_t ok;        /* load: absent before, uptodate now; evict: dropped */
	uint64_t resident;  /* load: already there; evict: was resident at the start */
	uint64_t failed;    /* load: read errors; evict: dirty, pinned or locked */
	uint64_t mapped;    /* evict: still mapped (retry with PPC_IO_UNMAP or later) */
	int32_t interrupted; /* load: 1 = stopped before its end */
	int32_t error;      /* 0 or negative errno (-ESTALE: file gone) */
};

/* ------------------------------------------------------------------ host */

/* Memory state of the service (the tightest of its limits).  Bytes. */
struct ppc_memory {
	uint64_t limit;     /* page cache + everything else may grow to this */
	uint64_t used;      /* used now, as the limit counts it */
	uint64_t cache;     /* of that, clean page cache */
	uint64_t threshold; /* above this ppc_evict is called and loading pauses */
	uint64_t room;      /* what loading may add now: threshold - used - in flight, not below 0 */
	uint64_t inflight;  /* being loaded now */
	uint64_t demand;    /* bytes of front-end misses seen in the last 100 ms */
	int32_t is_cgroup;  /* 1: a cgroup limit binds; 0: node memory or configuration */
	/* Taken off the threshold for the time being, since tasks stall for memory; 4 KiB pages.  Not a
	 * reason to drop what is needed soon. */
	uint32_t withheld_pages;
};

struct ppc_file_info {
	uint64_t file;
	uint64_t size;
	uint64_t ino;
	int64_t mtime_ns;
	uint32_t dev_major, dev_minor;
};

struct ppc_residency {
	uint64_t resident;   /* bytes */
	uint64_t dirty;
	uint64_t mapped;
	uint64_t node[64];   /* bytes per NUMA node */
};

/* ppc_context.want(): what events the policy needs; the module sends nothing it
 * was not asked for. */
#define PPC_WANT_MANAGED_RA 0x01u /* policy does read-ahead (default when ppc_prefetch or ppc_plan is set) */
#define PPC_WANT_PROGRESS 0x02u
#define PPC_WANT_TRACE 0x04u
#define PPC_WANT_OPENCLOSE 0x08u
#define PPC_WANT_EVICT 0x10u /* ppc_evict(NULL) every 200 ms below the threshold too */

/* ppc_context.caps: what the backend can do */
#define PPC_CAN_UNMAP 0x01u
#define PPC_CAN_PROGRESS 0x02u
#define PPC_CAN_TRACE 0x04u
#define PPC_CAN_CHARGE 0x08u
#define PPC_CAN_NODE 0x10u
#define PPC_IS_SAMPLED 0x20u /* accesses are seen now and then: a recording has holes */
#define PPC_CAN_DEADLINES 0x40u /* lists may say when ranges are needed, struct timed_prefetch_ios */
#define PPC_CAN_MANY 0x100u /* loads may have PPC_IO_MANY */
#define PPC_IS_TRACED 0x80u /* there is a trace_file; without one trace() does nothing */
#define PPC_MISSES_HUGE 0x200u /* of a cached file, what is mapped by huge pages is not seen */
/*
 * What is read with O_DIRECT goes past the page cache, and what was loaded for it is read twice.
 * PPC_OPEN with PPC_F_DIRECT, the only open that is told, comes with a thread's first such read.
 */
#define PPC_MISSES_DIRECT 0x400u

#define PPC_REMOTE_EXIT_S 2u /* see background_remote() */

enum ppc_log_level { PPC_LOG_ERROR = 3, PPC_LOG_WARNING = 4, PPC_LOG_INFO = 6, PPC_LOG_DEBUG = 7 };

/*
 * Passed to ppc_init as its argument ("private" in the paper); stays valid
 * until ppc_exit has returned.  All functions take the context first, return 0
 * or a negative errno, and never block on storage longer than a path look-up.
 */
struct ppc_context {
	uint32_t size;           /* sizeof(struct ppc_context) of the host */
	uint32_t caps;           /* PPC_CAN_* */
	const char *config;      /* JSON object given to reg_policy, "{}" if none */
	const char *mount;       /* mount point, for messages */
	const char *template_dir;/* where policies keep learnt state, writable */
	int32_t nr_nodes;        /* NUMA nodes */
	int32_t nr_xpus;         /* XPUs found on this machine */
	uint64_t window_bytes;   /* demand window of the mount */
	uint64_t beacon_bytes;   /* distance of PROGRESS events */
	void *host;              /* the runtime's own */

	/* A message about a service begins "NAME: service ID: ", so that it is found by that. */
	void (*log)(const struct ppc_context *, int level, const char *message);
	uint64_t (*now_ns)(const struct ppc_context *); /* CLOCK_MONOTONIC; simulated time in replay */
	/* Choose events; beacon_bytes 0 = keep.  May be called again at any time. */
	int (*want)(const struct ppc_context *, uint32_t want, uint64_t beacon_bytes);
	int (*memory)(const struct ppc_context *, uint32_t service, struct ppc_memory *out);
	/* By path; out->file is the number to use in lists and the one events have, for as long as the
	 * file is the same, though its inode leaves the kernel's cache and returns.
	 * -ENOENT, -ELOOP (symlink out of the mount), ... */
	int (*file_info)(const struct ppc_context *, const char *path, struct ppc_file_info *out);
	/* Path of a file number; -ESTALE when the file is gone. */
	int (*file_path)(const struct ppc_context *, uint64_t file, char *buf, size_t buf_bytes);
	/* Residency; bitmap may be NULL, else one bit per page, bitmap_bytes >= (pages+7)/8. */
	int (*resident)(const struct ppc_context *, uint64_t file, uint64_t offset, uint64_t size,
			struct ppc_residency *out, uint8_t *bitmap, size_t bitmap_bytes);
	/* Read up to size bytes of a file of the mount (headers); returns bytes or -errno. */
	int64_t (*read)(const struct ppc_context *, const char *path, uint64_t offset, void *buf,
			size_t size);
	/* NUMA node of an XPU (index in this machine's list), -1 unknown. */
	int (*xpu_node)(const struct ppc_context *, int32_t xpu);
	/* XPU a process is bound to, -1 unknown (chain of providers, paper section 4.1). */
	int (*process_xpu)(const struct ppc_context *, int32_t pid, uint64_t start_ns);
	/* Drop what is queued, and stop what is in flight, of a load group of every service
	 * (paper: interruptible). */
	void (*interrupt)(const struct ppc_context *, uint32_t group);
	/* Set a file back to native read-ahead (1) or to the policy (0). */
	int (*file_native)(const struct ppc_context *, uint64_t file, int native);
	/* Free counters shown by `ppcctl status`; name is copied. */
	void (*stat)(const struct ppc_context *, const char *name, uint64_t value);
	/* One line of the policy's own time series (JSON object without newline): goes to the runtime's trace_file. */
	void (*trace)(const struct ppc_context *, const char *json);
	/* Entries of a directory of the mount ("" = its root), in any order, without "." and "..":
	 * entry() gets the entry's own name and its kind ('f' regular file, 'd' directory,
	 * 'l' symbolic link, '?' other); non-zero from entry() ends the listing. */
	int (*list_dir)(const struct ppc_context *, const char *path,
			int (*entry)(void *arg, const char *name, char kind), void *arg);
	/* As interrupt(), of one service's load group. */
	void (*interrupt_of)(const struct ppc_context *, uint32_t service, uint32_t group);
	/*
	 * Work too slow for a hook: it reads headers or writes templates.  work(arg) runs on a
	 * thread for such work, one after the other in the order of submission, however long it
	 * takes; done(arg) (may be NULL) then runs as a hook does, between two hooks, on their
	 * thread and within their time limit.  The policy owns arg, from the call to the end of
	 * done(), and shares nothing else with work() unless it locks it.
	 *
	 * work() may use log, now_ns, file_info, file_path, resident, read, list_dir, xpu_node,
	 * stat and trace, the plain members of this struct, and no other function of it.
	 *
	 * Each pair that was taken is finished, done() included, before ppc_exit is called, also
	 * when the policy is dropped; one that ppc_init gave before it refused as well, after it
	 * has returned.  done() may give another pair until then.
	 * -EAGAIN: thousands wait already; -ESHUTDOWN: from ppc_exit on.  Absent (size is smaller) in
	 * hosts older than it.
	 */
	int (*background)(const struct ppc_context *, void (*work)(void *arg),
			  void (*done)(void *arg), void *arg);
	void *unused; /* NULL */
	/* As background(), for work that waits for other machines, such as a store on a network: on a
	 * thread of its own, so that nothing which background() was given waits with it.  What is not
	 * back PPC_REMOTE_EXIT_S after the policy is to end is given up: its work() may still run
	 * beside ppc_exit, and its done() is not called. */
	int (*background_remote)(const struct ppc_context *, void (*work)(void *arg),
				 void (*done)(void *arg), void *arg);
	/* What the memory cgroup of a service uses, page cache included, limited or not, as of the look
	 * that memory() is from; bytes, 0: it has none. */
	uint64_t (*group_used)(const struct ppc_context *, uint32_t service);
	/* Lets the service use all of its memory limit but a thirty-second part of it (1), or what the
	 * configured threshold says (0): for a policy that makes room before it loads.  memory() tells
	 * the threshold that follows. */
	int (*use_limit)(const struct ppc_context *, uint32_t service, int on);
};

/* ----------------------------------------------------------------- hooks */

/*
 * Asked by the runtime when the loader has room, miss or no miss, for each
 * service by itself: the next ranges to load for it, most urgent first.
 * Return at most max_bytes (a little more is fine); NULL or nr == 0 = nothing
 * now.  Then it is asked again after a miss of that service, a result, a control
 * message (not one about another service), done() of background(), or a tick; for
 * PROGRESS and ACCESS when no more events are there, else every 20 ms.  Memory is
 * then as it was up to a second ago, unless something was missed or loaded since.
 */
struct ppc_plan_request {
	uint64_t max_bytes;
	const struct ppc_memory *memory; /* of the service */
	/* What loads on this mount got from the device lately (a read limit counts too); 0 = not known. */
	uint64_t device_rate;    /* all together, bytes a second */
	uint64_t device_step_ns; /* time of one load of 2 MiB */
	uint32_t service;        /* whose loads are asked for; the mount's own (0) where none was started */
	uint32_t pad;
};

struct ppc_operation {
	/* Once, at registration; argument: struct ppc_context *.  Non-zero = refuse,
	 * registration fails and the native policy stays.  Optional. */
	int (*ppc_init)(void *);
	/* Once, after the last other hook, also when the runtime drops the policy.  Optional. */
	int (*ppc_exit)(void);
	/* For every miss: what to load.  NULL = nothing.  Optional: absent (and no
	 * ppc_plan) means a read-ahead like the kernel's. */
	struct prefetch_ios *(*ppc_prefetch)(struct miss_io *);
	/* When memory use is above the threshold: after each miss (before ppc_prefetch)
	 * or PROGRESS (after ppc_event), with that event; and every 200 ms with NULL.
	 * A policy with ppc_plan is asked with NULL, once for all events that are there.
	 * With NULL also after service_ready and service_stop, and, for a policy with
	 * ppc_plan, when not even a chunk fits below the threshold any more (a loader
	 * without room would otherwise wait for ever); PPC_WANT_EVICT.  What to drop.
	 * Optional: absent means the kernel's eviction. */
	struct evict_ios *(*ppc_evict)(struct miss_io *);

	/* Extensions beyond the paper; all optional. */
	/* PROGRESS, ACCESS, OPEN, CLOSE as asked for by want(). */
	void (*ppc_event)(const struct miss_io *);
	struct prefetch_ios *(*ppc_plan)(const struct ppc_plan_request *);
	/* What became of each chunk of a list. */
	void (*ppc_done)(const struct ppc_result *);
	/* Control message, a JSON object with "op": "service_start", "service_ready",
	 * "service_stop", "status" or a verb of the policy's own.  Returns a JSON
	 * object ({"error": "..."} = refused), or NULL = unknown op. */
	const char *(*ppc_control)(const char *json);
	/* About every 200 ms, for time-outs. */
	void (*ppc_tick)(uint64_t now_ns);
};

/* Every policy defines this one. */
PPC_EXPORT struct ppc_operation *register_policy();

#ifdef __cplusplus
}
#endif

#endif /* PPC_H */
