// SPDX-License-Identifier: GPL-2.0-only
/* 5.12..6.2: inode operations take the mount's user namespace. */
#include <linux/fs.h>
#include <linux/mount.h>

int probe(struct vfsmount *mnt, struct inode *inode);
int probe(struct vfsmount *mnt, struct inode *inode)
{
	return inode_permission(mnt_user_ns(mnt), inode, MAY_READ);
}
