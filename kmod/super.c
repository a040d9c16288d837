// SPDX-License-Identifier: GPL-2.0-only
/*
 * A mount: makes the super block from BASE, and takes it apart.
 */
#include <linux/fs_context.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/statfs.h>

#include "compat/magic.h"
#include "ppc.h"

static int ppc_statfs(struct dentry *dentry, struct kstatfs *buf)
{
	struct path path = { .mnt = PPC_SB(dentry->d_sb)->lower_mnt, .dentry = PPC_D(dentry) };

	return vfs_statfs(&path, buf);
}

/*
 * Not the bare BASE path: if BASE is the mount point of the lower file system,
 * `umount BASE` would find this mount by its source.
 */
static int ppc_show_devname(struct seq_file *m, struct dentry *root)
{
	seq_puts(m, "ppc:");
	seq_escape(m, PPC_SB(root->d_sb)->base, " \t\n\\");
	return 0;
}

static const struct super_operations ppc_super_ops = {
	.alloc_inode	= ppc_alloc_inode,
	.free_inode	= ppc_free_inode,
	.evict_inode	= ppc_evict_inode,
	.drop_inode	= ppc_drop_inode,
	.statfs		= ppc_statfs,
	.show_options	= ppc_show_options,
	.show_devname	= ppc_show_devname,
	.show_stats	= ppc_show_stats,
};

/* Servers of these file systems decide by the opener's identity. */
static const unsigned long ppc_caller_cred_magics[] = {
	NFS_SUPER_MAGIC, FUSE_SUPER_MAGIC, CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC, V9FS_MAGIC,
	CEPH_SUPER_MAGIC, AFS_SUPER_MAGIC, AFS_FS_MAGIC, CODA_SUPER_MAGIC, PPC_LUSTRE_MAGIC,
	PPC_ORANGEFS_MAGIC, PPC_BEEGFS_MAGIC, PPC_VBOXSF_MAGIC,
};

static bool ppc_wants_caller_cred(struct super_block *lower)
{
	size_t i;

	if (lower->s_type == &ppc_fs_type)
		return PPC_SB(lower)->caller_cred;
	for (i = 0; i < ARRAY_SIZE(ppc_caller_cred_magics); i++) {
		if (lower->s_magic == ppc_caller_cred_magics[i])
			return true;
	}
	return false;
}

/* Looks up BASE and refuses file systems that cannot be stacked upon. */
static int ppc_base_path(struct fs_context *fc, struct path *path)
{
	int err = kern_path(fc->source, LOOKUP_FOLLOW | LOOKUP_DIRECTORY, path);

	if (err == -ENOENT) {
		errorf(fc, "ppc: base '%s' does not exist", fc->source);
		return err;
	}
	if (err == -ENOTDIR) {
		errorf(fc, "ppc: base '%s' is not a directory", fc->source);
		return err;
	}
	if (err) {
		errorf(fc, "ppc: base '%s' cannot be opened (error %d)", fc->source, -err);
		return err;
	}

	err = -EINVAL;
	if ((path->dentry->d_flags & DCACHE_OP_REAL) &&
	    path->dentry->d_sb->s_type != &ppc_fs_type)
		errorf(fc, "ppc: base '%s' is on overlayfs, which keeps no page cache of its own; "
		       "mount over the layer below it", fc->source);
	else if (!PPC_MAPS_IDS && is_idmapped_mnt(path->mnt))
		errorf(fc, "ppc: base '%s' is on an id-mapped mount, which needs Linux 6.3; "
		       "use the plain mount", fc->source);
	else if (path->dentry->d_sb->s_magic == FUSE_SUPER_MAGIC &&
		 path->dentry->d_sb->s_stack_depth)
		errorf(fc, "ppc: base '%s': FUSE that passes files through; use what is below",
		       fc->source);
	else if (path->dentry->d_sb->s_stack_depth >= FILESYSTEM_MAX_STACK_DEPTH)
		errorf(fc, "ppc: base '%s': file systems are stacked too deep", fc->source);
	else
		err = 0;
	if (err)
		path_put(path);
	return err;
}

static struct ppc_sb *ppc_sb_alloc(struct super_block *sb, const struct ppc_opts *opts)
{
	struct ppc_sb *sbi = kzalloc(sizeof(*sbi), GFP_KERNEL);
	unsigned int i;

