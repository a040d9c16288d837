// SPDX-License-Identifier: GPL-2.0-only
/*
 * File handles for open_by_handle_at() and nfsd: those of the lower inode,
 * unchanged.  If the lower file system has no handles, neither have we.
 *
 * If BASE is not the root of the lower file system, a handle could name a file
 * outside of BASE.  Then each handle includes the parent, and only files that
 * the lower file system can connect to BASE are accepted: such a handle is
 * stale after a rename into another directory.
 */
#include <linux/dcache.h>
#include <linux/exportfs.h>
#include <linux/slab.h>

#include "ppc.h"

static bool ppc_confined(const struct ppc_sb *sbi)
{
	return sbi->lower_mnt->mnt_root != sbi->lower_mnt->mnt_sb->s_root;
}

static int ppc_fh_below_base(void *context, struct dentry *lower)
{
	const struct vfsmount *mnt = context;

	return is_subdir(lower, mnt->mnt_root);
}

/* A file may be nameless; a nameless directory is gone. */
static int ppc_fh_any(void *context, struct dentry *lower)
{
	return !d_is_dir(lower) || !d_unlinked(lower);
}

static int ppc_encode_fh(struct inode *inode, u32 *fh, int *max_len, struct inode *parent)
{
	struct inode *lower_parent = parent ? PPC_I(parent)->lower : NULL;
	struct dentry *alias = NULL, *dir = NULL;
	int type;

	if (!parent && ppc_confined(PPC_SB(inode->i_sb)) && !S_ISDIR(inode->i_mode)) {
		alias = ppc_lower_alias(inode);
		if (!alias)
			return FILEID_INVALID;
		dir = dget_parent(alias);
		lower_parent = d_inode(dir);
	}
	type = exportfs_encode_inode_fh(PPC_I(inode)->lower, (struct fid *)fh, max_len,
					lower_parent, 0);
	dput(dir);
	dput(alias);
	return type;
}

/* Finds our dentry of a lower dentry that is connected to BASE. */
static struct dentry *ppc_connected_dentry(struct super_block *sb, struct dentry *lower)
{
	struct path path = { .mnt = PPC_SB(sb)->lower_mnt, .dentry = lower };
	struct dentry *dentry;
	char *buf, *name;

	if (lower == path.mnt->mnt_root)
		return dget(sb->s_root);
	if (d_unlinked(lower))
		return ERR_PTR(-ESTALE);
	buf = kmalloc(PPC_NAME_MAX_BYTES, GFP_KERNEL);
	if (!buf)
		return ERR_PTR(-ENOMEM);
	name = d_path(&path, buf, PPC_NAME_MAX_BYTES);
	if (IS_ERR(name)) {
		dentry = ERR_CAST(name);
	} else {
		while (*name == '/')
			name++;
		dentry = ppc_walk(sb->s_root, name);
	}
	kfree(buf);
	/* renamed meanwhile */
	if (!IS_ERR(dentry) && PPC_I(d_inode(dentry))->lower != d_inode(lower)) {
		dput(dentry);
		dentry = ERR_PTR(-ESTALE);
	}
	return dentry;
}

/* Finds a dentry of ours for a file, nameless if no name is cached. */
static struct dentry *ppc_any_dentry(struct super_block *sb, struct dentry *lower)
{
	struct inode *inode = ppc_iget(sb, d_inode(lower));
	struct dentry *dentry;

	if (IS_ERR(inode))
		return ERR_CAST(inode);
	/* Deleted below; our names of it are not swept yet. */
	if (!READ_ONCE(ppc_bottom(d_inode(lower))->i_nlink) &&
	    !atomic_read(&PPC_I(inode)->nr_open)) {
		iput(inode);
		return ERR_PTR(-ESTALE);
	}
	dentry = d_obtain_alias(inode);
	/* Another task may find the new dentry too, but it also passes here. */
	if (!IS_ERR(dentry) && !PPC_D(dentry)) {
		dget(lower);
		if (cmpxchg(&dentry->d_fsdata, NULL, lower))
			dput(lower);
	}
	return dentry;
}

static struct dentry *ppc_fh_to_dentry(struct super_block *sb, struct fid *fid, int fh_len,
				       int fh_type)
{
	struct vfsmount *mnt = PPC_SB(sb)->lower_mnt;
	bool confined = ppc_confined(PPC_SB(sb));
	struct dentry *lower, *dentry;

	lower = exportfs_decode_fh(mnt, fid, fh_len, fh_type,
				   confined ? ppc_fh_below_base : ppc_fh_any, mnt);
	if (IS_ERR(lower))
		return lower;
	if (confined || d_is_dir(lower))
		dentry = ppc_connected_dentry(sb, lower);
	else
		dentry = ppc_any_dentry(sb, lower);
	dput(lower);
	if (IS_ERR(dentry) && PTR_ERR(dentry) != -ENOMEM)
		return ERR_PTR(-ESTALE);
	return dentry;
}

static struct dentry *ppc_fh_to_parent(struct super_block *sb, struct fid *fid, int fh_len,
				       int fh_type)
{
	struct vfsmount *mnt = PPC_SB(sb)->lower_mnt;
	struct dentry *lower, *dir, *dentry;

	lower = exportfs_decode_fh(mnt, fid, fh_len, fh_type, ppc_fh_below_base, mnt);
	if (IS_ERR(lower))
		return lower;
	dir = dget_parent(lower);
	dput(lower);
	dentry = ppc_connected_dentry(sb, dir);
	dput(dir);
	if (IS_ERR(dentry) && PTR_ERR(dentry) != -ENOMEM)
		return ERR_PTR(-ESTALE);
	return dentry;
}

static const struct export_operations ppc_export_ops = {
	.encode_fh	= ppc_encode_fh,
	.fh_to_dentry	= ppc_fh_to_dentry,
	.fh_to_parent	= ppc_fh_to_parent,
};

/**
 * ppc_export_inherit - offer file handles if the lower file system does
 * @sb: ours
 * @lower: lower super block
 */
void ppc_export_inherit(struct super_block *sb, const struct super_block *lower)
{
	if (lower->s_export_op && lower->s_export_op->fh_to_dentry)
		sb->s_export_op = &ppc_export_ops;
}
