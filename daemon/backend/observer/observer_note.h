/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Turns accesses and insertions into events: finds the listed inode and the reader.
 */
/* clang-format off */
#ifndef PPC_OBSERVER_NOTE_H_
#define PPC_OBSERVER_NOTE_H_

#include "observer_names.h"

/*
 * The first insertion for a while into an inode that is unlisted or listed differently; NULL:
 * reported.
 */
static __always_inline struct obs_reported_inode *
add_reported(struct inode *host, const struct obs_inode_key *key, struct obs_reported_inode **old)
{
	__u64 now = bpf_ktime_get_ns();
	struct obs_reported_inode entry = { .addr = salted(host), .since_ns = now };

	*old = bpf_map_lookup_elem(&reported_inodes, key);
	if (*old && (*old)->addr == entry.addr && now - (*old)->since_ns < REPORT_AGAIN_NS)
		return 0;
	*old = 0;
	entry.dir = dir_of(host);
	bpf_map_update_elem(&reported_inodes, key, &entry, BPF_ANY);
	return bpf_map_lookup_elem(&reported_inodes, key);
}

static __always_inline void report_changed(struct inode *host, const struct obs_inode_key *key,
					   __u32 dir)
{
	struct obs_dir *config = bpf_map_lookup_elem(&dirs, &dir);
	struct obs_reported_inode *old;
	struct obs_event event;

	if (!config || !config->is_watched || !add_reported(host, key, &old))
		return;
	start_event(&event, key->ino, bpf_ktime_get_ns());
	event.dev = key->dev;
	event.kind = kObsChanged;
	send(&event, dir, config, 1);
}

enum { REPORT_FIRST = 1, REPORT_OWNER = 2 };

/*
 * Reports an insertion into an unlisted inode to one directory; `how`: the kind of report.  Not
 * inlined, so that the verifier checks it once instead of once for each directory.
 */
__noinline int send_unlisted(__u64 inode, __u64 offset, __u64 end, __u32 dir, __u32 how)
{
	struct obs_dir *config = bpf_map_lookup_elem(&dirs, &dir);
	struct inode *host = (void *)inode;
	struct obs_unlisted_event record = {};
	struct obs_event *event = &record.event;
	struct obs_inode_key key;
	__u64 bytes = sizeof(*event);

	if (!config || !config->is_watched)
		return 0;
	if (!(how & (config->wants_unlisted ? REPORT_OWNER : REPORT_FIRST)))
		return 0;
	fill_key(host, &key);
	start_event(event, key.ino, bpf_ktime_get_ns());
	identify((struct task_struct *)bpf_get_current_task(), &event->start_ns, &event->cgroup);
	event->offset = offset;
	event->length = end - offset;
	event->dev = key.dev;
	event->generation = BPF_CORE_READ(host, i_generation);
	event->kind = kObsUnlisted;
	event->miss_kind = has_task_regs && current_syscall() < 0 ? kObsMissFault : kObsMissRead;
	if (config->wants_unlisted) {
		__u64 name = add_name(host, &record);

		if (name)
			bytes = __builtin_offsetof(struct obs_unlisted_event, name) + name;
	}
	send_bytes(event, bytes, dir, config, how & REPORT_FIRST);
	return 0;
}

/*
 * An insertion into an unlisted inode.  Any directory on this device may contain it: one whose
 * files are all listed looks it up once, others get its misses from here on.
 */
static __always_inline void report_unlisted(struct inode *host, const struct obs_inode_key *key,
					    __u64 offset, __u64 end)
{
	struct obs_reported_inode *old = 0;
	struct obs_reported_inode *entry = add_reported(host, key, &old);
	_Bool is_first = entry != 0;

	if (!entry)
		entry = old;
	if (!entry || entry->reports >= kObsMostReports || (!is_first && entry->dir == kObsMaxDirs))
		return;
	entry->reports++;
	for (__u32 dir = 0; dir < kObsMaxDirs; dir++) {
		struct obs_device_key place = { .dev = key->dev, .dir = dir };
		__u32 how = is_first ? REPORT_FIRST : 0;

		if (!bpf_map_lookup_elem(&dir_devices, &place))
			continue;
		if (entry->dir == dir || entry->dir == kObsAnyDir)
			how |= REPORT_OWNER;
		send_unlisted((__u64)host, offset, end, dir, how);
	}
}

