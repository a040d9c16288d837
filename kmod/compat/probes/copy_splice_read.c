// SPDX-License-Identifier: GPL-2.0-only
/* 6.5: copy_splice_read() reads through ->read_iter() into a pipe. */
#include <linux/fs.h>

ssize_t probe(struct file *in, loff_t *pos, struct pipe_inode_info *pipe, size_t len);
ssize_t probe(struct file *in, loff_t *pos, struct pipe_inode_info *pipe, size_t len)
{
	return copy_splice_read(in, pos, pipe, len, 0);
}
