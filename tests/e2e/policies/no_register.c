/* SPDX-License-Identifier: Apache-2.0 */
/* Built with the right header, but without register_policy. */
#include <ppc.h>

PPC_EXPORT int register_polcy(void);

int register_polcy(void)
{
	return 0;
}
