// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ioctls FILE and LOOKUP: from a file id to a name and identity, and back.
 */
#include <linux/namei.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "ppc.h"

static bool ppc_valid_file_req(const struct ppc_file *req)
{
	return !req->flags && !memchr_inv(req->reserved, 0, sizeof(req->reserved));
}

/* Size, inode number and times of the lower file. */
static int ppc_identify(struct ppc_sb *sbi, struct inode *inode, struct dentry *lower,
			struct ppc_file *req)
{
	struct path path = { .mnt = sbi->lower_mnt, .dentry = lower };
	struct kstat stat;
	int err = vfs_getattr_nosec(&path, &stat, STATX_BASIC_STATS, AT_STATX_SYNC_AS_STAT);

	if (err)
		return err;
	req->file_id = PPC_I(inode)->file_id;
	req->size = stat.size;
	req->ino = stat.ino;
	req->dev_major = MAJOR(stat.dev);
	req->dev_minor = MINOR(stat.dev);
	req->mtime_sec = stat.mtime.tv_sec;
	req->mtime_nsec = stat.mtime.tv_nsec;
	req->generation = inode->i_generation;
	return 0;
}

/*
 * Copies the lower name, which is right even if our dentries have not noticed a
 * rename below yet.  d_path() on the private clone starts at BASE.
 */
static int ppc_copy_name(struct ppc_sb *sbi, struct dentry *lower, struct ppc_file *req)
{
	struct path path = { .mnt = sbi->lower_mnt, .dentry = lower };
	char *buf, *name;
	size_t bytes;
	int err = 0;

	if (d_unlinked(lower) || !is_subdir(lower, sbi->lower_mnt->mnt_root))
		return -ESTALE;
	buf = kmalloc(PPC_NAME_MAX_BYTES, GFP_KERNEL);
	if (!buf)
		return -ENOMEM;
	name = d_path(&path, buf, PPC_NAME_MAX_BYTES);
	if (IS_ERR(name)) {
		err = PTR_ERR(name);
		goto out;
	}
	/* removed meanwhile: "(deleted)" follows the name */
	if (d_unlinked(lower)) {
		err = -ESTALE;
		goto out;
	}
	while (*name == '/')
		name++;
	bytes = strlen(name) + 1;
	if (bytes > req->name_bytes)
		err = -ENAMETOOLONG;
	else if (copy_to_user(u64_to_user_ptr(req->name), name, bytes))
		err = -EFAULT;
out:
	kfree(buf);
	return err;
}

/**
 * ppc_name_of_id - PPC_IOC_FILE
 * @sbi: mount
 * @req: in and out
 *
 * Context: ioctl.
 * Return: 0 or -errno as uapi.h says
 */
int ppc_name_of_id(struct ppc_sb *sbi, struct ppc_file *req)
{
	struct dentry *lower;
	struct inode *inode;
	int err;

	if (!ppc_valid_file_req(req))
		return -EINVAL;
	inode = ppc_ilookup(sbi, req->file_id);
	if (!inode)
		return -ESTALE;
	err = -EISDIR;
	if (!S_ISREG(inode->i_mode))
		goto out;
	err = -ESTALE;
	lower = ppc_lower_alias(inode);
	if (!lower)
		goto out;
	err = ppc_copy_name(sbi, lower, req);
	if (!err)
		err = ppc_identify(sbi, inode, lower, req);
	dput(lower);
out:
	iput(inode);
	return err;
}

/* Walks one component down; consumes @dir. */
static struct dentry *ppc_walk_one(struct dentry *dir, const char *name, unsigned int len)
{
	struct qstr q = QSTR_INIT(name, len);
	struct dentry *child;
	int err = -EINVAL;

	if (len && !(len == 1 && name[0] == '.') && !(len == 2 && !strncmp(name, "..", 2))) {
		if (d_is_symlink(dir))
			err = -ELOOP;
		else if (!d_is_dir(dir))
			err = -ENOTDIR;
		else
			err = inode_permission(PPC_NO_IDMAP, d_inode(dir), MAY_EXEC);
	}
	child = err ? ERR_PTR(err) : ppc_lookup_one(PPC_NO_IDMAP, &q, dir);
	dput(dir);
	if (!IS_ERR(child) && d_is_negative(child)) {
		dput(child);
		child = ERR_PTR(-ENOENT);
	}
	return child;
}

/**
 * ppc_walk - find a name below a directory, following no link
 * @root: ours
 * @name: components separated by single slashes
 *
 * Context: may sleep.
 * Return: a referenced positive dentry, or ERR_PTR
 */
struct dentry *ppc_walk(struct dentry *root, const char *name)
{
	struct dentry *dentry = dget(root);

	while (!IS_ERR(dentry)) {
		const char *end = strchrnul(name, '/');

		dentry = ppc_walk_one(dentry, name, end - name);
		if (!*end)
			break;
		name = end + 1;
	}
	return dentry;
}

static int ppc_lookup_name(struct ppc_sb *sbi, const char *name, struct ppc_file *req)
{
	struct dentry *dentry = ppc_walk(sbi->sb->s_root, name);
	int err;

	if (IS_ERR(dentry))
		return PTR_ERR(dentry);
	if (d_is_symlink(dentry))
		err = -ELOOP;
	else if (!d_is_reg(dentry))
		err = -EISDIR;
	else
		err = ppc_identify(sbi, d_inode(dentry), PPC_D(dentry), req);
	dput(dentry);
	return err;
}

/**
 * ppc_id_of_name - PPC_IOC_LOOKUP
 * @sbi: mount
 * @req: in and out; the name is relative to the mount and never leaves it
 *
 * Context: ioctl.
 * Return: 0 or -errno as uapi.h says
 */
int ppc_id_of_name(struct ppc_sb *sbi, struct ppc_file *req)
{
	char *name;
	int err;

	if (!ppc_valid_file_req(req) || !req->name_bytes)
		return -EINVAL;
	name = strndup_user(u64_to_user_ptr(req->name),
			    min_t(u32, req->name_bytes, PPC_NAME_MAX_BYTES));
	if (IS_ERR(name))
		/* no NUL within the buffer */
		return PTR_ERR(name) == -EINVAL ? -ENAMETOOLONG : PTR_ERR(name);
	err = ppc_lookup_name(sbi, name, req);
	kfree(name);
	return err;
}
