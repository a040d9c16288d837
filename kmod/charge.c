// SPDX-License-Identifier: GPL-2.0-only
/*
 * CHARGE: handles of a descriptor for the memory cgroups that LOAD charges.
 * The xarray of the descriptor owns the css references.
 */
#include <linux/cgroup.h>
#include <linux/file.h>
#include <linux/kernfs.h>
#include <linux/magic.h>
#include <linux/memcontrol.h>

#include "ppc.h"
#include "ppc_dev.h"

#define PPC_MAX_CHARGES		1024

#if PPC_CAN_CHARGE

u32 ppc_charge_caps(void)
{
	return PPC_CAP_CHARGE;
}

/*
 * cgroup_get_from_fd() knows cgroup2 only.  A directory of the first version
 * leads to its cgroup as in css_tryget_online_from_dir(), which is not
 * exported.
 */
static struct cgroup *ppc_cgroup_v1(int fd)
{
	struct cgroup *cgrp = ERR_PTR(-EBADF);
	struct file *file = fget(fd);
	struct kernfs_node *kn;

	if (!file)
		return cgrp;
	if (file->f_path.dentry->d_sb->s_magic == CGROUP_SUPER_MAGIC &&
	    d_is_dir(file->f_path.dentry)) {
		kn = file_inode(file)->i_private;
		rcu_read_lock();
		cgrp = rcu_dereference(*(void __rcu __force **)&kn->priv);
		if (!cgrp || !cgroup_tryget(cgrp))
			cgrp = ERR_PTR(-ENOENT);
		rcu_read_unlock();
	}
	fput(file);
	return cgrp;
}

static struct cgroup *ppc_cgroup_of(int fd)
{
	struct cgroup *cgrp = cgroup_get_from_fd(fd);

	return cgrp == ERR_PTR(-EBADF) ? ppc_cgroup_v1(fd) : cgrp;
}

/**
 * ppc_charge_add - PPC_IOC_CHARGE
 * @df: descriptor that gets the handle
 * @req: in and out
 *
 * A cgroup without a memory controller of its own stands for its nearest
 * ancestor with one, as it does for a process.
 *
 * Context: ioctl.
 * Return: 0; -EBADF no cgroup directory; -ENOENT removed; -EINVAL a hierarchy
 * without the memory controller; -ENOSPC too many handles
 */
int ppc_charge_add(struct ppc_devfile *df, struct ppc_charge *req)
{
	struct cgroup *cgrp = ppc_cgroup_of(req->cgroup_fd);
	struct cgroup_subsys_state *css;
	int err;

	if (IS_ERR(cgrp))
		return PTR_ERR(cgrp);
	css = cgroup_get_e_css(cgrp, &memory_cgrp_subsys);
	err = css && css->cgroup->root == cgrp->root ? 0 : -EINVAL;
	cgroup_put(cgrp);
	if (!err)
		err = xa_alloc(&df->charges, &req->handle, css, XA_LIMIT(1, PPC_MAX_CHARGES),
			       GFP_KERNEL);
	if (err && css)
		css_put(css);
	return err == -EBUSY ? -ENOSPC : err;
}

/**
 * ppc_charge_release - PPC_IOC_CHARGE with PPC_CHARGE_RELEASE
 * @df: descriptor that got the handle
 * @handle: new loads are refused it
 *
 * Return: 0 or -EBADF
 */
int ppc_charge_release(struct ppc_devfile *df, u32 handle)
{
	struct cgroup_subsys_state *css = xa_erase(&df->charges, handle);

	if (!css)
		return -EBADF;
	css_put(css);
	return 0;
}

/**
 * ppc_charge_get - the memory cgroup of a handle
 * @df: descriptor that got the handle
 * @handle: 0 stands for the caller's own cgroup
 * @memcg: out, NULL for the caller's own; release it with ppc_charge_put()
 *
 * Context: may race with ppc_charge_release().
 * Return: 0 or -EBADF, also for a removed cgroup
 */
int ppc_charge_get(struct ppc_devfile *df, u32 handle, struct mem_cgroup **memcg)
{
	struct cgroup_subsys_state *css;

	*memcg = NULL;
	if (!handle)
		return 0;
	xa_lock(&df->charges);
	css = xa_load(&df->charges, handle);
	/* a charge to a removed cgroup would keep its accounting alive */
	if (css && !css_tryget_online(css))
		css = NULL;
	xa_unlock(&df->charges);
	if (!css)
		return -EBADF;
	*memcg = mem_cgroup_from_css(css);
	return 0;
}

void ppc_charge_put(struct mem_cgroup *memcg)
{
	mem_cgroup_put(memcg);
}

void ppc_charges_free(struct ppc_devfile *df)
{
	struct cgroup_subsys_state *css;
	unsigned long handle;

	xa_for_each(&df->charges, handle, css)
		css_put(css);
	xa_destroy(&df->charges);
}

#else	/* page cache is charged to the loading task, whatever the request says */

u32 ppc_charge_caps(void)
{
	return 0;
}

int ppc_charge_add(struct ppc_devfile *df, struct ppc_charge *req)
{
	return -EOPNOTSUPP;
}

int ppc_charge_release(struct ppc_devfile *df, u32 handle)
{
	return -EOPNOTSUPP;
}

int ppc_charge_get(struct ppc_devfile *df, u32 handle, struct mem_cgroup **memcg)
{
	*memcg = NULL;
	return handle ? -EBADF : 0;
}

void ppc_charge_put(struct mem_cgroup *memcg)
{
}

void ppc_charges_free(struct ppc_devfile *df)
{
}

#endif
