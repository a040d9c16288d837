// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mount options: their table, the fs_context operations, and /proc/mounts.
 */
#include <linux/fs_context.h>
#include <linux/fs_parser.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "ppc.h"

enum ppc_param {
	PPC_OPT_ODIRECT,
	PPC_OPT_QUEUE,
	PPC_OPT_WINDOW,
	PPC_OPT_BEACON,
	PPC_OPT_ALLOW_SUID,
};

static const struct constant_table ppc_odirect_names[] = {
	{ "auto",	PPC_ODIRECT_AUTO },
	{ "pass",	PPC_ODIRECT_PASS },
	{ "buffered",	PPC_ODIRECT_BUFFERED },
	{ "deny",	PPC_ODIRECT_DENY },
	{}
};

static const struct fs_parameter_spec ppc_param_specs[] = {
	fsparam_enum("odirect",	PPC_OPT_ODIRECT, ppc_odirect_names),
	fsparam_string("queue",	PPC_OPT_QUEUE),
	fsparam_string("window", PPC_OPT_WINDOW),
	fsparam_string("beacon", PPC_OPT_BEACON),
	/* mount(8) reserves the word "suid" */
	fsparam_flag("allow_suid", PPC_OPT_ALLOW_SUID),
	{}
};

/* A number with an optional K, M or G; a power of two within [min, max]. */
static int ppc_parse_size(struct fs_context *fc, struct fs_parameter *param, u64 min, u64 max,
			  u32 *out)
{
	char *end;
	u64 value = memparse(param->string, &end);

	if (*end || end == param->string || !is_power_of_2(value) || value < min || value > max)
		return invalf(fc, "ppc: %s=%s: want a power of two from %llu to %llu",
			      param->key, param->string, min, max);
	*out = value;
	return 0;
}

static int ppc_parse_param(struct fs_context *fc, struct fs_parameter *param)
{
	struct ppc_opts *opts = fc->fs_private;
	struct fs_parse_result result;
	int opt = fs_parse(fc, ppc_param_specs, param, &result);

	if (opt == -ENOPARAM) {
		opt = vfs_parse_fs_param_source(fc, param);
		if (opt != -ENOPARAM)
			return opt;
		return invalf(fc, "ppc: unknown mount option '%s'", param->key);
	}
	if (opt < 0)
		return opt;

	switch (opt) {
	case PPC_OPT_ODIRECT:
		opts->odirect = result.uint_32;
		return 0;
	case PPC_OPT_QUEUE:
		return ppc_parse_size(fc, param, PPC_RING_ENTRIES_MIN, PPC_QUEUE_EVENTS_MAX,
				      &opts->queue_events);
	case PPC_OPT_WINDOW:
		return ppc_parse_size(fc, param, PAGE_SIZE, PPC_WINDOW_BYTES_MAX,
				      &opts->window_bytes);
	case PPC_OPT_BEACON:
		return ppc_parse_size(fc, param, PPC_BEACON_BYTES_MIN, PPC_BEACON_BYTES_MAX,
				      &opts->beacon_bytes);
	case PPC_OPT_ALLOW_SUID:
		/* existing inodes depend on it */
		if (fc->purpose == FS_CONTEXT_FOR_RECONFIGURE && !opts->allow_suid)
			return invalf(fc, "ppc: allow_suid cannot be changed by a remount");
		opts->allow_suid = true;
		return 0;
	}
	return -EINVAL;
}

static int ppc_get_tree(struct fs_context *fc)
{
	if (!fc->source || !*fc->source)
		return invalf(fc, "ppc: no base directory: mount -t ppc BASE MOUNTPOINT");
	return get_tree_nodev(fc, ppc_fill_super);
}

/* Options may change; read-only may not. */
static int ppc_reconfigure(struct fs_context *fc)
{
	struct ppc_sb *sbi = PPC_SB(fc->root->d_sb);
	struct ppc_opts *opts = fc->fs_private;

	if ((fc->sb_flags_mask & SB_RDONLY) && !(fc->sb_flags & SB_RDONLY)) {
		errorf(fc, "ppc: this file system is read-only; write below %s", sbi->base);
		return -EROFS;
	}
	fc->sb_flags |= SB_RDONLY;
	WRITE_ONCE(sbi->opts.odirect, opts->odirect);
	WRITE_ONCE(sbi->opts.queue_events, opts->queue_events);
	WRITE_ONCE(sbi->opts.window_bytes, opts->window_bytes);
	WRITE_ONCE(sbi->opts.beacon_bytes, opts->beacon_bytes);
	return 0;
}

static void ppc_free_fc(struct fs_context *fc)
{
	kfree(fc->fs_private);
}

static const struct fs_context_operations ppc_context_ops = {
	.parse_param	= ppc_parse_param,
	.get_tree	= ppc_get_tree,
	.reconfigure	= ppc_reconfigure,
	.free		= ppc_free_fc,
};

static int ppc_init_fs_context(struct fs_context *fc)
{
	struct ppc_opts *opts = kzalloc(sizeof(*opts), GFP_KERNEL);

	if (!opts)
		return -ENOMEM;
	if (fc->purpose == FS_CONTEXT_FOR_RECONFIGURE) {
		*opts = PPC_SB(fc->root->d_sb)->opts;
	} else {
		opts->odirect = PPC_ODIRECT_AUTO;
		opts->queue_events = 65536;
		opts->window_bytes = max_t(u32, 1 << 20, PAGE_SIZE);
		opts->beacon_bytes = 4 << 20;
	}
	fc->fs_private = opts;
	fc->ops = &ppc_context_ops;
	return 0;
}

/**
 * ppc_show_options - the mount options as /proc/mounts shows them
 * @m: destination
 * @root: of the mount
 *
 * Return: 0
 */
int ppc_show_options(struct seq_file *m, struct dentry *root)
{
	struct ppc_opts *opts = &PPC_SB(root->d_sb)->opts;

	seq_printf(m, ",odirect=%s,queue=%u,window=%u,beacon=%u",
		   ppc_odirect_names[READ_ONCE(opts->odirect)].name,
		   READ_ONCE(opts->queue_events), READ_ONCE(opts->window_bytes),
		   READ_ONCE(opts->beacon_bytes));
	if (opts->allow_suid)
		seq_puts(m, ",allow_suid");
	return 0;
}

struct file_system_type ppc_fs_type = {
	.owner			= THIS_MODULE,
	.name			= "ppc",
	.init_fs_context	= ppc_init_fs_context,
	.parameters		= ppc_param_specs,
	.kill_sb		= ppc_kill_sb,
	.fs_flags		= PPC_FS_ALLOW_IDMAP,
};
