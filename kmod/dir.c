// SPDX-License-Identifier: GPL-2.0-only
/*
 * Open directories: passes reads and cookies through to the lower directory.
 */
#include <linux/cred.h>
#include <linux/fs.h>

#include "ppc.h"

static int ppc_dir_open(struct inode *inode, struct file *file)
{
	struct file *lower = ppc_open_lower_dir(file);

	if (IS_ERR(lower))
		return PTR_ERR(lower);
	file->private_data = lower;
	return 0;
}

static int ppc_dir_release(struct inode *inode, struct file *file)
{
	fput(file->private_data);
	return 0;
}

static int ppc_dir_iterate(struct file *file, struct dir_context *ctx)
{
	struct file *lower = file->private_data;
	const struct cred *old;
	int err;

	lower->f_pos = ctx->pos;
	/* the lower directory is read with the opener's credentials */
	old = override_creds(lower->f_cred);
	err = iterate_dir(lower, ctx);
	revert_creds(old);
	ctx->pos = lower->f_pos;
	return err;
}

static loff_t ppc_dir_llseek(struct file *file, loff_t offset, int whence)
{
	struct file *lower = file->private_data;
	loff_t pos;

	inode_lock(file_inode(file));
	lower->f_pos = file->f_pos;
	pos = vfs_llseek(lower, offset, whence);
	file->f_pos = lower->f_pos;
	inode_unlock(file_inode(file));
	return pos;
}

static long ppc_dir_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return ppc_lower_ioctl(file->private_data, cmd, arg);
}

static int ppc_dir_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	return vfs_fsync_range(file->private_data, start, end, datasync);
}

const struct file_operations ppc_dir_ops = {
	.open		= ppc_dir_open,
	.release	= ppc_dir_release,
	.read		= generic_read_dir,
	.iterate_shared	= ppc_dir_iterate,
	.llseek		= ppc_dir_llseek,
	.fsync		= ppc_dir_fsync,
	.unlocked_ioctl	= ppc_dir_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.setlease	= simple_nosetlease,
};
