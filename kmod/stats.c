// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters: /sys/fs/ppc/N/, one value a file, and /proc/self/mountstats.
 */
#include <linux/kobject.h>
#include <linux/seq_file.h>
#include <linux/sysfs.h>

#include "ppc.h"

static struct kset *ppc_kset;

/* The one list of counters: each is a file in /sys/fs/ppc/N/ and a line in mountstats. */
static const char * const ppc_stat_names[PPC_STAT_COUNT] = {
	[PPC_STAT_QUEUED]		= "events_queued",
	[PPC_STAT_DROPPED]		= "events_dropped",
	[PPC_STAT_DROPPED_FULL]		= "events_dropped_full",
	[PPC_STAT_DROPPED_DETACHED]	= "events_dropped_detached",
	[PPC_STAT_DROPPED_FLOOD]	= "events_dropped_flood",
	[PPC_STAT_COALESCED]		= "events_coalesced",
	[PPC_STAT_MISSES_READ]		= "misses_read",
	[PPC_STAT_MISSES_FAULT]		= "misses_fault",
	[PPC_STAT_WAKEUPS]		= "wakeups",
	[PPC_STAT_WAKEUPS_LATE]		= "wakeups_late",
	[PPC_STAT_LEASE_EXPIRIES]	= "lease_expiries",
	[PPC_STAT_WINDOW_BYTES]		= "window_bytes_loaded",
	[PPC_STAT_ODIRECT_OPENS]	= "odirect_opens",
	[PPC_STAT_LOADED_BYTES]		= "loaded_bytes",
	[PPC_STAT_LOAD_RESIDENT_BYTES]	= "load_resident_bytes",
	[PPC_STAT_LOAD_FAILED_BYTES]	= "load_failed_bytes",
	[PPC_STAT_LOAD_SIGNAL]		= "load_stopped_signal",
	[PPC_STAT_LOAD_CANCELLED]	= "load_stopped_cancelled",
	[PPC_STAT_LOAD_NOMEM]		= "load_stopped_nomem",
	[PPC_STAT_LOAD_UNSUPPORTED]	= "load_stopped_unsupported",
	[PPC_STAT_EVICTED_BYTES]	= "evicted_bytes",
	[PPC_STAT_LEFT_MAPPED]		= "evict_left_mapped_bytes",
	[PPC_STAT_LEFT_DIRTY]		= "evict_left_dirty_bytes",
	[PPC_STAT_LEFT_WRITEBACK]	= "evict_left_writeback_bytes",
	[PPC_STAT_LEFT_LOCKED]		= "evict_left_locked_bytes",
	[PPC_STAT_LEFT_READING]		= "evict_left_reading_bytes",
	[PPC_STAT_LEFT_STRADDLING]	= "evict_left_straddling_bytes",
	[PPC_STAT_LEFT_BUSY]		= "evict_left_busy_bytes",
	[PPC_STAT_EVICT_SIGNAL]		= "evict_stopped_signal",
	[PPC_STAT_REFUSED_INVALID]	= "refused_invalid",
	[PPC_STAT_REFUSED_UNKNOWN]	= "refused_unknown",
	[PPC_STAT_REFUSED_FAULT]	= "refused_fault",
	[PPC_STAT_REFUSED_STALE]	= "refused_stale",
	[PPC_STAT_REFUSED_NAME]		= "refused_name",
	[PPC_STAT_REFUSED_BUSY]		= "refused_busy",
	[PPC_STAT_REFUSED_DETACHED]	= "refused_detached",
	[PPC_STAT_REFUSED_HANDLE]	= "refused_handle",
	[PPC_STAT_REFUSED_LIMIT]	= "refused_limit",
	[PPC_STAT_REFUSED_NOMEM]	= "refused_nomem",
	[PPC_STAT_REFUSED_UNSUPPORTED]	= "refused_unsupported",
	[PPC_STAT_REFUSED_OTHER]	= "refused_other",
};

/**
 * ppc_stat_sum - a counter over all CPUs
 * @sbi: mount
 * @stat: which
 */
u64 ppc_stat_sum(const struct ppc_sb *sbi, enum ppc_stat stat)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(sbi->stats, cpu)->count[stat]);
	return sum;
}

/* For /proc/self/mountstats. */
int ppc_show_stats(struct seq_file *m, struct dentry *root)
{
	struct ppc_sb *sbi = PPC_SB(root->d_sb);
	int i;

	seq_printf(m, "\n\tminor: %d", ppc_dev_minor(sbi));
	for (i = 0; i < PPC_STAT_COUNT; i++)
		seq_printf(m, "\n\t%s: %llu", ppc_stat_names[i], ppc_stat_sum(sbi, i));
	return 0;
}

struct ppc_attr {
	struct attribute attr;
	ssize_t (*show)(struct ppc_sb *sbi, const struct ppc_attr *attr, char *buf);
	enum ppc_stat stat;
};

static ssize_t ppc_show_counter(struct ppc_sb *sbi, const struct ppc_attr *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", ppc_stat_sum(sbi, attr->stat));
}