/*
 * The listed inode of a mapping.  Inode numbers are reused, so the generation is compared; if two
 * subvolumes share device and numbers, the subvolume or the address is.
 */
static __always_inline struct obs_inode *find(struct inode *host, struct obs_inode_key *key)
{
	struct obs_inode *inode;

	fill_key(host, key);
	inode = bpf_map_lookup_elem(&inodes, key);
	if (inode && inode->has_subvolumes) {
		key->subvolume = subvolume_of(host);
		inode = bpf_map_lookup_elem(&inodes, key);
	}
	if (!inode)
		return 0;
	if (inode->generation != BPF_CORE_READ(host, i_generation) ||
	    (inode->by_addr && inode->addr != salted(host))) {
		report_changed(host, key, inode->dir);
		return 0;
	}
	return inode;
}

static __always_inline struct obs_reader *reader_of(const struct obs_inode *inode,
						    struct obs_reader_key *key, _Bool *is_new)
{
	struct obs_reader entry = {};
	struct obs_reader *reader;
	struct obs_counts *count;

	key->file = inode->file;
	key->tid = (__u32)bpf_get_current_pid_tgid();
	key->dir = inode->dir;
	reader = bpf_map_lookup_elem(&readers, key);
	*is_new = !reader;
	if (reader)
		return reader;
	if (is_own())
		return 0;
	entry.tgid = bpf_get_current_pid_tgid() >> 32;
	entry.reported = entry.reported_end = ~0ULL;
	identify((struct task_struct *)bpf_get_current_task(), &entry.start_ns, &entry.cgroup);
	bpf_map_update_elem(&readers, key, &entry, BPF_ANY);
	reader = bpf_map_lookup_elem(&readers, key);
	count = bpf_map_lookup_elem(&counts, &key->dir);
	if (count && reader)
		count->readers++;
	else if (count)
		count->lost++;
	return reader;
}

static __always_inline void send_reader(const struct obs_reader_key *key, struct obs_reader *reader,
					struct obs_dir *config, __u64 offset, __u64 end, __u8 kind,
					__u8 flags, __u64 now, _Bool urgent)
{
	struct obs_event event;

	start_event(&event, key->file, now);
	event.offset = offset;
	event.length = end - offset;
	/* Read now: the process may have changed its cgroup, or the entry may have been reused. */
	identify((struct task_struct *)bpf_get_current_task(), &event.start_ns, &event.cgroup);
	reader->start_ns = event.start_ns;
	reader->cgroup = event.cgroup;
	event.kind = kind;
	event.flags = flags;
	send(&event, key->dir, config, urgent);
}

static __always_inline void note_coalesced(__u32 dir)
{
	struct obs_counts *count = bpf_map_lookup_elem(&counts, &dir);

	if (count)
		count->coalesced++;
}

/* Reports insertions after the last reported miss, as one event. */
static __always_inline void flush_misses(const struct obs_reader_key *key,
					 struct obs_reader *reader, struct obs_dir *config, __u64 now)
{
	if (reader->miss_to <= reader->miss_end)
		return;
	send_reader(key, reader, config, reader->miss_end, reader->miss_to, reader->miss_kind,
		    kObsNotUser, now, 0);
	reader->miss_end = reader->miss_to;
}

/* The listed inode, if a runner wants its readers. */
static __always_inline struct obs_inode *find_wanted(struct inode *host, struct obs_dir **config)
{
	struct obs_inode_key key;
	struct obs_inode *inode = find(host, &key);
	__u32 dir;

	if (!inode)
		return 0;
	dir = inode->dir;
	*config = bpf_map_lookup_elem(&dirs, &dir);
	if (!*config || !(*config)->is_watched ||
	    !((*config)->wants_progress | (*config)->wants_trace))
		return 0;
	return inode;
}

