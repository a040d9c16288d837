/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The private structures of the module and accessors.  Lifetimes and lock order
 * are in README.md.
 */
#ifndef PPC_TYPES_H
#define PPC_TYPES_H

#include <linux/bits.h>
#include <linux/cache.h>
#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <ppc/uapi.h>

struct ppc_dev;
struct ppc_session;

enum ppc_odirect {
	PPC_ODIRECT_AUTO,	/* direct without a policy, else through the page cache */
	PPC_ODIRECT_PASS,
	PPC_ODIRECT_BUFFERED,
	PPC_ODIRECT_DENY,
};

/* Mount options. */
struct ppc_opts {
	enum ppc_odirect odirect;
	u32 queue_events;	/* total over all rings */
	u32 window_bytes;	/* default demand window */
	u32 beacon_bytes;	/* default beacon distance */
	bool allow_suid;	/* constant after the mount */
};

/* ppc_sb.mode; zero while no consumer is attached */
#define PPC_MODE_ATTACHED	0x01
#define PPC_MODE_MANAGED	0x02
#define PPC_MODE_BEACON		0x04
#define PPC_MODE_TRACE		0x08
#define PPC_MODE_OPENCLOSE	0x10

#define PPC_RECENT_FAULTS	64

enum ppc_stat {
	PPC_STAT_QUEUED,
	PPC_STAT_DROPPED,
	PPC_STAT_DROPPED_FULL,
	PPC_STAT_DROPPED_DETACHED,
	PPC_STAT_DROPPED_FLOOD,
	PPC_STAT_COALESCED,
	PPC_STAT_MISSES_READ,
	PPC_STAT_MISSES_FAULT,
	PPC_STAT_WAKEUPS,
	PPC_STAT_WAKEUPS_LATE,
	PPC_STAT_LEASE_EXPIRIES,
	PPC_STAT_WINDOW_BYTES,
	PPC_STAT_ODIRECT_OPENS,
	PPC_STAT_LOADED_BYTES,
	PPC_STAT_LOAD_RESIDENT_BYTES,
	PPC_STAT_LOAD_FAILED_BYTES,
	PPC_STAT_LOAD_SIGNAL,
	PPC_STAT_LOAD_CANCELLED,
	PPC_STAT_LOAD_NOMEM,
	PPC_STAT_LOAD_UNSUPPORTED,
	PPC_STAT_EVICTED_BYTES,
	PPC_STAT_LEFT_MAPPED,
	PPC_STAT_LEFT_DIRTY,
	PPC_STAT_LEFT_WRITEBACK,
	PPC_STAT_LEFT_LOCKED,
	PPC_STAT_LEFT_READING,
	PPC_STAT_LEFT_STRADDLING,
	PPC_STAT_LEFT_BUSY,
	PPC_STAT_EVICT_SIGNAL,
	PPC_STAT_REFUSED_INVALID,
	PPC_STAT_REFUSED_UNKNOWN,
	PPC_STAT_REFUSED_FAULT,
	PPC_STAT_REFUSED_STALE,
	PPC_STAT_REFUSED_NAME,
	PPC_STAT_REFUSED_BUSY,
	PPC_STAT_REFUSED_DETACHED,
	PPC_STAT_REFUSED_HANDLE,
	PPC_STAT_REFUSED_LIMIT,
	PPC_STAT_REFUSED_NOMEM,
	PPC_STAT_REFUSED_UNSUPPORTED,
	PPC_STAT_REFUSED_OTHER,
	PPC_STAT_COUNT
};

struct ppc_stats {
	u64 count[PPC_STAT_COUNT];
};

#define PPC_OPEN_LISTS_BITS	4
#define PPC_OPEN_LISTS		BIT(PPC_OPEN_LISTS_BITS)

/* Open files of some inodes; split so that opens of different files share no cache line. */
struct ppc_open_list {
	spinlock_t lock;		/* protects read-ahead and map_pages of the files too */
	struct list_head files;		/* struct ppc_open.ra.link */
	u32 nr;
} ____cacheline_aligned_in_smp;

