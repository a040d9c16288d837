// SPDX-License-Identifier: GPL-2.0-only
/*
 * Asynchronous direct reads.  Each has a lower request of its own, whose
 * completion completes the caller's.  Buffered reads need none: the VFS treats
 * them as synchronous, or io_uring waits for the page itself.
 */
#include <linux/refcount.h>
#include <linux/slab.h>

#include "ppc.h"

struct ppc_aio {
	struct kiocb lower;
	struct kiocb *upper;
	refcount_t ref;		/* the submitter, which may use lower again, and the completion */
};

static struct kmem_cache *ppc_aio_cache;

static void ppc_aio_put(struct ppc_aio *aio)
{
	struct file *lower = aio->lower.ki_filp;

	if (refcount_dec_and_test(&aio->ref)) {
		kmem_cache_free(ppc_aio_cache, aio);
		/* last: its path keeps the mount, and the mount keeps the module with this cache */
		fput(lower);
	}
}

static void ppc_aio_done(struct ppc_aio *aio)
{
	aio->upper->ki_pos = aio->lower.ki_pos;
	ppc_aio_put(aio);
}

static void ppc_aio_complete(PPC_KI_COMPLETE_ARGS)
{
	struct ppc_aio *aio = container_of(iocb, struct ppc_aio, lower);
	struct kiocb *upper = aio->upper;

	ppc_aio_done(aio);
	ppc_ki_complete(upper, ret);
}

/**
 * ppc_read_async - read directly without waiting
 * @iocb: the caller's, not synchronous
 * @to: destination
 * @lower: file to read
 * @flags: IOCB_* of the lower request
 *
 * Context: may sleep unless @flags has IOCB_NOWAIT.
 * Return: bytes, -EIOCBQUEUED, or -errno
 */
ssize_t ppc_read_async(struct kiocb *iocb, struct iov_iter *to, struct file *lower, int flags)
{
	struct ppc_aio *aio;
	ssize_t ret;

	aio = kmem_cache_zalloc(ppc_aio_cache,
				flags & IOCB_NOWAIT ? GFP_NOWAIT | __GFP_NOWARN : GFP_KERNEL);
	if (!aio)
		return flags & IOCB_NOWAIT ? -EAGAIN : -ENOMEM;
	refcount_set(&aio->ref, 2);
	aio->upper = iocb;
	kiocb_clone(&aio->lower, iocb, get_file(lower));
	aio->lower.ki_flags = flags;
	aio->lower.ki_complete = ppc_aio_complete;
	ret = lower->f_op->read_iter(&aio->lower, to);
	if (ret != -EIOCBQUEUED)
		ppc_aio_done(aio);
	ppc_aio_put(aio);
	return ret;
}

int ppc_aio_cache_init(void)
{
	ppc_aio_cache = KMEM_CACHE(ppc_aio, SLAB_ACCOUNT);
	return ppc_aio_cache ? 0 : -ENOMEM;
}

void ppc_aio_cache_exit(void)
{
	kmem_cache_destroy(ppc_aio_cache);
}
