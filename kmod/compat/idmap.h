/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Before 5.12 no mount is id-mapped and inode operations have no argument for
 * it: their declarations begin with PPC_IDMAP_ARG, and calls lose the first
 * argument here.
 */
#ifndef PPC_COMPAT_IDMAP_H
#define PPC_COMPAT_IDMAP_H

#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/xattr.h>

#define PPC_IDMAP_ARG

struct mnt_idmap;

#define inode_permission(idmap, inode, mask)	inode_permission(inode, mask)
#define vfs_getxattr(idmap, dentry, name, value, size) \
	vfs_getxattr(dentry, name, value, size)

static inline bool is_idmapped_mnt(const struct vfsmount *mnt)
{
	return false;
}

#endif /* PPC_COMPAT_IDMAP_H */
