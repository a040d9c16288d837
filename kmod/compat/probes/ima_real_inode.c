// SPDX-License-Identifier: GPL-2.0-only
/* 6.9: IMA detects changes by comparing with the inode behind ->d_real(). */
#include <linux/fs.h>
#include <linux/integrity.h>

bool probe(const struct integrity_inode_attributes *attrs, struct inode *real);
bool probe(const struct integrity_inode_attributes *attrs, struct inode *real)
{
	return integrity_inode_attrs_changed(attrs, real);
}
