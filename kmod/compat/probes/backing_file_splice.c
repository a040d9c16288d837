// SPDX-License-Identifier: GPL-2.0-only
/* Between 6.12 and 7.2: backing_file_splice_read() takes a kiocb for the position. */
#include <linux/fs.h>
#include <linux/backing-file.h>

ssize_t probe(struct file *lower, struct kiocb *iocb, struct pipe_inode_info *pipe, size_t len,
	      struct backing_file_ctx *ctx);
ssize_t probe(struct file *lower, struct kiocb *iocb, struct pipe_inode_info *pipe, size_t len,
	      struct backing_file_ctx *ctx)
{
	return backing_file_splice_read(lower, iocb, pipe, len, 0, ctx);
}
