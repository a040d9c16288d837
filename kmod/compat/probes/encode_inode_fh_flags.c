// SPDX-License-Identifier: GPL-2.0-only
/* 6.5: exportfs_encode_inode_fh() takes flags. */
#include <linux/exportfs.h>

int probe(struct inode *inode, struct fid *fid, int *max_len);
int probe(struct inode *inode, struct fid *fid, int *max_len)
{
	return exportfs_encode_inode_fh(inode, fid, max_len, NULL, 0);
}
