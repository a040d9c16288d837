// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which consumer is attached and what that means for open files: attach,
 * detach (lease expiry is one), and the switching of native read-ahead.
 *
 * sbi->mode is what the application's path looks at.  Switching a file's
 * read-ahead and fault-around, adding a file to the end of the list, and its
 * first mapping all happen under the lock of its list, and the mode is written
 * before the lists are walked, so whichever comes second sees the other; README.md draws it.
 */
#include <linux/fadvise.h>
#include <linux/log2.h>

#include "ppc.h"
#include "trace.h"

/* Files to look at under one holding of a list's lock. */
#define PPC_APPLY_BATCH	64

/* Caller holds po->list->lock. */
static void ppc_apply_readahead(struct ppc_open *po)
{
	struct file *lower = po->lower;
	bool managed = (READ_ONCE(po->sbi->mode) & PPC_MODE_MANAGED) && !PPC_I(po->inode)->native;
	bool random = po->ra.random || managed;

	spin_lock(&lower->f_lock);
	if (random)
		lower->f_mode |= FMODE_RANDOM;
	else
		lower->f_mode &= ~FMODE_RANDOM;
	ppc_set_fault_window(lower, managed ? READ_ONCE(po->sbi->window_pages) : 0,
			     po->ra.sequential, &po->ra.window);
	spin_unlock(&lower->f_lock);
}

static void ppc_apply_mode(struct ppc_open *po)
{
	ppc_apply_readahead(po);
	ppc_choose_map_pages(po);
}

/*
 * Applies the mode to all open files of a list, or of one inode.  The lock is
 * dropped every PPC_APPLY_BATCH files, since tasks that open and close files
 * wait for it.  Meanwhile a reference keeps the last file on the list, where
 * the walk goes on; files added meanwhile are behind it and follow the mode
 * already.
 */
static void ppc_apply_mode_list(struct ppc_open_list *list, const struct inode *only)
{
	struct ppc_open *po, *held = NULL, *done;
	unsigned int n;

	do {
		n = 0;
		done = held;
		spin_lock(&list->lock);
		po = list_prepare_entry(held, &list->files, ra.link);
		held = NULL;
		list_for_each_entry_continue(po, &list->files, ra.link) {
			if (!only || po->inode == only)
				ppc_apply_mode(po);
			/* a file without references is leaving the list and waits for the lock */
			if (++n >= PPC_APPLY_BATCH && ppc_open_try_get(po)) {
				held = po;
				break;
			}
		}
		spin_unlock(&list->lock);
		if (done)
			ppc_open_put(done);
		cond_resched();
	} while (held);
}

static void ppc_apply_mode_all(struct ppc_sb *sbi)
{
	unsigned int i;

	for (i = 0; i < PPC_OPEN_LISTS; i++)
		ppc_apply_mode_list(&sbi->open_lists[i], NULL);
}

/**
 * ppc_open_list_add - list an open file that is ready for use
 * @po: open file
 *
 * Context: any that may take a spinlock.
 */
void ppc_open_list_add(struct ppc_open *po)
{
	struct ppc_open_list *list = po->list;

	atomic_inc(&PPC_I(po->inode)->nr_open);
	spin_lock(&list->lock);
	list_add_tail(&po->ra.link, &list->files);
	WRITE_ONCE(list->nr, list->nr + 1);
	if (READ_ONCE(po->sbi->mode))
		ppc_apply_readahead(po);
	spin_unlock(&list->lock);
}

/**
 * ppc_apply_advice - the lower file took an application's advice
 * @po: open file
 * @advice: POSIX_FADV_*
 *
 * NORMAL and SEQUENTIAL turn native read-ahead on.  While a policy manages
 * read-ahead, this turns it off again until detach.
 */
void ppc_apply_advice(struct ppc_open *po, int advice)
{
	if (advice != POSIX_FADV_NORMAL && advice != POSIX_FADV_SEQUENTIAL &&
	    advice != POSIX_FADV_RANDOM)
		return;
	spin_lock(&po->list->lock);
	WRITE_ONCE(po->ra.random, advice == POSIX_FADV_RANDOM);
	po->ra.sequential = advice == POSIX_FADV_SEQUENTIAL;
	ppc_apply_readahead(po);
	spin_unlock(&po->list->lock);
}

/**
 * ppc_set_file_mode - exempt a file from managed read-ahead, or take it back
 * @sbi: mount
 * @inode: ours
 * @native: exempt it
 */
void ppc_set_file_mode(struct ppc_sb *sbi, struct inode *inode, bool native)
{
	struct ppc_open_list *list = ppc_open_list_of(sbi, inode);

	spin_lock(&list->lock);
	WRITE_ONCE(PPC_I(inode)->native, native);
	spin_unlock(&list->lock);
	ppc_apply_mode_list(list, inode);
}

/*
 * Tracing sees a page at its first touch, so pages that are mapped already are
 * unmapped once.  Private copies stay (even_cows = 0).
 */
