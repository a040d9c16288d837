// SPDX-License-Identifier: GPL-2.0-only
/*
 * Extended attributes and ACLs of the lower inode, read only.
 */
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>

#include "ppc.h"

/*
 * Returns the lower dentry, referenced.  A new nameless dentry (export.c) has
 * none yet, but security modules ask it for the label of its inode.
 */
static struct dentry *ppc_lower_of(struct dentry *dentry, struct inode *inode)
{
	if (PPC_D(dentry))
		return dget(PPC_D(dentry));
	return d_find_any_alias(PPC_I(inode)->lower);
}

static int ppc_getxattr(struct ppc_sb *sbi, struct dentry *lower, const char *name, void *buffer,
			size_t size)
{
	return vfs_getxattr(ppc_idmap_of(sbi->lower_mnt), lower, name, buffer, size);
}

static int ppc_xattr_get(const struct xattr_handler *handler, struct dentry *dentry,
			 struct inode *inode, const char *name, void *buffer, size_t size)
{
	struct ppc_sb *sbi = PPC_SB(dentry->d_sb);
	const struct cred *old;
	struct dentry *lower;
	int bytes;

	lower = ppc_lower_of(dentry, inode);
	if (!lower)
		return -ENODATA;
	if (strncmp(name, XATTR_SECURITY_PREFIX, XATTR_SECURITY_PREFIX_LEN)) {
		bytes = ppc_getxattr(sbi, lower, name, buffer, size);
		goto out;
	}
	bytes = -ENODATA;
	/* File capabilities have the effect of set-id bits. */
	if (sbi->nosuid && !strcmp(name, XATTR_NAME_CAPS))
		goto out;
	/*
	 * A security module reads a label when a task first meets an inode, and
	 * judges that task by it; the VFS has asked whether the caller of
	 * getxattr() may.  Nor do capabilities depend on the caller's user
	 * namespace, to which the VFS converts them.
	 */
	old = override_creds(sbi->cred);
	bytes = ppc_getxattr(sbi, lower, name, buffer, size);
	revert_creds(old);
out:
	dput(lower);
	return bytes;
}

ssize_t ppc_listxattr(struct dentry *dentry, char *list, size_t size)
{
	return vfs_listxattr(PPC_D(dentry), list, size);
}

#if PPC_MAPS_IDS
/* Maps the ids of a lower ACL by BASE's id-mapped mount, as our inodes are. */
static struct posix_acl *ppc_map_acl(struct ppc_sb *sbi, const struct inode *lower,
				     struct posix_acl *acl)
{
	struct ppc_idmap *idmap = ppc_idmap_of(sbi->lower_mnt);
	struct posix_acl *mapped = posix_acl_clone(acl, GFP_KERNEL);
	struct posix_acl_entry *entry, *end;

	posix_acl_release(acl);
	if (!mapped)
		return ERR_PTR(-ENOMEM);
	FOREACH_ACL_ENTRY(entry, mapped, end) {
		if (entry->e_tag == ACL_USER)
			entry->e_uid = ppc_map_uid(idmap, lower, entry->e_uid);
		else if (entry->e_tag == ACL_GROUP)
			entry->e_gid = ppc_map_gid(idmap, lower, entry->e_gid);
	}
	return mapped;
}
#else	/* such mounts are refused */
static struct posix_acl *ppc_map_acl(struct ppc_sb *sbi, const struct inode *lower,
				     struct posix_acl *acl)
{
	return acl;
}
#endif

struct posix_acl *ppc_get_acl(struct ppc_idmap *idmap, struct dentry *dentry, int type)
{
	struct ppc_sb *sbi = PPC_SB(dentry->d_sb);
	struct posix_acl *acl = vfs_get_acl(ppc_idmap_of(sbi->lower_mnt), PPC_D(dentry),
					    posix_acl_xattr_name(type));

	if (!sbi->idmapped || IS_ERR_OR_NULL(acl))
		return acl;
	return ppc_map_acl(sbi, d_inode(PPC_D(dentry)), acl);
}

static const struct xattr_handler ppc_xattr_handler = {
	.prefix	= "",		/* all prefixes */
	.get	= ppc_xattr_get,
};

const struct xattr_handler *ppc_xattr_handlers[] = {
	&ppc_xattr_handler,
	NULL
};
