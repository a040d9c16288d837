/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One open of /dev/ppcN, shared by upc_dev.c (file operations), ioctl.c and
 * charge.c.
 */
#ifndef PPC_DEV_H
#define PPC_DEV_H

#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

struct ppc_dev {
	struct device dev;
	struct cdev cdev;
	struct rw_semaphore unmount_rwsem;
	struct ppc_sb *sbi;		/* under unmount_rwsem; NULL after unmount */
	bool dying;
	wait_queue_head_t unmount_wait;	/* woken at unmount */
};

/* One open of the device. */
struct ppc_devfile {
	struct ppc_dev *dev;
	struct mutex lock;		/* attach, detach, lease expiry */
	struct ppc_session *session;	/* set once under lock; freed at release */
	bool attached;			/* under lock: the lease is watched */
	bool expired;			/* written under lock; poll() reads it without */
	struct delayed_work lease_work;
	atomic64_t cancel[PPC_CANCEL_SLOTS];	/* newest generation, only grows */
	struct xarray charges;		/* handle -> css, referenced; see charge.c */
};

/*
 * Returns the session without the lock: it is set once, complete, with release
 * semantics, and lives as long as the descriptor.
 */
static inline struct ppc_session *ppc_devfile_session(struct ppc_devfile *df)
{
	/* pairs with the store-release in ppc_dev_attach() */
	return smp_load_acquire(&df->session);
}

/* upc_dev.c */
int ppc_dev_attach(struct ppc_sb *sbi, struct ppc_devfile *df, struct ppc_attach *req);
int ppc_dev_detach(struct ppc_sb *sbi, struct ppc_devfile *df);

/* ioctl.c */
long ppc_dev_ioctl(struct file *file, unsigned int cmd, unsigned long user);

/* charge.c */
int ppc_charge_add(struct ppc_devfile *df, struct ppc_charge *req);
int ppc_charge_release(struct ppc_devfile *df, u32 handle);
int ppc_charge_get(struct ppc_devfile *df, u32 handle, struct mem_cgroup **memcg);
void ppc_charge_put(struct mem_cgroup *memcg);
void ppc_charges_free(struct ppc_devfile *df);
u32 ppc_charge_caps(void);

#endif /* PPC_DEV_H */