/* One mount.  Lives from fill_super to the end of kill_sb. */
struct ppc_sb {
	struct super_block *sb;
	struct vfsmount *lower_mnt;	/* private clone; its root is BASE */
	struct vfsmount *fanotify_mnt;	/* writable if BASE is: for the events of marks.c */
	const struct cred *cred;	/* of the mounter */
	struct file *nonotify_file;	/* see ppc_open_nonotify(); NULL where unused */
	dev_t base_dev;			/* st_dev of BASE */
	char *base;			/* absolute path, for show_devname */
	struct ppc_opts opts;		/* READ_ONCE; remount writes them */
	bool caller_cred;		/* NFS and its relatives: opens use the caller's rights */
	bool shares_mapping;		/* see ppc_shares_mapping() */
	bool idmapped;			/* the lower mount is id-mapped */
	bool nosymfollow;		/* of the lower mount */
	bool nosuid;			/* programs get no rights from their files */

	/* Read by each operation and event, rarely written. */
	unsigned long mode ____cacheline_aligned_in_smp;	/* PPC_MODE_* */
	struct ppc_session __rcu *session;	/* written under attach_mutex */
	struct ppc_stats __percpu *stats;
	u32 window_pages;		/* in force, power of two */
	u32 beacon_shift;		/* in force, in pages */
	int minor;			/* of dev, like dying */
	bool dying;			/* READ_ONCE; no ioctl may begin */
	bool recently_used;		/* since the last sweep; see sweep.c */
	bool sweep_stopped;		/* no sweep is scheduled */
	bool expired;			/* the last lease ran out */

	/* Written by each open and close. */
	struct ppc_open_list open_lists[PPC_OPEN_LISTS];
	atomic_t next_open_id ____cacheline_aligned_in_smp;

	/* Written while tracing; the lock protects pending and ppc_open.events.link. */
	spinlock_t pending_lock ____cacheline_aligned_in_smp;
	struct list_head pending;	/* open files with ACCESS events not yet queued */
	u64 recent_faults[PPC_RECENT_FAULTS];	/* READ_ONCE, WRITE_ONCE; see ppc_fault_slot() */

	struct mutex attach_mutex ____cacheline_aligned_in_smp;	/* attach, detach, expiry */
	char label[PPC_LABEL_BYTES];	/* name of the policy; under attach_mutex */
	struct mutex flush_mutex;	/* one flush at a time; inside attach_mutex */
	struct delayed_work flush_work;	/* pending ACCESS events while tracing */
	struct delayed_work wake_work;	/* wakes the consumer for events that could wait */

	struct xarray inodes;		/* file id -> struct ppc_inode; RCU readers */
	struct delayed_work sweep_work;
	unsigned int idle_sweeps;	/* used by sweep_work only, like sweep_at */
	unsigned long sweep_at;		/* id where the next turn begins; 0: a new sweep */

	atomic64_t asked_bytes;		/* by EVICT since the LRU batches were last drained */

	struct ppc_dev *dev;
	struct kobject kobj;
	struct completion kobj_gone;
	bool kobj_live;
};

/* One inode; the VFS inode is embedded. */
struct ppc_inode {
	struct inode *lower;		/* referenced; constant after creation */
	struct address_space *mapping;	/* page cache of the data */
	u64 file_id;			/* never reused while the module is loaded */
	kuid_t lower_uid;		/* lower i_uid that our i_uid was mapped from */
	kgid_t lower_gid;
	atomic_t nr_open;
	bool native;			/* PPC_FILE_NATIVE; under ppc_open_list.lock */
	struct timespec64 label_ctime;	/* see ppc_check_label() */
	struct inode vfs_inode;
};

/* Read-ahead of an open file.  Read and written under ppc_open_list.lock, except @random. */
struct ppc_open_ra {
	struct list_head link;		/* ppc_open_list.files */
	bool random;			/* set by the application; READ_ONCE */
	bool sequential;		/* likewise, under the lock */
	bool window;			/* see ppc_set_fault_window() */
};

