// SPDX-License-Identifier: GPL-2.0-only
/* 5.17, and stable releases of 5.15: is_idmapped_mnt(). */
#include <linux/fs.h>
#include <linux/mount.h>

bool probe(const struct vfsmount *mnt);
bool probe(const struct vfsmount *mnt)
{
	return is_idmapped_mnt(mnt);
}
