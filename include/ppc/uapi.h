/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * ABI of /dev/ppcN, the character device that every mount of type "ppc" owns.
 *
 * The module sends cache events to one consumer (per-CPU rings, mapped) and
 * executes ioctls for any number of openers.  Paper: section 3.1 (UPC) and
 * section 3.2 (loader and evictor).
 *
 * Rules: little structs, fixed width, explicit padding; padding and unknown
 * flags must be zero (-EINVAL otherwise).  Offsets and lengths are in bytes.
 * open() is -EPERM without CAP_SYS_ADMIN; ioctls do not ask again.  After
 * unmount every call gives -ENODEV and poll() reports POLLHUP.
 *
 * Changelog
 *   1  first version
 */
#ifndef PPC_UAPI_H
#define PPC_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define PPC_UAPI_VERSION	1

/* ------------------------------------------------------------------ events */

enum ppc_event_kind {
	PPC_EV_MISS_READ  = 1,	/* absent extent met by a read; the 64th of a call: the rest */
	PPC_EV_MISS_FAULT = 2,	/* absent extent met by a page fault */
	PPC_EV_PROGRESS   = 3,	/* reader passed a beacon boundary (BEACON) */
	PPC_EV_ACCESS     = 4,	/* coalesced access, hit or miss (TRACE) */
	PPC_EV_OPEN       = 5,	/* file opened; offset 0, length = i_size capped */
	PPC_EV_CLOSE      = 6,	/* last reference to the open file is gone */
};

/* struct ppc_event.flags */
#define PPC_EVF_NOT_USER	0x01	/* fault not by the user's own access (populate, GUP) */
#define PPC_EVF_WRITE		0x02	/* write fault on a private mapping */
#define PPC_EVF_HIT		0x04	/* PROGRESS, ACCESS: the pages were resident */
#define PPC_EVF_DIRECT		0x08	/* OPEN: passes O_DIRECT through; no page cache use */
#define PPC_EVF_LOST		0x10	/* events were dropped on this ring just before this one */
#define PPC_EVF_MMAP		0x20	/* PROGRESS, ACCESS: by fault, not by read */

/**
 * struct ppc_event - one event, 64 bytes
 * @file_id: file; never reused while the module is loaded (see PPC_IOC_FILE)
 * @open_id: open file description it came through, unique per mount until it
 *	wraps
 * @seq: sequence number on this ring; a gap means lost events, except those
 *	lost by a flood of one task or cgroup (events_dropped_flood)
 * @offset: page-aligned start, bytes
 * @length: bytes, multiple of the page size
 * @kind: enum ppc_event_kind
 * @flags: PPC_EVF_*
 * @cpu: CPU it was queued on
 * @tgid: process in the pid namespace of the task that attached, 0 if invisible
 * @tid: thread, likewise
 * @start_ns: start of the process, nanoseconds since boot (CLOCK_BOOTTIME)
 * @cgroup_id: id of its cgroup in the cgroup2 hierarchy
 * @time_ns: CLOCK_MONOTONIC
 */
struct ppc_event {
	__u64 file_id;
	__u32 open_id;
	__u32 seq;
	__u64 offset;
	__u32 length;
	__u8  kind;
	__u8  flags;
	__u16 cpu;
	__s32 tgid;
	__s32 tid;
	__u64 start_ns;
	__u64 cgroup_id;
	__u64 time_ns;
};

/*
 * Rings, after PPC_IOC_ATTACH.  Two mappings of the device:
 *
 *   offset PPC_MMAP_RINGS, PROT_READ, nr_rings * ring_stride bytes:
 *     each ring = struct ppc_ring_head in its own page, then ring_entries
 *     records of struct ppc_event.
 *   offset PPC_MMAP_CONSUMER, PROT_READ|PROT_WRITE, consumer_bytes:
 *     struct ppc_consumer, then nr_rings * struct ppc_ring_tail.
 *
 * head and tail run freely; slot = counter & (ring_entries - 1).  The consumer
 * reads head with acquire, copies records out, stores tail with release.  The
 * kernel keeps its own head, so wrong values in the consumer page can only cost
 * the consumer its events.  mmap() errors: ENXIO before ATTACH; EINVAL private,
 * or longer than the area; EPERM writable rings.
 *
 * Sleeping: store need_wakeup = 1 (seq_cst), look at all heads once more, then
 * poll(), which sets it again, since a wake-up under way may clear it.  The
 * kernel clears it when it wakes the sleeper.  Misses soon after one that woke
 * the consumer may wake it a little later, together, but well within its lease.
 * poll() says POLLERR | POLLHUP when the lease has run out, POLLHUP when the
 * mount is gone.
 */
