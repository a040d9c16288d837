// SPDX-License-Identifier: GPL-2.0-only
/* 6.8: backing_file_splice_read() takes the position. */
#include <linux/fs.h>
#include <linux/backing-file.h>

ssize_t probe(struct file *lower, loff_t *pos, struct pipe_inode_info *pipe, size_t len,
	      struct backing_file_ctx *ctx);
ssize_t probe(struct file *lower, loff_t *pos, struct pipe_inode_info *pipe, size_t len,
	      struct backing_file_ctx *ctx)
{
	return backing_file_splice_read(lower, pos, pipe, len, 0, ctx);
}
