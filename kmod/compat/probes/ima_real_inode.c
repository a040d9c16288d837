// SPDX-License-Identifier: GPL-2.0-only
/* 6.9: what IMA compares the inode behind ->d_real() with, to see that it has changed. */
#include <linux/fs.h>
#include <linux/integrity.h>

bool probe(const struct integrity_inode_attributes *attrs, struct inode *real);
bool probe(const struct integrity_inode_attributes *attrs, struct inode *real)
{
	return integrity_inode_attrs_changed(attrs, real);
}