/* The VMAs' operations.  Written under ppc_open_list.lock; faults read them without a lock. */
struct ppc_open_map {
	const struct vm_operations_struct *lower;	/* set once, released after ops */
	struct vm_operations_struct ops;	/* later only .map_pages changes */
};

/*
 * History of the last accesses.  Read and written without a lock: of two
 * writers one is lost, and the consumer gets a wake-up or an event too many.
 */
struct ppc_open_history {
	pgoff_t urgent_page;		/* of the last miss that woke the consumer at once */
	pgoff_t beacon_page, beacon_end;	/* see ppc_beacon_end() */
	u8 bypass;			/* see ppc_tests_bypass() */
};

/* ppc_open_history.bypass: 0, or one more than the reads that left no page in the cache. */
#define PPC_BYPASS_POSSIBLE	1
#define PPC_BYPASS_ASSUMED	5

/* Strides of one descriptor that threads of a process may read in at a time. */
#define PPC_BEACON_RECENT	16

/* State of a descriptor's events.  Under lock; @link under ppc_sb.pending_lock. */
struct ppc_open_events {
	spinlock_t lock;		/* all except link and reads of beacons */
	u8 beacons;			/* number in use; READ_ONCE without the lock */
	u8 beacon_next;			/* the next to replace */
	u64 beacon_last;		/* the newest; READ_ONCE without the lock, like all */
	u64 beacon_recent[PPC_BEACON_RECENT];
	struct ppc_event pending;	/* ACCESS, not queued; length 0: none */
	struct list_head link;		/* ppc_sb.pending, while one is pending */
};

/*
 * One open file.  The upper file holds one reference and each of its VMAs
 * another, so it outlives close().  Fields outside the parts are set before
 * another task can see it, and constant.
 */
struct ppc_open {
	refcount_t ref;
	u32 open_id;
	struct ppc_sb *sbi;
	struct ppc_open_list *list;
	struct inode *inode;		/* ours; pinned by the path in lower, or by pin */
	struct file *lower;
	u32 marks;			/* events that reads must ask about, see marks.c */
	bool direct;			/* O_DIRECT passes through, as decided at open */
	bool pinned;			/* pin is in use, see ppc_open_lower() */
	bool denies_write;		/* see ppc_deny_write() */
	bool open_reported;		/* OPEN was reported */
	struct path pin;
	struct work_struct free_work;	/* frees it after the last reference */

	struct ppc_open_ra ra;
	struct ppc_open_history history;
	struct ppc_open_events events;
	struct ppc_open_map map;
};

static inline struct ppc_sb *PPC_SB(const struct super_block *sb)
{
	return sb->s_fs_info;
}

static inline struct ppc_inode *PPC_I(const struct inode *inode)
{
	return container_of(inode, struct ppc_inode, vfs_inode);
}

/* Regular files only; a directory's private_data is its lower file. */
static inline struct ppc_open *PPC_F(const struct file *file)
{
	return file->private_data;
}

/* The lower dentry; referenced until d_release. */
static inline struct dentry *PPC_D(const struct dentry *dentry)
{
	return dentry->d_fsdata;
}

extern struct file_system_type ppc_fs_type;

/* Finds the inode of the lowest file system, below all ppc mounts. */
static inline struct inode *ppc_bottom(struct inode *lower)
{
	while (lower->i_sb->s_type == &ppc_fs_type)
		lower = PPC_I(lower)->lower;
	return lower;
}

static inline struct dentry *ppc_bottom_dentry(struct dentry *lower)
{
	while (lower->d_sb->s_type == &ppc_fs_type)
		lower = PPC_D(lower);
	return lower;
}

/* The file of the lowest file system, which its operations expect. */
static inline struct file *ppc_bottom_file(struct file *lower)
{
	while (file_inode(lower)->i_sb->s_type == &ppc_fs_type)
		lower = PPC_F(lower)->lower;
	return lower;
}

#endif /* PPC_TYPES_H */