static ssize_t ppc_show_dev(struct ppc_sb *sbi, const struct ppc_attr *attr, char *buf)
{
	return sysfs_emit(buf, "%u:%u\n", MAJOR(sbi->sb->s_dev), MINOR(sbi->sb->s_dev));
}

/* Name of the attached policy; an empty line if there is none. */
static ssize_t ppc_show_policy(struct ppc_sb *sbi, const struct ppc_attr *attr, char *buf)
{
	ssize_t n;

	mutex_lock(&sbi->attach_mutex);
	n = sysfs_emit(buf, "%s\n", sbi->label);
	mutex_unlock(&sbi->attach_mutex);
	return n;
}

static ssize_t ppc_show_state(struct ppc_sb *sbi, const struct ppc_attr *attr, char *buf)
{
	unsigned long mode = READ_ONCE(sbi->mode);

	if (!mode)
		return sysfs_emit(buf, "%s\n", READ_ONCE(sbi->expired) ? "expired" : "native");
	return sysfs_emit(buf, "attached%s%s%s%s\n", mode & PPC_MODE_MANAGED ? " managed" : "",
			  mode & PPC_MODE_BEACON ? " beacon" : "",
			  mode & PPC_MODE_TRACE ? " trace" : "",
			  mode & PPC_MODE_OPENCLOSE ? " openclose" : "");
}

static ssize_t ppc_show_open_files(struct ppc_sb *sbi, const struct ppc_attr *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", ppc_nr_open(sbi));
}

/*
 * sysfs has no namespaces, so these files are root's alone. dev is st_dev of
 * the mount, to find its directory in /sys/fs/ppc.
 */
static struct ppc_attr ppc_states[] = {
	{ .attr = { .name = "dev", .mode = 0444 }, .show = ppc_show_dev },
	{ .attr = { .name = "policy", .mode = 0440 }, .show = ppc_show_policy },
	{ .attr = { .name = "state", .mode = 0440 }, .show = ppc_show_state },
	{ .attr = { .name = "open_files", .mode = 0440 }, .show = ppc_show_open_files },
};

static struct ppc_attr ppc_counters[PPC_STAT_COUNT];

/* Filled by ppc_stats_init(); ends with NULL. */
static struct attribute *ppc_attrs[ARRAY_SIZE(ppc_states) + PPC_STAT_COUNT + 1];
ATTRIBUTE_GROUPS(ppc);

static void ppc_attrs_fill(void)
{
	struct attribute **next = ppc_attrs;
	int i;

	for (i = 0; i < ARRAY_SIZE(ppc_states); i++)
		*next++ = &ppc_states[i].attr;
	for (i = 0; i < PPC_STAT_COUNT; i++) {
		ppc_counters[i].attr.name = ppc_stat_names[i];
		ppc_counters[i].attr.mode = 0440;
		ppc_counters[i].show = ppc_show_counter;
		ppc_counters[i].stat = i;
		*next++ = &ppc_counters[i].attr;
	}
}

static ssize_t ppc_attr_show(struct kobject *kobj, struct attribute *attr, char *buf)
{
	struct ppc_sb *sbi = container_of(kobj, struct ppc_sb, kobj);
	const struct ppc_attr *a = container_of(attr, struct ppc_attr, attr);

	return a->show(sbi, a, buf);
}

static const struct sysfs_ops ppc_sysfs_ops = {
	.show = ppc_attr_show,
};

static void ppc_kobj_release(struct kobject *kobj)
{
	complete(&container_of(kobj, struct ppc_sb, kobj)->kobj_gone);
}

static struct kobj_type ppc_ktype = {
	.sysfs_ops	= &ppc_sysfs_ops,
	.release	= ppc_kobj_release,
	.default_groups	= ppc_groups,
};

/**
 * ppc_stats_add - show a mount in /sys/fs/ppc/
 * @sbi: mount with its device
 *
 * Return: 0 or -errno
 */
int ppc_stats_add(struct ppc_sb *sbi)
{
	int err;

	sbi->kobj.kset = ppc_kset;
	err = kobject_init_and_add(&sbi->kobj, &ppc_ktype, NULL, "%d", ppc_dev_minor(sbi));
	if (err) {
		/* Not kobject_del(): it would leave the kset, which this kobject never joined. */
		kobject_put(&sbi->kobj);
		wait_for_completion(&sbi->kobj_gone);
		return err;
	}
	sbi->kobj_live = true;
	return 0;
}

/* Waits for tasks that read these files. */
void ppc_stats_remove(struct ppc_sb *sbi)
{
	if (!sbi->kobj_live)
		return;
	kobject_del(&sbi->kobj);
	kobject_put(&sbi->kobj);
	wait_for_completion(&sbi->kobj_gone);
}

int ppc_stats_init(void)
{
	ppc_attrs_fill();
	ppc_kset = kset_create_and_add("ppc", NULL, fs_kobj);
	return ppc_kset ? 0 : -ENOMEM;
}

void ppc_stats_exit(void)
{
	kset_unregister(ppc_kset);
}