static void ppc_zap_mappings(struct ppc_sb *sbi)
{
	struct ppc_inode *pi;
	unsigned long id;

	xa_for_each(&sbi->inodes, id, pi) {
		/* pi itself may be gone already */
		struct inode *inode = ppc_ilookup(sbi, id);

		if (!inode)
			continue;
		if (atomic_read(&PPC_I(inode)->nr_open) && mapping_mapped(PPC_I(inode)->mapping))
			unmap_mapping_range(PPC_I(inode)->mapping, 0, 0, 0);
		iput(inode);
		cond_resched();
	}
}

static unsigned long ppc_mode_of(u32 attach_flags)
{
	unsigned long mode = PPC_MODE_ATTACHED;

	if (attach_flags & PPC_ATTACH_MANAGED_RA)
		mode |= PPC_MODE_MANAGED;
	if (attach_flags & PPC_ATTACH_BEACON)
		mode |= PPC_MODE_BEACON;
	if (attach_flags & PPC_ATTACH_TRACE)
		mode |= PPC_MODE_TRACE;
	if (attach_flags & PPC_ATTACH_OPENCLOSE)
		mode |= PPC_MODE_OPENCLOSE;
	return mode;
}

static u32 ppc_or_default(u32 value, u32 fallback)
{
	return value ? value : fallback;
}

/**
 * ppc_attach_session - make a session the mount's consumer, or change its terms
 * @sbi: mount
 * @session: of the calling descriptor
 * @req: checked by the caller
 *
 * Context: may sleep.
 * Return: 0, or -EBUSY when another session is attached
 */
int ppc_attach_session(struct ppc_sb *sbi, struct ppc_session *session,
		       const struct ppc_attach *req)
{
	unsigned long mode = ppc_mode_of(req->flags), old;
	struct ppc_session *attached;
	u32 window, beacon;

	mutex_lock(&sbi->attach_mutex);
	attached = rcu_dereference_protected(sbi->session, lockdep_is_held(&sbi->attach_mutex));
	if (attached && attached != session) {
		mutex_unlock(&sbi->attach_mutex);
		return -EBUSY;
	}
	if (!attached)
		/* accesses stored since the last session left */
		ppc_access_flush_all(sbi);
	window = ppc_or_default(req->window_bytes, READ_ONCE(sbi->opts.window_bytes));
	beacon = ppc_or_default(req->beacon_bytes, READ_ONCE(sbi->opts.beacon_bytes));
	WRITE_ONCE(sbi->window_pages, window >> PAGE_SHIFT);
	WRITE_ONCE(sbi->beacon_shift, ilog2(beacon) - PAGE_SHIFT);
	strscpy(sbi->label, req->label, sizeof(sbi->label));
	ppc_session_set_lease(session, req->lease_ms);
	sbi->expired = false;
	rcu_assign_pointer(sbi->session, session);
	old = sbi->mode;
	WRITE_ONCE(sbi->mode, mode);
	/* before ids are handed out: the sweeps must not stop */
	ppc_sweep_note_use(sbi);
	ppc_apply_mode_all(sbi);
	if (mode & ~old & PPC_MODE_TRACE) {
		ppc_zap_mappings(sbi);
		schedule_delayed_work(&sbi->flush_work, HZ / 10);
	}
	mutex_unlock(&sbi->attach_mutex);
	trace_ppc_attach(ppc_dev_minor(sbi), mode, window, beacon);
	return 0;
}

/**
 * ppc_detach_session - end the attachment and restore native read-ahead
 * @sbi: mount
 * @session: detach only if this one is attached; NULL: any
 * @expired: its lease ran out
 *
 * Readers may still be putting events into the session's rings until an RCU
 * grace period has passed.
 *
 * Context: may sleep.
 * Return: whether it was attached
 */
bool ppc_detach_session(struct ppc_sb *sbi, struct ppc_session *session, bool expired)
{
	struct ppc_session *attached;

	mutex_lock(&sbi->attach_mutex);
	attached = rcu_dereference_protected(sbi->session, lockdep_is_held(&sbi->attach_mutex));
	if (!attached || (session && attached != session)) {
		mutex_unlock(&sbi->attach_mutex);
		return false;
	}
	WRITE_ONCE(sbi->mode, 0);
	rcu_assign_pointer(sbi->session, NULL);
	/* pending events are not for the next consumer */
	ppc_access_flush_all(sbi);
	sbi->expired = expired;
	memset(sbi->label, 0, sizeof(sbi->label));
	ppc_apply_mode_all(sbi);
	if (expired)
		ppc_stat_add(sbi, PPC_STAT_LEASE_EXPIRIES, 1);
	ppc_session_wake(attached);
	mutex_unlock(&sbi->attach_mutex);
	trace_ppc_attach(ppc_dev_minor(sbi), 0, 0, 0);
	return true;
}
