/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The maps of the observer's programs, and sending an event to a directory's ring.
 */
/* clang-format off */
#ifndef PPC_OBSERVER_MAPS_H_
#define PPC_OBSERVER_MAPS_H_

#include <linux/bpf.h>
#include <linux/magic.h>

#include "kernel_types.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "observer_abi.h"

#define PAGE_SHIFT 12
#define PAGE_BYTES (1ULL << PAGE_SHIFT)
#define PMD_PAGES 512
#define GATHER_BYTES (1ULL << 20)	/* longest piece that one event reports */
#define WAKE_NS (10ULL * 1000 * 1000)	/* between two wake-ups for positions */
#define URGENT_NS (1000ULL * 1000)	/* likewise, for misses; the runner's nap */
#define RETURN_NS (10ULL * 1000 * 1000)	/* back at offset 0 after this: read again */
#define MAX_FOLIO_ORDER 13
#define XA_MOST_LEVELS 6
#define XA_SLOTS 64
#define REPORT_AGAIN_NS (10ULL * 1000 * 1000 * 1000)	/* until an inode is reported again */

/* Set before loading, so that the verifier removes code this kernel cannot run. */
const volatile _Bool has_task_regs = 0;
const volatile _Bool has_folios = 1;
/* A fault maps more than its tracepoint says, and fentry on the mapping function is not allowed. */
const volatile _Bool looks_for_folios = 0;

/* New at each loading: user space can compare kernel addresses without knowing them. */
const volatile __u64 salt = 0;

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, kObsMaxDirs);
	__type(key, __u32);
	__array(values, struct ring);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, kObsMaxInodes);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct obs_inode_key);
	__type(value, struct obs_inode);
} inodes SEC(".maps");

/* Devices that ever had listed files; insertions on others end here. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4 * kObsMaxDirs);
	__type(key, __u32);
	__type(value, __u32);
} devices SEC(".maps");

/* Directories that have files on a device. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16 * kObsMaxDirs);
	__type(key, struct obs_device_key);
	__type(value, __u32);
} dir_devices SEC(".maps");

/* Registered directories by their own inodes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * kObsMaxDirs);
	__type(key, struct obs_root_key);
	__type(value, __u32);
} roots SEC(".maps");

/* Inodes that were reported already: unlisted, or listed differently. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, kObsMaxReported);
	__type(key, struct obs_inode_key);
	__type(value, struct obs_reported_inode);
} reported_inodes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, kObsMaxDirs);
	__type(key, __u32);
	__type(value, struct obs_dir);
} dirs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, kObsMaxReaders);
	__type(key, struct obs_reader_key);
	__type(value, struct obs_reader);
} readers SEC(".maps");

/*
 * Our own processes (runners, and helpers in services' cgroups) and their directory; their accesses
 * are not reported.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, kObsMaxOwn);
	__type(key, __u32);
	__type(value, __u32);
} own SEC(".maps");

/* Executables whose execs are reported, and their directories. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, kObsMaxExecutables);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct obs_exec_key);
	__type(value, __u32);
} executables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, kObsMaxDirs);
	__type(key, __u32);
	__type(value, struct obs_counts);
} counts SEC(".maps");

/* Not used by the programs: state shared among our processes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct obs_state);
} state SEC(".maps");

static __always_inline __u64 salted(const void *address)
{
	return (__u64)address ^ salt;
}

/* The current system call of the task; negative: none, it faulted. */
static __always_inline long current_syscall(void)
{
	long number = 0;

#if defined(__TARGET_ARCH_x86) || defined(__TARGET_ARCH_arm64)
	if (has_task_regs) {
		struct task_struct *task = bpf_get_current_task_btf();
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
#if defined(__TARGET_ARCH_x86)
		bpf_core_read(&number, sizeof(number), &regs->orig_ax);
#else
		int call = 0;

		bpf_core_read(&call, sizeof(call), &regs->syscallno);
		number = call;
#endif
	}
#endif
	return number;
}

/* The cgroup2 id, even if v1 has the memory controller: ids of two hierarchies overlap. */
static __always_inline void identify(struct task_struct *task, __u64 *start_ns, __u64 *cgroup)
{
	*start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	*cgroup = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
}

/*
 * Sends one event of `bytes`, with the data behind it, to the directory's ring, and wakes the
 * reader unless it was woken just now.
 */
static __always_inline void send_bytes(const struct obs_event *event, __u64 bytes, __u32 dir,
				       struct obs_dir *config, _Bool urgent)
{
	void *ring = bpf_map_lookup_elem(&rings, &dir);
	struct obs_counts *count = bpf_map_lookup_elem(&counts, &dir);
	__u64 flags = BPF_RB_NO_WAKEUP;

	if (!ring || !count)
		return;
	if (event->time_ns - config->woken_ns > WAKE_NS ||
	    (urgent && event->time_ns - config->urgent_ns > URGENT_NS)) {
		config->woken_ns = event->time_ns;
		config->urgent_ns = event->time_ns;
		flags = BPF_RB_FORCE_WAKEUP;
		count->wakeups++;
	}
	if (bpf_ringbuf_output(ring, (void *)event, bytes, flags))
		count->lost++;
	else
		count->sent++;
}

static __always_inline void send(const struct obs_event *event, __u32 dir, struct obs_dir *config,
				 _Bool urgent)
{
	send_bytes(event, sizeof(*event), dir, config, urgent);
}

static __always_inline void start_event(struct obs_event *event, __u64 file, __u64 time_ns)
{
	__u64 id = bpf_get_current_pid_tgid();

	__builtin_memset(event, 0, sizeof(*event));
	event->file = file;
	event->time_ns = time_ns;
	event->tgid = id >> 32;
	event->tid = (__u32)id;
	event->cpu = bpf_get_smp_processor_id();
}

static __always_inline _Bool is_own(void)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_lookup_elem(&own, &tgid) != 0;
}

#endif /* PPC_OBSERVER_MAPS_H_ */
