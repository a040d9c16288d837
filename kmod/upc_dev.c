// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/ppcN: its life, open, poll, mmap, attaching and the lease.
 *
 * struct ppc_dev is counted apart from the super block: it lives while a
 * process has the device open, and dev->sbi is NULL from the unmount on.  Each
 * ioctl holds dev->unmount_rwsem for reading, the unmount takes it for writing:
 *
 *	ioctl				unmount
 *	down_read(unmount_rwsem)	dying = true
 *	sbi = dev->sbi or -ENODEV	down_write(unmount_rwsem)	waits
 *	LOAD looks at dying		dev->sbi = NULL
 *	up_read(unmount_rwsem)		up_write(unmount_rwsem)
 */
#include <linux/idr.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/slab.h>

#include "ppc.h"
#include "ppc_dev.h"

static dev_t ppc_first_dev;
static DEFINE_IDA(ppc_minors);

static char *ppc_devnode(PPC_DEVNODE_CONST struct device *dev, umode_t *mode)
{
	if (mode)
		*mode = 0600;
	return NULL;
}

static struct class ppc_class = {
	.name		= "ppc",
	.devnode	= ppc_devnode,
};

static unsigned long ppc_lease_period(const struct ppc_session *session)
{
	return msecs_to_jiffies(max(ppc_session_lease_ms(session) / 8, 20U));
}

static void ppc_lease_work(struct work_struct *work)
{
	struct ppc_devfile *df = container_of(work, struct ppc_devfile, lease_work.work);
	struct ppc_dev *dev = df->dev;

	down_read(&dev->unmount_rwsem);
	mutex_lock(&df->lock);
	if (dev->sbi && df->attached) {
		if (!ppc_session_lease_expired(df->session)) {
			schedule_delayed_work(&df->lease_work, ppc_lease_period(df->session));
		} else {
			df->attached = false;
			/* before the wake-up in ppc_detach_session(): poll() reports it */
			WRITE_ONCE(df->expired, true);
			ppc_detach_session(dev->sbi, df->session, true);
		}
	}
	mutex_unlock(&df->lock);
	up_read(&dev->unmount_rwsem);
}

/**
 * ppc_dev_attach - PPC_IOC_ATTACH
 * @sbi: mount
 * @df: descriptor; gets its session at the first ATTACH
 * @req: checked; the layout of the rings is set here
 *
 * Context: ioctl.
 * Return: 0 or -errno
 */
int ppc_dev_attach(struct ppc_sb *sbi, struct ppc_devfile *df, struct ppc_attach *req)
{
	int err = 0;

	mutex_lock(&df->lock);
	if (!df->session) {
		struct ppc_session *session =
			ppc_session_create(READ_ONCE(sbi->opts.queue_events));

		if (IS_ERR(session))
			err = PTR_ERR(session);
		else
			/* pairs with the acquire in ppc_devfile_session() */
			smp_store_release(&df->session, session);
	}
	if (!err)
		err = ppc_attach_session(sbi, df->session, req);
	if (!err) {
		WRITE_ONCE(df->expired, false);
		df->attached = true;
		ppc_session_describe(df->session, req);
		cancel_delayed_work(&df->lease_work);
		schedule_delayed_work(&df->lease_work, ppc_lease_period(df->session));
	}
	mutex_unlock(&df->lock);
	return err;
}

/* PPC_IOC_DETACH; the rings stay for another ATTACH on this descriptor. */
int ppc_dev_detach(struct ppc_sb *sbi, struct ppc_devfile *df)
{
	int err = 0;

	mutex_lock(&df->lock);
	df->attached = false;
	if (!df->session || !ppc_detach_session(sbi, df->session, false))
		err = -ENOTCONN;
	mutex_unlock(&df->lock);
	return err;
}

static int ppc_dev_open(struct inode *inode, struct file *file)
{
	struct ppc_dev *dev = container_of(inode->i_cdev, struct ppc_dev, cdev);
	struct ppc_devfile *df;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (READ_ONCE(dev->dying))
		return -ENODEV;
	df = kzalloc(sizeof(*df), GFP_KERNEL);
	if (!df)
		return -ENOMEM;
	df->dev = dev;
	get_device(&dev->dev);
	mutex_init(&df->lock);
	xa_init_flags(&df->charges, XA_FLAGS_ALLOC1);
	INIT_DELAYED_WORK(&df->lease_work, ppc_lease_work);
	file->private_data = df;
	return nonseekable_open(inode, file);
}

static int ppc_dev_release(struct inode *inode, struct file *file)
{
	struct ppc_devfile *df = file->private_data;
	struct ppc_dev *dev = df->dev;

	cancel_delayed_work_sync(&df->lease_work);
	if (df->session) {
		down_read(&dev->unmount_rwsem);
		if (dev->sbi)
			ppc_detach_session(dev->sbi, df->session, false);
		up_read(&dev->unmount_rwsem);
		/* wait for writers that still see its rings */
		synchronize_rcu();
		ppc_session_free(df->session);
	}
	ppc_charges_free(df);
	put_device(&dev->dev);
	kfree(df);
	return 0;
}

