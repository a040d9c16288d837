/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On which node will a service start soonest?  (libppc)
 *
 *   struct ppc_place_node nodes[2] = {
 *     {.size = sizeof(nodes[0]), .model_bytes = 140e9, .resident_bytes = 140e9, .disk_rate = 3e9},
 *     {.size = sizeof(nodes[0]), .model_bytes = 140e9, .disk_rate = 3e9}};
 *   ppc_place_best(nodes, 2, NULL) == 0
 *
 * A control plane fills one struct per node with what it knows, however old, and calls
 * ppc_place_best(), or ppc_place_score() for a score that it combines with its own.  A node's score
 * is the least time of a start there, by the bytes that its disk still has to read, plus the cost
 * to other start-ups and models.
 *
 * Units: bytes, bytes per second, seconds.  Unknown values are 0 unless noted otherwise.
 * Ownership: nothing is kept or allocated; all memory is the caller's.
 * Threads: any; pure functions.
 * Returns: 0 (ppc_place_best: an index) or a negative errno.  -EINVAL: a pointer is NULL, `size` is
 * smaller than PPC_PLACE_NODE_SIZE_1, or a time is negative or not finite.  -ENOENT: no node can
 * start it.
 */
#ifndef PPC_PLACE_H
#define PPC_PLACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef PPC_API
#define PPC_API __attribute__((visibility("default")))
#endif

/* ppc_place_node.flags */
#define PPC_PLACE_TEMPLATE 1u  /* the node knows in which order the service reads */
#define PPC_PLACE_ARTIFACTS 2u /* it has an earlier start's compiled code */
#define PPC_PLACE_GONE 4u      /* it must not be chosen */

/* ppc_place_result.reasons */
#define PPC_PLACE_WHY_GONE 1u		/* left out: PPC_PLACE_GONE */
#define PPC_PLACE_WHY_NO_MODEL 2u	/* left out: model_bytes is 0, the node has no such model */
#define PPC_PLACE_WHY_WARM 4u		/* nothing is missing */
#define PPC_PLACE_WHY_COLD 8u		/* everything is missing */
#define PPC_PLACE_WHY_NO_TEMPLATE 16u	/* read ahead by headers, not by a recording */
#define PPC_PLACE_WHY_COMPILES 32u	/* compile_s is added */
#define PPC_PLACE_WHY_DISK_UNKNOWN 64u	/* the others' mean rate stands for its own,
					 * or PPC_PLACE_USUAL_DISK_RATE */
#define PPC_PLACE_WHY_BUSY 128u		/* other start-ups share the disk */
#define PPC_PLACE_WHY_NO_ROOM 256u	/* the model does not fit: the rest is read twice */
#define PPC_PLACE_WHY_PUSHES_OUT 512u	/* other models would leave the page cache for it */
#define PPC_PLACE_WHY_OUT 3u		/* the reasons that leave a node out */

#define PPC_PLACE_USUAL_DISK_RATE 1000000000ull
#define PPC_PLACE_NO_LIMIT UINT64_MAX

/* One node, and the model that is to start. */
struct ppc_place_node {
	uint32_t size;		 /* sizeof(struct ppc_place_node), for structs of later releases */
	uint32_t flags;		 /* PPC_PLACE_... */
	uint64_t model_bytes;	 /* read by a start; 0: the node does not have the model */
	uint64_t resident_bytes; /* of these, in the page cache; capped at model_bytes */
	uint64_t memory_bytes;	 /* page cache that the model may use; 0: not known */
	uint64_t free_bytes;	 /* of it, without evicting another model; 0 is none,
				  * PPC_PLACE_NO_LIMIT: not known */
	uint64_t disk_rate;	 /* seen in earlier loads; 0: none yet */
	uint64_t busy_bytes;	 /* left to read for start-ups of other models; 0 with
				  * busy_starts: not known, each counts as this one */
	uint32_t busy_starts;	 /* those start-ups; not those of this model, which share
				  * its reads */
	uint32_t tie;		 /* decides between nodes of the same score, see ppc_place_tie() */
	double compile_s;	 /* added to a start without artefacts; 0: not known */
};
#define PPC_PLACE_NODE_SIZE_1 72u /* of the first release */

struct ppc_place_result {
	double start_s; /* least time of a start-up there, without initialization */
	double score_s; /* start_s plus the cost to others; the least is the best */
	uint32_t reasons;
	uint32_t reserved;
};

/* A node that is left out has an infinite score; that is no error. */
PPC_API int ppc_place_score(const struct ppc_place_node *node, struct ppc_place_result *score);

/* Returns the node with the least score; between equal ones the greatest `tie` decides, then the
 * first.  nodes: `count` of them, of one `size`; scores: NULL, or room for as many. */
PPC_API long ppc_place_best(const struct ppc_place_node *nodes, size_t count,
			    struct ppc_place_result *scores);

/* Every caller gets the same value for a model and a node.  So independent control planes start a
 * model that is cold everywhere on the same node, and different models on different nodes.
 * Names end with a NUL; NULL is "". */
PPC_API uint32_t ppc_place_tie(const char *model, const char *node);

#ifdef __cplusplus
}
#endif

#endif /* PPC_PLACE_H */
