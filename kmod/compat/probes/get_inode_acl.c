// SPDX-License-Identifier: GPL-2.0-only
/* 6.2: ACLs have their own inode operations and no longer pass ->get of xattr handlers. */
#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/posix_acl.h>
#include <linux/xattr.h>

struct posix_acl *probe(struct vfsmount *mnt, struct dentry *dentry);
struct posix_acl *probe(struct vfsmount *mnt, struct dentry *dentry)
{
	return vfs_get_acl(mnt_idmap(mnt), dentry, XATTR_NAME_POSIX_ACL_ACCESS);
}