#define PPC_MMAP_RINGS		0x000000000ULL
#define PPC_MMAP_CONSUMER	0x100000000ULL

struct ppc_ring_head {
	__u32 head;
	__u32 entries;
	__u64 queued;
	__u64 dropped;
	__u64 coalesced;	/* 0: the module merges before queueing, see ppc_info */
};

struct ppc_ring_tail {
	__u32 tail;
	__u32 pad[15];
};

struct ppc_consumer {
	__u32 need_wakeup;
	__u32 pad[15];
};

/* ------------------------------------------------------------------ ioctls */

/*
 * Errors of all: ENOTTY unknown number, size or direction; EFAULT; EINVAL unknown
 * flags, or padding or reserved fields that are not 0; ENOMEM; ENODEV the mount
 * is gone.
 */

#define PPC_NAME_MAX_BYTES	4096	/* path relative to the mount, with NUL */
#define PPC_LABEL_BYTES		32
#define PPC_MAX_NODES		64
#define PPC_CANCEL_SLOTS	64
#define PPC_CANCEL_NONE		0xffffffffU

/* struct ppc_info.caps */
#define PPC_CAP_CHARGE		0x01	/* PPC_IOC_CHARGE works on this kernel */
#define PPC_CAP_BACKING_FILE	0x02	/* lower files are backing files (6.7+) */
/* struct ppc_info.state */
#define PPC_STATE_ATTACHED	0x01
#define PPC_STATE_MANAGED_RA	0x02
#define PPC_STATE_TRACE		0x04
#define PPC_STATE_BEACON	0x08
#define PPC_STATE_EXPIRED	0x10	/* the last attachment ended by its lease */

/**
 * struct ppc_info - PPC_IOC_INFO; on the consumer's descriptor it also
 * renews the lease
 */
struct ppc_info {
	__u32 version;		/* PPC_UAPI_VERSION of the module */
	__u32 caps;
	__u32 state;
	__u32 page_bytes;
	__u32 dev_major;	/* st_dev of the mount */
	__u32 dev_minor;
	__u32 window_bytes;	/* demand window in force */
	__u32 beacon_bytes;	/* beacon distance in force */
	__u32 lease_ms;
	__u32 nr_open;		/* open regular files on the mount */
	__u64 events_queued;
	__u64 events_dropped;
	__u64 events_coalesced;
	__u64 wakeups;
	__u64 lease_expiries;
	__u64 reserved[4];
};

/* struct ppc_attach.flags */
#define PPC_ATTACH_MANAGED_RA	0x01	/* policy does read-ahead: demand window on, native off */
#define PPC_ATTACH_BEACON	0x02	/* send PROGRESS */
#define PPC_ATTACH_TRACE	0x04	/* send ACCESS for everything; unmaps pages once to see */
#define PPC_ATTACH_OPENCLOSE	0x08	/* send OPEN and CLOSE */

/**
 * struct ppc_attach - PPC_IOC_ATTACH: become the consumer
 * @flags: PPC_ATTACH_*
 * @lease_ms: 100..600000; the attachment ends when pending events are not
 *	consumed for that long and no ioctl came on this descriptor either
 * @window_bytes: demand window, power of two, page size..32 MiB; 0 = mount option
 * @beacon_bytes: beacon distance, power of two, 64 KiB..1 GiB; 0 = mount option
 * @label: policy name shown in sysfs, NUL padded
 * @nr_rings, @ring_entries, @ring_stride, @consumer_bytes: out, see above
 *
 * A repeated ATTACH on the same descriptor changes flags, window, beacon and
 * lease and keeps the rings.  Errors: EBUSY another consumer is attached; EINVAL.
 * PPC_IOC_DETACH ends the attachment; PPC_IOC_FLUSH queues pending accesses at
 * once; ENOTCONN this descriptor is not the consumer's.
 */
struct ppc_attach {
	__u32 flags;
	__u32 lease_ms;
	__u32 window_bytes;
	__u32 beacon_bytes;
	char  label[PPC_LABEL_BYTES];
	__u32 nr_rings;
	__u32 ring_entries;
	__u64 ring_stride;
	__u64 consumer_bytes;
	__u64 reserved[2];
};

