// SPDX-License-Identifier: GPL-2.0-only
/* 5.14 exports vfs_parse_fs_param_source(). */
#include <linux/fs_context.h>
#include <linux/fs_parser.h>

int probe(struct fs_context *fc, struct fs_parameter *param);
int probe(struct fs_context *fc, struct fs_parameter *param)
{
	return vfs_parse_fs_param_source(fc, param);
}