	if (!sbi)
		return NULL;
	sbi->stats = alloc_percpu(struct ppc_stats);
	if (!sbi->stats) {
		kfree(sbi);
		return NULL;
	}
	sbi->sb = sb;
	sbi->opts = *opts;
	sbi->window_pages = opts->window_bytes >> PAGE_SHIFT;
	sbi->beacon_shift = ilog2(opts->beacon_bytes) - PAGE_SHIFT;
	sbi->cred = get_current_cred();
	mutex_init(&sbi->attach_mutex);
	mutex_init(&sbi->flush_mutex);
	for (i = 0; i < PPC_OPEN_LISTS; i++) {
		spin_lock_init(&sbi->open_lists[i].lock);
		INIT_LIST_HEAD(&sbi->open_lists[i].files);
	}
	spin_lock_init(&sbi->pending_lock);
	INIT_LIST_HEAD(&sbi->pending);
	xa_init_flags(&sbi->inodes, XA_FLAGS_ACCOUNT);
	init_completion(&sbi->kobj_gone);
	INIT_DELAYED_WORK(&sbi->flush_work, ppc_access_flush_work);
	INIT_DELAYED_WORK(&sbi->wake_work, ppc_upc_wake_work);
	INIT_DELAYED_WORK(&sbi->sweep_work, ppc_sweep_work);
	return sbi;
}

static void ppc_sb_free(struct ppc_sb *sbi)
{
	struct vfsmount *mounts[] = { sbi->lower_mnt, sbi->fanotify_mnt };

	WARN_ON_ONCE(ppc_nr_open(sbi));
	xa_destroy(&sbi->inodes);
	if (!IS_ERR_OR_NULL(sbi->nonotify_file))
		fput(sbi->nonotify_file);
	/* Waits for an RCU grace period: RCU walks may still look at what is freed below. */
	if (sbi->lower_mnt)
		kern_unmount_array(mounts, ARRAY_SIZE(mounts));
	else if (sbi->fanotify_mnt)
		kern_unmount(sbi->fanotify_mnt);
	if (sbi->idmapped)
		static_branch_dec(&ppc_idmapped_bases);
	ppc_dev_put(sbi);
	put_cred(sbi->cred);
	kfree(sbi->base);
	free_percpu(sbi->stats);
	kfree(sbi);
}

static int ppc_sb_base_name(struct ppc_sb *sbi, const struct path *path)
{
	char *buf = kmalloc(PATH_MAX, GFP_KERNEL);
	char *name;
	int err = 0;

	if (!buf)
		return -ENOMEM;
	name = d_path(path, buf, PATH_MAX);
	if (IS_ERR(name))
		err = PTR_ERR(name);
	else
		sbi->base = kstrdup(name, GFP_KERNEL);
	kfree(buf);
	if (!err && !sbi->base)
		err = -ENOMEM;
	return err;
}

static int ppc_clone_mounts(struct ppc_sb *sbi, const struct path *path)
{
	struct vfsmount *mnt = clone_private_mount(path);

	if (IS_ERR(mnt))
		return PTR_ERR(mnt);
	sbi->fanotify_mnt = mnt;
	mnt = clone_private_mount(path);
	if (IS_ERR(mnt))
		return PTR_ERR(mnt);
	mnt->mnt_flags |= MNT_READONLY | MNT_NOATIME;
	sbi->lower_mnt = mnt;
	return 0;
}

