/* SPDX-License-Identifier: Apache-2.0 */
/* A policy that was built with the header of another version. */
#include <stdint.h>

__attribute__((visibility("default"))) extern const uint32_t ppc_policy_abi;
__attribute__((visibility("default"))) void *register_policy(void);

const uint32_t ppc_policy_abi = 999;

void *register_policy(void)
{
	return (void *)8; /* must not even be called */
}