/**
 * struct ppc_file - PPC_IOC_FILE (by @file_id) and PPC_IOC_LOOKUP (by name)
 * @name: user pointer to a buffer of @name_bytes; FILE writes the path
 *	relative to the mount root there, LOOKUP reads it from there.  No leading
 *	slash.  LOOKUP refuses "..", empty components and symbolic links (ELOOP).
 * Errors: ESTALE unknown or gone id; ENOENT; ENOTDIR; EISDIR not a regular
 *	file; ENAMETOOLONG buffer too small; EINVAL a name that LOOKUP refuses;
 *	errors of the lower file system.
 */
struct ppc_file {
	__u64 file_id;
	__u64 name;
	__u32 name_bytes;
	__u32 flags;		/* 0 */
	__u64 size;		/* out, bytes */
	__u64 ino;		/* out, of the lower file */
	__u32 dev_major;	/* out, of the lower file system */
	__u32 dev_minor;
	__s64 mtime_sec;	/* out */
	__u32 mtime_nsec;
	__u32 generation;	/* out, inode generation */
	__u64 reserved[2];
};

/* struct ppc_load.flags */
#define PPC_LOAD_WAIT		0x01	/* return when the pages are uptodate */
/* struct ppc_load.stop */
enum ppc_load_stop {
	PPC_STOP_DONE      = 0,	/* whole range considered */
	PPC_STOP_EOF       = 1,	/* clamped to i_size */
	PPC_STOP_SIGNAL    = 2,
	PPC_STOP_CANCELLED = 3,
	PPC_STOP_UNMOUNT   = 4,
	PPC_STOP_UNSUPPORTED = 5, /* DAX or no read-ahead on the lower */
	PPC_STOP_NOMEM     = 6,
};

/**
 * struct ppc_load - PPC_IOC_LOAD: read absent pages of a range into the cache
 *
 * Runs in the caller: CPU, memory policy and I/O context are the thread's.
 * Works in steps of 2 MiB; between steps it looks for signals, for
 * PPC_IOC_CANCEL with a newer generation on @cancel_slot and for unmount.
 * Returns 0 with true numbers also when stopped early.
 * @loaded: bytes absent before and uptodate after (only with WAIT; else 0)
 * @submitted: bytes absent before that this call asked the lower fs to read
 * @resident: bytes found present
 * @failed: with WAIT, submitted - loaded (read error, or reclaimed at once);
 *	after PPC_STOP_SIGNAL bytes not waited for are in neither
 * @done: bytes of the range considered, from its start
 * Errors: EINVAL, also of @length 0; ESTALE, EISDIR as for PPC_IOC_FILE; EBADF
 *	@charge is no handle of this descriptor, or of a removed cgroup; EAGAIN
 *	the lower file has a lease that must be broken first; other errors of
 *	opening the lower file.
 */
struct ppc_load {
	__u64 file_id;
	__u64 offset;
	__u64 length;
	__u32 flags;
	__u32 charge;		/* handle of PPC_IOC_CHARGE, 0 = the caller's cgroup */
	__u32 cancel_slot;	/* 0..PPC_CANCEL_SLOTS-1 or PPC_CANCEL_NONE */
	__u32 pad;
	__u64 generation;	/* stopped once the slot's generation is greater */
	__u64 loaded;
	__u64 submitted;
	__u64 resident;
	__u64 failed;
	__u64 done;
	__u32 stop;		/* out, enum ppc_load_stop */
	__u32 pad2;
	__u64 reserved[2];
};

/**
 * struct ppc_cancel - PPC_IOC_CANCEL: ends LOADs of this descriptor on @slot with
 * older generations
 * Errors: EINVAL, also of a @generation beyond 2^63 - 1.
 */
struct ppc_cancel {
	__u32 slot;
	__u32 pad;
	__u64 generation;	/* never lowers the slot's value */
};

/* struct ppc_evict.flags */
#define PPC_EVICT_UNMAP		0x01	/* drop mappers' page-table entries first (they re-fault) */
#define PPC_EVICT_EVEN_LOCKED	0x02	/* mlocked folios too */
#define PPC_EVICT_DRAIN		0x04	/* may drain all CPUs' LRU batches for the rest (costly) */

/**
 * struct ppc_evict - PPC_IOC_EVICT: drop clean pages of a range
 * Counts are bytes.  asked = resident at the start; asked = dropped + mapped +
 * dirty + locked + busy (straddling folios, pins, LRU batches, re-read pages).
 * Partial pages at the ends stay, except the one that holds the end of file.
 * Errors: EINVAL; ESTALE, EISDIR as for PPC_IOC_FILE.
 */
