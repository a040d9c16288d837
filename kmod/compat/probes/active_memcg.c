// SPDX-License-Identifier: GPL-2.0-only
/* 5.10 charges page cache to the current task only; 5.18 looks at the active memcg. */
#include <linux/memcontrol.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>

struct mem_cgroup *probe(struct mem_cgroup *memcg, struct folio *folio);
struct mem_cgroup *probe(struct mem_cgroup *memcg, struct folio *folio)
{
	if (mem_cgroup_charge(folio, NULL, GFP_KERNEL))
		return NULL;
	return set_active_memcg(memcg);
}
