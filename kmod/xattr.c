// SPDX-License-Identifier: GPL-2.0-only
/*
 * Extended attributes and ACLs of the lower inode, read only.
 */
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>

#include "ppc.h"

static int ppc_xattr_get(const struct xattr_handler *handler, struct dentry *dentry,
			 struct inode *inode, const char *name, void *buffer, size_t size)
{
	struct ppc_sb *sbi = PPC_SB(dentry->d_sb);
	const struct cred *old;
	int bytes;

	/* A nameless dentry in the making (export.c), which only security modules look at. */
	if (!PPC_D(dentry))
		return -ENODATA;
	if (strcmp(name, XATTR_NAME_CAPS))
		return vfs_getxattr(mnt_idmap(sbi->lower_mnt), PPC_D(dentry), name, buffer, size);
	/* File capabilities are set-id bits by another name. */
	if (sbi->nosuid)
		return -ENODATA;
	/* The VFS converts them to the caller's user namespace on our behalf, too. */
	old = override_creds(sbi->cred);
	bytes = vfs_getxattr(mnt_idmap(sbi->lower_mnt), PPC_D(dentry), name, buffer, size);
	revert_creds(old);
	return bytes;
}

ssize_t ppc_listxattr(struct dentry *dentry, char *list, size_t size)
{
	return vfs_listxattr(PPC_D(dentry), list, size);
}

struct posix_acl *ppc_get_acl(struct mnt_idmap *idmap, struct dentry *dentry, int type)
{
	return vfs_get_acl(mnt_idmap(PPC_SB(dentry->d_sb)->lower_mnt), PPC_D(dentry),
			   posix_acl_xattr_name(type));
}

static const struct xattr_handler ppc_xattr_handler = {
	.prefix	= "",		/* all of them */
	.get	= ppc_xattr_get,
};

const struct xattr_handler *ppc_xattr_handlers[] = {
	&ppc_xattr_handler,
	NULL
};