struct ppc_evict {
	__u64 file_id;
	__u64 offset;
	__u64 length;
	__u32 flags;
	__u32 pad;
	__u64 asked;
	__u64 dropped;
	__u64 mapped;
	__u64 dirty;
	__u64 locked;
	__u64 busy;
	__u64 reserved[2];
};

/**
 * struct ppc_resident - PPC_IOC_RESIDENT: which pages of a range are cached
 * @bitmap: user pointer or 0; bit i of byte i/8 = page i of the range is uptodate
 * @bitmap_bytes: its size, at least (pages + 7) / 8
 * @resident, @dirty, @mapped, @node: out, bytes; pages on nodes from
 *	PPC_MAX_NODES on count in @resident only
 * length 0 = to end of file.  At most 1 TiB a call.
 * Errors: EINVAL, also of a bitmap too small; EFAULT; ESTALE, EISDIR as for
 *	PPC_IOC_FILE.
 */
struct ppc_resident {
	__u64 file_id;
	__u64 offset;
	__u64 length;
	__u64 bitmap;
	__u64 bitmap_bytes;
	__u64 resident;
	__u64 dirty;
	__u64 mapped;
	__u64 node[PPC_MAX_NODES];
};

/* struct ppc_charge.flags */
#define PPC_CHARGE_RELEASE	0x01	/* give @handle back; loads under way keep it */

/**
 * struct ppc_charge - PPC_IOC_CHARGE: a handle that charges loads to a cgroup
 * @cgroup_fd: directory of the cgroup (v2, or v1 memory hierarchy); unused with
 *	RELEASE
 * Handles belong to the descriptor; once the cgroup is removed LOAD refuses
 * them (EBADF).  EOPNOTSUPP on kernels that cannot (5.10); there the loader
 * runs in a process inside the cgroup.  EBADF no cgroup directory, or a handle
 * that is not one; ENOENT a cgroup that is being removed; EINVAL no memory
 * controller; ENOSPC too many handles.
 */
struct ppc_charge {
	__s32 cgroup_fd;
	__u32 flags;		/* PPC_CHARGE_* */
	__u32 handle;		/* > 0; out, with RELEASE in */
	__u32 pad;
};

/* struct ppc_file_mode.mode */
#define PPC_FILE_POLICY		0	/* follow ATTACH */
#define PPC_FILE_NATIVE		1	/* native read-ahead although MANAGED_RA */

/**
 * struct ppc_file_mode - PPC_IOC_FILE_MODE: native or managed read-ahead for
 * one file, open or not, while its inode is cached
 * Errors: EINVAL; ESTALE, EISDIR as for PPC_IOC_FILE.
 */
struct ppc_file_mode {
	__u64 file_id;
	__u32 mode;
	__u32 pad;
};

#define PPC_IOC_TYPE		0xb9
#define PPC_IOC_INFO		_IOR(PPC_IOC_TYPE, 0, struct ppc_info)
#define PPC_IOC_ATTACH		_IOWR(PPC_IOC_TYPE, 1, struct ppc_attach)
#define PPC_IOC_DETACH		_IO(PPC_IOC_TYPE, 2)
#define PPC_IOC_FILE		_IOWR(PPC_IOC_TYPE, 3, struct ppc_file)
#define PPC_IOC_LOOKUP		_IOWR(PPC_IOC_TYPE, 4, struct ppc_file)
#define PPC_IOC_LOAD		_IOWR(PPC_IOC_TYPE, 5, struct ppc_load)
#define PPC_IOC_CANCEL		_IOW(PPC_IOC_TYPE, 6, struct ppc_cancel)
#define PPC_IOC_EVICT		_IOWR(PPC_IOC_TYPE, 7, struct ppc_evict)
#define PPC_IOC_RESIDENT	_IOWR(PPC_IOC_TYPE, 8, struct ppc_resident)
#define PPC_IOC_CHARGE		_IOWR(PPC_IOC_TYPE, 9, struct ppc_charge)
#define PPC_IOC_FILE_MODE	_IOW(PPC_IOC_TYPE, 10, struct ppc_file_mode)
#define PPC_IOC_FLUSH		_IO(PPC_IOC_TYPE, 11)

#endif /* PPC_UAPI_H */
