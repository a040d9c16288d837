/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy ABI of PPC: what a cache policy (a shared library) sees.
 *
 * A policy overrides functions of struct ppc_operation, like a file system
 * overrides the VFS's, and hands the table out through register_policy().  The
 * four hooks of the paper (section 3.2, Figure 4) come first; the later ones are
 * optional and may stay NULL.  Lists that hooks return are recommendations: the
 * runtime executes what memory, bandwidth and newer requests allow, and reports
 * through ppc_done what happened.
 *
 * Threads: the runtime calls all hooks of a policy from one thread, never two at
 * a time, so a policy needs no locks.  A hook must not block.  If a hook takes
 * longer than the runtime allows (default 1 s), the runtime counts it; the second
 * time, it drops the policy and the kernel's native one applies.  The functions
 * of struct ppc_context may be called from hooks only, except those that
 * background() names.
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
	PPC_MISS_READ = 1,  /* a read() found absent pages */
	PPC_MISS_FAULT = 2, /* a page fault found absent pages */
	PPC_PROGRESS = 3,   /* reader passed a beacon (PPC_WANT_PROGRESS) */
	PPC_ACCESS = 4,     /* any access, coalesced (PPC_WANT_TRACE) */
	PPC_OPEN = 5,
	PPC_CLOSE = 6,
};

/*
 * Populate, GUP, or (observer: every miss) pages that came into the cache for a reader or by the
 * kernel's own read-ahead, which may be two windows ahead of its reader.  Not consumption.
 */
#define PPC_F_NOT_USER 0x01u
#define PPC_F_WRITE 0x02u
#define PPC_F_HIT 0x04u
#define PPC_F_DIRECT 0x08u
#define PPC_F_LOST 0x10u /* events were lost just before this one */
#define PPC_F_MMAP 0x20u

/* A cache miss, or another event.  Contiguous misses of one thread are one event. */
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
	int32_t xpu;         /* the process's XPU, -1 unknown */
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
	int32_t xpu;      /* load: target XPU's NUMA node; PPC_NO_XPU = any */
	uint32_t group;   /* load: of its service, below PPC_MAX_GROUPS; see PPC_IOS_REPLACE */
	uint32_t flags;   /* PPC_IO_* */
	uint32_t service; /* 0 = the first.  load: charged for it; evict: owner of the memory */
	uint64_t cookie;  /* returned in ppc_result */
};

#define PPC_IO_UNMAP 0x01u       /* evict: also pages that processes map (they re-fault) */
#define PPC_IO_EVEN_LOCKED 0x02u /* evict: also mlocked pages */
#define PPC_IO_DRAIN 0x04u       /* evict: spend effort on stragglers (rarely) */
#define PPC_IO_MANY 0x08u        /* load: small, one of many in flight at once (PPC_CAN_MANY) */
#define PPC_IO_BURN 0x10u        /* load: dropped again during the load, even if mapped: where the
				    backend evicts by memory groups it goes into one of them */
#define PPC_IO_WAITED 0x20u      /* load: a reader waits for it, or will at once: the kernel makes room
				    for it, as for the reader's own misses */

/* struct prefetch_ios.flags */
#define PPC_IOS_REPLACE 0x01u /* first interrupt all loads of the groups named here */
#define PPC_IOS_DEADLINES 0x02u /* a struct timed_prefetch_ios (PPC_CAN_DEADLINES) */

/* At most PPC_MAX_IOS ranges a call; the rest is refused and counted. */
#define PPC_MAX_IOS 65536u

struct prefetch_ios {
	uint32_t nr;
	uint32_t flags; /* PPC_IOS_* */
	struct ppc_io *ios;
};

/*
 * A list with the time at which each range is needed.  Services share a device by these times: a
 * service with later deadlines lets others go first, and gets its ranges when they are due.  A
 * range without a deadline is needed at once.
 */
struct timed_prefetch_ios {
	struct prefetch_ios list;    /* flags: PPC_IOS_DEADLINES */
	const uint64_t *deadline_ns; /* list.nr: when readers need them, as now_ns; 0 = not known */
};

struct evict_ios {
	uint32_t nr;
	uint32_t flags; /* 0 */
	struct ppc_io *ios;
};

/* The result of one range (ppc_done).  Bytes. */
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

