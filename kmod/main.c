// SPDX-License-Identifier: GPL-2.0-only
/*
 * Registers the file system type and its device class.
 */
#include <linux/module.h>

#include "ppc.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

static int __init ppc_init(void)
{
	int err;

	err = ppc_inode_cache_init();
	if (err)
		return err;
	err = ppc_open_cache_init();
	if (err)
		goto err_inode_cache;
	err = ppc_aio_cache_init();
	if (err)
		goto err_open_cache;
	err = ppc_dev_class_init();
	if (err)
		goto err_aio_cache;
	err = ppc_stats_init();
	if (err)
		goto err_class;
	err = register_filesystem(&ppc_fs_type);
	if (err)
		goto err_stats;
	return 0;

err_stats:
	ppc_stats_exit();
err_class:
	ppc_dev_class_exit();
err_aio_cache:
	ppc_aio_cache_exit();
err_open_cache:
	ppc_open_cache_exit();
err_inode_cache:
	ppc_inode_cache_exit();
	return err;
}

static void __exit ppc_exit(void)
{
	unregister_filesystem(&ppc_fs_type);
	ppc_stats_exit();
	ppc_dev_class_exit();
	ppc_aio_cache_exit();
	ppc_open_cache_exit();
	ppc_inode_cache_exit();
}

module_init(ppc_init);
module_exit(ppc_exit);

MODULE_AUTHOR("The PPC authors");
MODULE_DESCRIPTION("PPC: programmable page cache, routing file system");
MODULE_LICENSE("GPL");
/* DKMS reads it, and makes modpost write srcversion on all kernels. */
MODULE_VERSION(PPC_MODULE_VERSION);
MODULE_ALIAS_FS("ppc");