static void ppc_sb_inherit(struct super_block *sb, const struct path *path)
{
	struct super_block *lower = path->dentry->d_sb;
	struct ppc_sb *sbi = PPC_SB(sb);

	sb->s_flags |= SB_RDONLY | (lower->s_flags & SB_POSIXACL);
	sb->s_iflags |= lower->s_iflags & (SB_I_NOEXEC | SB_I_NODEV | SB_I_UNTRUSTED_MOUNTER);
	sb->s_iflags |= PPC_SB_IMA | (lower->s_iflags & PPC_SB_INTEGRITY);
	/* rules of IMA and codes of EVM name a file system by its UUID */
	ppc_copy_uuid(sb, lower);
	if (path->mnt->mnt_flags & MNT_NODEV)
		sb->s_iflags |= SB_I_NODEV;
	if (path->mnt->mnt_flags & MNT_NOEXEC)
		sb->s_iflags |= SB_I_NOEXEC;
	sbi->nosymfollow = path->mnt->mnt_flags & MNT_NOSYMFOLLOW;
	/* ids and capabilities of another user namespace have no meaning here */
	sbi->nosuid = !sbi->opts.allow_suid || path->mnt->mnt_flags & MNT_NOSUID ||
		      lower->s_user_ns != sb->s_user_ns;
	sbi->caller_cred = ppc_wants_caller_cred(lower);
	sbi->shares_mapping = ppc_shares_mapping(lower);
	sbi->idmapped = is_idmapped_mnt(path->mnt);
	if (sbi->idmapped)
		static_branch_inc(&ppc_idmapped_bases);
	/* two maps cannot be combined, and a server's file system knows none */
	if (sbi->idmapped || sbi->caller_cred || !ppc_may_idmap(lower))
		ppc_refuse_idmap(sb);

	sb->s_magic = PPC_SUPER_MAGIC;
	sb->s_maxbytes = lower->s_maxbytes;
	sb->s_blocksize = lower->s_blocksize;
	sb->s_blocksize_bits = lower->s_blocksize_bits;
	sb->s_time_gran = lower->s_time_gran;
	sb->s_stack_depth = lower->s_stack_depth + 1;
	sb->s_op = &ppc_super_ops;
	sb->s_xattr = ppc_xattr_handlers;
	set_default_d_op(sb, &ppc_dentry_ops);
	ppc_export_inherit(sb, lower);
}

static int ppc_make_root(struct super_block *sb, const struct path *path)
{
	struct inode *inode = ppc_iget(sb, d_inode(path->dentry));
	struct dentry *root;

	if (IS_ERR(inode))
		return PTR_ERR(inode);
	root = d_make_root(inode);
	if (!root)
		return -ENOMEM;
	root->d_fsdata = dget(path->dentry);
	sb->s_root = root;
	return 0;
}

/**
 * ppc_fill_super - turn fc->source into a mounted super block
 * @sb: new, empty
 * @fc: fs_private is a struct ppc_opts
 *
 * Context: may sleep, s_umount held.  After an error ppc_kill_sb() follows.
 * Return: 0 or -errno, explained in the context's log
 */
int ppc_fill_super(struct super_block *sb, struct fs_context *fc)
{
	struct ppc_sb *sbi = ppc_sb_alloc(sb, fc->fs_private);
	struct kstat stat;
	struct path path;
	int err;

	if (!sbi)
		return -ENOMEM;
	sb->s_fs_info = sbi;
	err = ppc_base_path(fc, &path);
	if (err)
		return err;
	err = ppc_sb_base_name(sbi, &path);
	if (err)
		goto out;
	err = ppc_clone_mounts(sbi, &path);
	if (err) {
		errorf(fc, "ppc: mount of base '%s' is unbindable, locked or of another namespace",
		       sbi->base);
		goto out;
	}

	sbi->nonotify_file = ppc_nonotify_file_create();
	err = PTR_ERR_OR_ZERO(sbi->nonotify_file);
	if (err)
		goto out;
	err = vfs_getattr_nosec(&path, &stat, STATX_BASIC_STATS, AT_STATX_DONT_SYNC);
	if (err)
		goto out;
	sbi->base_dev = stat.dev;
	ppc_sb_inherit(sb, &path);
	err = ppc_make_root(sb, &path);
	if (err)
		goto out;
	err = ppc_dev_create(sbi);
	if (err) {
		errorf(fc, "ppc: cannot create the device of this mount (error %d)", -err);
		goto out;
	}
	err = ppc_stats_add(sbi);
	if (err)
		goto out;
	ppc_sweep_start(sbi);
out:
	path_put(&path);
	return err;
}

/**
 * ppc_kill_sb - undo ppc_fill_super(), however far it came
 * @sb: super block that no mount uses any more
 *
 * The device goes first: then no ioctl holds an inode of ours, which
 * generic_shutdown_super() would warn about.
 *
 * Context: may sleep, s_umount held; waits for running ioctls (LOAD stops
 * within one step).
 */
void ppc_kill_sb(struct super_block *sb)
{
	struct ppc_sb *sbi = PPC_SB(sb);

	if (sbi) {
		ppc_dev_shutdown(sbi);
		ppc_stats_remove(sbi);
		cancel_delayed_work_sync(&sbi->sweep_work);
		cancel_delayed_work_sync(&sbi->flush_work);
		cancel_delayed_work_sync(&sbi->wake_work);
	}
	kill_anon_super(sb);
	if (sbi)
		ppc_sb_free(sbi);
}
