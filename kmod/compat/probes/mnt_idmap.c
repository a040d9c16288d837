// SPDX-License-Identifier: GPL-2.0-only
/* 6.3: struct mnt_idmap replaces the user namespace in inode operations. */
#include <linux/fs.h>
#include <linux/mount.h>

int probe(struct vfsmount *mnt, struct inode *inode);
int probe(struct vfsmount *mnt, struct inode *inode)
{
	struct mnt_idmap *idmap = mnt_idmap(mnt);

	return inode_permission(idmap, inode, MAY_READ);
}
