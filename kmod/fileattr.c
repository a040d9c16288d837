// SPDX-License-Identifier: GPL-2.0-only
/*
 * Inode flags (lsattr, project id), and the few read-only ioctls.  All other
 * ioctls are ENOTTY: the lower file system defines them, and they may write.
 */
#include <linux/fs.h>

#include "ppc.h"

int ppc_fileattr_get(struct dentry *dentry, struct file_kattr *attr)
{
	return vfs_fileattr_get(PPC_D(dentry), attr);
}

/**
 * ppc_lower_ioctl - an ioctl of the application
 * @lower: lower file or directory
 * @cmd: as given
 * @arg: as given
 *
 * Return: the lower file system's result, or -ENOTTY
 */
long ppc_lower_ioctl(struct file *lower, unsigned int cmd, unsigned long arg)
{
	switch (cmd) {
	case FS_IOC_GETFLAGS:	/* both: before 5.13, or without ->fileattr_get() below */
	case FS_IOC_FSGETXATTR:
	case FS_IOC_GETVERSION:
	case FS_IOC_GETFSLABEL:
	case FS_IOC_MEASURE_VERITY:
	case FS_IOC_READ_VERITY_METADATA:
		if (lower->f_op->unlocked_ioctl)
			return lower->f_op->unlocked_ioctl(lower, cmd, arg);
		break;
	case FS_IOC_SETFLAGS:	/* from 5.13 on the VFS refuses it */
	case FS_IOC_FSSETXATTR:
		return -EROFS;
	}
	return -ENOTTY;
}
