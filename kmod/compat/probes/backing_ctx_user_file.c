// SPDX-License-Identifier: GPL-2.0-only
/* 6.8 .. 6.12: the context of the backing_file_*() helpers names the user's file. */
#include <linux/fs.h>
#include <linux/backing-file.h>

void probe(struct file *user, struct backing_file_ctx *ctx);
void probe(struct file *user, struct backing_file_ctx *ctx)
{
	ctx->user_file = user;
}