static __poll_t ppc_dev_poll(struct file *file, poll_table *wait)
{
	struct ppc_devfile *df = file->private_data;
	struct ppc_session *session = ppc_devfile_session(df);
	__poll_t events = 0;

	poll_wait(file, &df->dev->unmount_wait, wait);
	if (session) {
		poll_wait(file, ppc_session_wait(session), wait);
		if (poll_requested_events(wait) & (EPOLLIN | EPOLLRDNORM) ?
		    !ppc_session_prepare_sleep(session) : ppc_session_pending(session))
			events |= EPOLLIN | EPOLLRDNORM;
		if (READ_ONCE(df->expired))
			events |= EPOLLERR | EPOLLHUP;
	}
	if (READ_ONCE(df->dev->dying))
		events |= EPOLLHUP;
	return events;
}

static int ppc_dev_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct ppc_devfile *df = file->private_data;
	struct ppc_session *session = ppc_devfile_session(df);

	return session ? ppc_session_mmap(session, vma) : -ENXIO;
}

static const struct file_operations ppc_dev_ops = {
	.owner		= THIS_MODULE,
	.open		= ppc_dev_open,
	.release	= ppc_dev_release,
	.unlocked_ioctl	= ppc_dev_ioctl,
	.compat_ioctl	= ppc_dev_ioctl,	/* same layout for 32-bit callers */
	.poll		= ppc_dev_poll,
	.mmap		= ppc_dev_mmap,
};

static void ppc_dev_free(struct device *device)
{
	struct ppc_dev *dev = container_of(device, struct ppc_dev, dev);

	ida_free(&ppc_minors, MINOR(device->devt));
	kfree(dev);
}

static void ppc_dev_set_dying(struct ppc_sb *sbi, struct ppc_dev *dev)
{
	WRITE_ONCE(dev->dying, true);
	WRITE_ONCE(sbi->dying, true);
}

/* Detaches open descriptors from the mount; waits for running ioctls. */
static void ppc_dev_orphan(struct ppc_sb *sbi, struct ppc_dev *dev)
{
	ppc_dev_set_dying(sbi, dev);
	down_write(&dev->unmount_rwsem);
	ppc_detach_session(sbi, NULL, false);
	dev->sbi = NULL;
	up_write(&dev->unmount_rwsem);
	wake_up_interruptible_all(&dev->unmount_wait);
}

/**
 * ppc_dev_create - create the device of a mount
 * @sbi: mount, complete
 *
 * Context: may sleep.
 * Return: 0 or -errno
 */
int ppc_dev_create(struct ppc_sb *sbi)
{
	struct ppc_dev *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	int minor, err;

	if (!dev)
		return -ENOMEM;
	minor = ida_alloc_max(&ppc_minors, MINORMASK, GFP_KERNEL);
	if (minor < 0) {
		kfree(dev);
		return minor;
	}
	device_initialize(&dev->dev);
	dev->dev.class = &ppc_class;
	dev->dev.devt = MKDEV(MAJOR(ppc_first_dev), minor);
	dev->dev.release = ppc_dev_free;
	init_rwsem(&dev->unmount_rwsem);
	init_waitqueue_head(&dev->unmount_wait);
	dev->sbi = sbi;
	cdev_init(&dev->cdev, &ppc_dev_ops);
	dev->cdev.owner = THIS_MODULE;
	err = dev_set_name(&dev->dev, "ppc%d", minor);
	if (!err) {
		sbi->dev = dev;
		sbi->minor = minor;
		err = cdev_device_add(&dev->cdev, &dev->dev);
	}
	if (err) {
		/* a process may have opened it through its own device node */
		ppc_dev_orphan(sbi, dev);
		sbi->dev = NULL;
		put_device(&dev->dev);
	}
	return err;
}

/**
 * ppc_dev_shutdown - shut the device; open descriptors get -ENODEV and POLLHUP
 * @sbi: mount
 *
 * Context: may sleep; waits for running ioctls.
 */
void ppc_dev_shutdown(struct ppc_sb *sbi)
{
	struct ppc_dev *dev = sbi->dev;

	if (!dev)
		return;
	ppc_dev_set_dying(sbi, dev);
	cdev_device_del(&dev->cdev, &dev->dev);
	ppc_dev_orphan(sbi, dev);
}

/* Drops the mount's reference; sbi->dev is not used afterwards. */
void ppc_dev_put(struct ppc_sb *sbi)
{
	if (sbi->dev)
		put_device(&sbi->dev->dev);
}

int ppc_dev_class_init(void)
{
	int err = class_register(&ppc_class);

	if (err)
		return err;
	err = alloc_chrdev_region(&ppc_first_dev, 0, MINORMASK + 1, "ppc");
	if (err)
		class_unregister(&ppc_class);
	return err;
}

void ppc_dev_class_exit(void)
{
	unregister_chrdev_region(ppc_first_dev, MINORMASK + 1);
	class_unregister(&ppc_class);
	ida_destroy(&ppc_minors);
}
