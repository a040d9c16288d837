// SPDX-License-Identifier: GPL-2.0-only
/* 6.8: backing_file_read_iter(). */
#include <linux/fs.h>
#include <linux/backing-file.h>

ssize_t probe(struct file *lower, struct iov_iter *to, struct kiocb *iocb,
	      struct backing_file_ctx *ctx);
ssize_t probe(struct file *lower, struct iov_iter *to, struct kiocb *iocb,
	      struct backing_file_ctx *ctx)
{
	return backing_file_read_iter(lower, to, iocb, 0, ctx);
}