/* Memory state of the service, by the tightest of its limits.  Bytes. */
struct ppc_memory {
	uint64_t limit;     /* page cache + everything else may grow to this */
	uint64_t used;      /* used now, as the limit counts it */
	uint64_t cache;     /* of that, clean page cache */
	uint64_t threshold; /* above this ppc_evict is called and loading pauses */
	uint64_t room;      /* what loading may add now: threshold - used - in flight, not below 0 */
	uint64_t inflight;  /* being loaded now */
	uint64_t demand;    /* bytes of front-end misses seen in the last 100 ms */
	int32_t is_cgroup;  /* 1: a cgroup limit binds; 0: node memory or configuration */
	/* Pages of 4 KiB taken off the threshold for now, since tasks stall for memory.  No reason
	 * to drop what is needed soon. */
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

/* ppc_context.want(): events that the policy needs; the module sends no others. */
#define PPC_WANT_MANAGED_RA 0x01u /* policy does read-ahead (default when ppc_prefetch or ppc_plan is set) */
#define PPC_WANT_PROGRESS 0x02u
#define PPC_WANT_TRACE 0x04u
#define PPC_WANT_OPENCLOSE 0x08u
#define PPC_WANT_EVICT 0x10u /* also ppc_evict(NULL) every 200 ms while below the threshold */

/* ppc_context.caps: what the backend can do */
#define PPC_CAN_UNMAP 0x01u
#define PPC_CAN_PROGRESS 0x02u
#define PPC_CAN_TRACE 0x04u
#define PPC_CAN_CHARGE 0x08u
#define PPC_CAN_NODE 0x10u
#define PPC_IS_SAMPLED 0x20u /* accesses are sampled: a recording has holes */
#define PPC_CAN_DEADLINES 0x40u /* lists may have deadlines, struct timed_prefetch_ios */
#define PPC_CAN_MANY 0x100u /* loads may have PPC_IO_MANY */
#define PPC_IS_TRACED 0x80u /* there is a trace_file; without one trace() does nothing */
#define PPC_MISSES_HUGE 0x200u /* pages mapped by huge pages of a cached file are not seen */
/*
 * O_DIRECT reads bypass the page cache, so ranges loaded for them are read twice.  PPC_OPEN with
 * PPC_F_DIRECT is sent at a thread's first such read; no other open is sent.
 */
#define PPC_MISSES_DIRECT 0x400u

#define PPC_REMOTE_EXIT_S 2u /* see background_remote() */

enum ppc_log_level { PPC_LOG_ERROR = 3, PPC_LOG_WARNING = 4, PPC_LOG_INFO = 6, PPC_LOG_DEBUG = 7 };

/*
 * Passed to ppc_init as its argument ("private" in the paper); stays valid
 * until ppc_exit has returned.  All functions take the context first and
 * return 0 or a negative errno.  They block on storage no longer than a path
 * look-up takes.
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

	/*
	 * A message about a service begins "NAME: service ID: ", which readers of the log search
	 * for.
	 */
	void (*log)(const struct ppc_context *, int level, const char *message);
	uint64_t (*now_ns)(const struct ppc_context *); /* CLOCK_MONOTONIC; simulated time in replay */
	/* Chooses events; beacon_bytes 0 = keep.  May be called again at any time. */
	int (*want)(const struct ppc_context *, uint32_t want, uint64_t beacon_bytes);
	int (*memory)(const struct ppc_context *, uint32_t service, struct ppc_memory *out);
	/* By path.  out->file is the number for lists, and that of events, as long as the file is
	 * the same, even if its inode leaves the kernel's cache and returns.  -ENOENT, -ELOOP
	 * (symbolic link out of the mount), ... */
	int (*file_info)(const struct ppc_context *, const char *path, struct ppc_file_info *out);
	/* Path of a file number; -ESTALE when the file is gone. */
	int (*file_path)(const struct ppc_context *, uint64_t file, char *buf, size_t buf_bytes);
	/* Residency; bitmap may be NULL, else has one bit per page, bitmap_bytes >= (pages+7)/8. */
	int (*resident)(const struct ppc_context *, uint64_t file, uint64_t offset, uint64_t size,
			struct ppc_residency *out, uint8_t *bitmap, size_t bitmap_bytes);
	/* Reads up to size bytes of a file of the mount (headers); returns bytes or -errno. */
	int64_t (*read)(const struct ppc_context *, const char *path, uint64_t offset, void *buf,
			size_t size);
	/* NUMA node of an XPU (index in this machine's list), -1 unknown. */
	int (*xpu_node)(const struct ppc_context *, int32_t xpu);
	/* XPU of a process, -1 unknown (chain of providers, paper section 4.1). */
	int (*process_xpu)(const struct ppc_context *, int32_t pid, uint64_t start_ns);
	/* Drops queued loads of a group, and stops those in flight, of every service
	 * (paper: interruptible). */
	void (*interrupt)(const struct ppc_context *, uint32_t group);
	/* Returns a file to native read-ahead (1) or to the policy (0). */
	int (*file_native)(const struct ppc_context *, uint64_t file, int native);
	/* Free counters shown by `ppcctl status`; name is copied. */
	void (*stat)(const struct ppc_context *, const char *name, uint64_t value);
	/*
	 * One line of the policy's own time series (JSON object without newline), for the runtime's
	 * trace_file.
	 */
	void (*trace)(const struct ppc_context *, const char *json);
	/* Lists a directory of the mount ("" = its root), in any order, without "." and "..".
	 * entry() gets an entry's own name and its kind ('f' regular file, 'd' directory, 'l'
	 * symbolic link, '?' other); non-zero from entry() ends the listing. */
	int (*list_dir)(const struct ppc_context *, const char *path,
			int (*entry)(void *arg, const char *name, char kind), void *arg);
	/* interrupt() for one service's load group. */
	void (*interrupt_of)(const struct ppc_context *, uint32_t service, uint32_t group);
	/*
	 * Work too slow for a hook, such as reading headers or writing templates.  work(arg) runs
	 * on a thread for such work, in order of submission, however long it takes.  done(arg) (may
	 * be NULL) then runs between two hooks, on their thread and within their time limit.  The
	 * policy owns arg from the call to the end of done(), and shares nothing else with work()
	 * without a lock.
	 *
	 * work() may use log, now_ns, file_info, file_path, resident, read, list_dir, xpu_node,
	 * stat and trace, the plain members of this struct, and no other function of it.
	 *
	 * Every accepted pair is finished, done() included, before ppc_exit is called, also when
	 * the policy is dropped.  If ppc_init refuses, pairs that it submitted finish after its
	 * return.  Until then done() may submit another pair.  -EAGAIN: thousands wait already;
	 * -ESHUTDOWN: from ppc_exit on.  Absent (size is smaller) in older hosts.
	 */
	int (*background)(const struct ppc_context *, void (*work)(void *arg),
			  void (*done)(void *arg), void *arg);
	void *unused; /* NULL */
	/* background() for work that waits for other machines, such as a store on a network.  It
	 * runs on a thread of its own, so work of background() does not wait for it.  Work that
	 * takes longer than PPC_REMOTE_EXIT_S after the policy's end is given up: its work() may
	 * still run beside ppc_exit, and its done() is not called. */
	int (*background_remote)(const struct ppc_context *, void (*work)(void *arg),
				 void (*done)(void *arg), void *arg);
	/* Use of a service's memory cgroup, page cache included, limited or not, at the time of the
	 * last memory() reading; bytes, 0: it has none. */
	uint64_t (*group_used)(const struct ppc_context *, uint32_t service);
	/* Sets the service's threshold to its memory limit less a thirty-second part (1), or to the
	 * configured one (0), for a policy that makes room before it loads.  memory() returns the
	 * threshold in force. */
	int (*use_limit)(const struct ppc_context *, uint32_t service, int on);
};

