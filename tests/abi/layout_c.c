/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface headers as C11: each compiles first and alone, and has the
 * layout that was published.
 */
#include "ppc/uapi.h"

#include "ppc.h"
#include "ppc/control.h"
#include "tests/abi/layout.h"

#include "tests/abi/policy_layout.inc"
#include "tests/abi/uapi_layout.inc"

ABI_ASSERT(PPC_POLICY_ABI == 1u);
ABI_ASSERT(PPC_UAPI_VERSION == 1);

/* A C source takes part in the link too: all calls have C names. */
int ppc_abi_from_c(void);
int ppc_abi_from_c(void)
{
	return (int)ppc_policy_abi;
}

struct ppc_operation *register_policy()
{
	return NULL;
}
