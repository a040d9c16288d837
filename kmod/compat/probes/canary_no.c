// SPDX-License-Identifier: GPL-2.0-only
/* Must not compile: shows that a missing function is noticed. */
#include <linux/fs.h>

int probe(struct inode *inode);
int probe(struct inode *inode)
{
	return ppc_no_kernel_has_this_function(inode);
}