/* ----------------------------------------------------------------- hooks */

/*
 * Called for each service when the loader has room, with or without a miss:
 * returns the next ranges to load for it, most urgent first.  Return at most
 * max_bytes (a little more is fine); NULL or nr == 0 = nothing now.  The runtime
 * then asks again after a miss of that service, a result, a control message (not
 * one about another service), done() of background(), or a tick; after PROGRESS
 * and ACCESS when no more events are queued, else every 20 ms.  The memory
 * reading is up to a second old, unless something was missed or loaded since.
 */
struct ppc_plan_request {
	uint64_t max_bytes;
	const struct ppc_memory *memory; /* of the service */
	/*
	 * Rate that loads on this mount got from the device lately (a read limit counts too); 0 =
	 * not known.
	 */
	uint64_t device_rate;    /* all together, bytes a second */
	uint64_t device_step_ns; /* time of one load of 2 MiB */
	uint32_t service;        /* to load for; the mount's own (0) if none was started */
	uint32_t pad;
};

struct ppc_operation {
	/* Once, at registration; argument: struct ppc_context *.  Non-zero refuses:
	 * the registration fails and the native policy stays.  Optional. */
	int (*ppc_init)(void *);
	/* Once, after the last other hook, also when the runtime drops the policy.  Optional. */
	int (*ppc_exit)(void);
	/* For every miss: ranges to load.  NULL = nothing.  Optional: without it
	 * and ppc_plan, the runtime reads ahead as the kernel does. */
	struct prefetch_ios *(*ppc_prefetch)(struct miss_io *);
	/* Ranges to drop, when memory use is above the threshold: called after each miss
	 * (before ppc_prefetch) or PROGRESS (after ppc_event) with that event, and every
	 * 200 ms with NULL.  A policy with ppc_plan gets NULL, once for all queued
	 * events.  Also called with NULL after service_ready and service_stop, with
	 * PPC_WANT_EVICT, and, for a policy with ppc_plan, when not even a chunk fits
	 * below the threshold (a loader without room would wait for ever).  Optional:
	 * without it the kernel's eviction applies. */
	struct evict_ios *(*ppc_evict)(struct miss_io *);

	/* Extensions beyond the paper; all optional. */
	/* PROGRESS, ACCESS, OPEN, CLOSE as asked for by want(). */
	void (*ppc_event)(const struct miss_io *);
	struct prefetch_ios *(*ppc_plan)(const struct ppc_plan_request *);
	/* The result of each chunk of a list. */
	void (*ppc_done)(const struct ppc_result *);
	/* Control message: a JSON object with "op": "service_start", "service_ready",
	 * "service_stop", "status" or a verb of the policy.  Returns a JSON object
	 * ({"error": "..."} = refused), or NULL = unknown op. */
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