/* A task reads or touches [offset, end). */
static __always_inline void note_access_of(struct obs_inode *inode, struct obs_dir *config,
					   __u64 offset, __u64 end, _Bool mapped)
{
	struct obs_reader_key key;
	struct obs_reader *reader;
	__u32 dir = inode->dir;
	__u8 flags = 0;
	_Bool is_new, is_back;
	__u64 now, before;

	reader = reader_of(inode, &key, &is_new);
	if (!reader)
		return;
	if (mapped)
		flags = kObsMmap | (current_syscall() >= 0 && has_task_regs ? kObsNotUser : 0);
	now = bpf_ktime_get_ns();
	before = reader->accessed_ns;
	/* A file within one stride reports no further position, even if it is read again. */
	is_back = !offset && now - reader->time_ns >= RETURN_NS;
	reader->time_ns = reader->accessed_ns = now;
	flush_misses(&key, reader, config, now);
	if (config->wants_trace) {
		if (reader->end > reader->first && reader->flags == flags &&
		    offset >= reader->first && offset <= reader->end &&
		    end - reader->first <= GATHER_BYTES) {
			if (end > reader->end)
				reader->end = end;
			note_coalesced(dir);
		} else if (!(offset >= reader->first && end <= reader->end)) {
			if (reader->end > reader->first)
				/* Other files may have been read in between. */
				send_reader(&key, reader, config, reader->first, reader->end,
					    kObsAccess, reader->flags, before, 0);
			reader->first = offset;
			reader->end = end;
			reader->flags = flags;
		}
	}
	if (config->wants_progress) {
		__u64 beacon = config->beacon ? config->beacon : GATHER_BYTES;

		if (!is_new && !is_back && reader->reported != ~0ULL &&
		    offset / beacon == reader->reported / beacon &&
		    end <= reader->reported_end + beacon) {
			note_coalesced(dir);
			return;
		}
		reader->reported = offset;
		reader->reported_end = end;
		send_reader(&key, reader, config, offset, end, kObsProgress, flags, now, is_new);
	}
}

static __always_inline void note_access(struct inode *host, __u64 offset, __u64 end, _Bool mapped)
{
	struct obs_dir *config = 0;
	struct obs_inode *inode = find_wanted(host, &config);

	if (inode)
		note_access_of(inode, config, offset, end, mapped);
}

/*
 * Pages [offset, end) were inserted for the current task, by its miss or by read-ahead for it.  The
 * first of a run is reported at once, since a task waits for it; the rest together.
 */
static __always_inline void note_insertion(struct inode *host, __u64 offset, __u64 end)
{
	struct obs_inode_key inode_key;
	struct obs_reader_key key;
	struct obs_inode *inode;
	struct obs_reader *reader;
	struct obs_dir *config;
	_Bool is_new, is_run;
	__u64 now;
	__u32 dir;

	inode = find(host, &inode_key);
	if (!inode) {
		if (bpf_map_lookup_elem(&devices, &inode_key.dev) &&
		    !bpf_map_lookup_elem(&inodes, &inode_key) && !is_own())
			report_unlisted(host, &inode_key, offset, end);
		return;
	}
	dir = inode->dir;
	config = bpf_map_lookup_elem(&dirs, &dir);
	if (!config || !config->is_watched)
		return;
	reader = reader_of(inode, &key, &is_new);
	if (!reader)
		return;
	now = bpf_ktime_get_ns();
	/* Later insertions belong to another request: a task waits again. */
	is_run = now - reader->time_ns < URGENT_NS;
	reader->time_ns = now;
	/* Without a kind none was reported yet; the beginning of a file continues no run. */
	if (is_run && reader->miss_kind && offset == reader->miss_to &&
	    end - reader->miss_end <= GATHER_BYTES) {
		reader->miss_to = end;
		note_coalesced(dir);
		return;
	}
	flush_misses(&key, reader, config, now);
	reader->miss_kind = has_task_regs && current_syscall() < 0 ? kObsMissFault : kObsMissRead;
	reader->miss_end = reader->miss_to = end;
	send_reader(&key, reader, config, offset, end, reader->miss_kind, kObsNotUser, now, 1);
}

#endif /* PPC_OBSERVER_NOTE_H_ */
