/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Magic numbers of file systems, including those missing from linux/magic.h in
 * some or all kernels.
 */
#ifndef PPC_COMPAT_MAGIC_H
#define PPC_COMPAT_MAGIC_H

#include <linux/magic.h>

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC	0x65735546
#endif
#ifndef CIFS_SUPER_MAGIC
#define CIFS_SUPER_MAGIC	0xff534d42
#endif
#ifndef SMB2_SUPER_MAGIC
#define SMB2_SUPER_MAGIC	0xfe534d42
#endif
#ifndef CEPH_SUPER_MAGIC
#define CEPH_SUPER_MAGIC	0x00c36400
#endif
#define PPC_LUSTRE_MAGIC	0x0bd00bd0
#define PPC_ORANGEFS_MAGIC	0x20030528
#define PPC_BEEGFS_MAGIC	0x19830326
#define PPC_VBOXSF_MAGIC	0x786f4256

#endif /* PPC_COMPAT_MAGIC_H */
