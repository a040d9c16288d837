// SPDX-License-Identifier: GPL-2.0-only
/* 6.5: vfs_splice_read() is exported. */
#include <linux/fs.h>
#include <linux/splice.h>

ssize_t probe(struct file *in, loff_t *pos, struct pipe_inode_info *pipe, size_t len);
ssize_t probe(struct file *in, loff_t *pos, struct pipe_inode_info *pipe, size_t len)
{
	return vfs_splice_read(in, pos, pipe, len, 0);
}
