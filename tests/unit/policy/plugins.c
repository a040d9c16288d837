/* SPDX-License-Identifier: Apache-2.0 */
/* Small policy libraries, one wrong in one way each; see CMakeLists.txt. */
#ifndef PLUGIN_NO_ABI
#ifdef PLUGIN_OTHER_ABI
#define ppc_policy_abi header_policy_abi
#include <ppc.h>
#undef ppc_policy_abi
PPC_EXPORT const uint32_t ppc_policy_abi = PPC_POLICY_ABI + 1;
#else
#include <ppc.h>
#endif
#endif

#ifdef PLUGIN_GOOD
static int init(void* arg) {
  const struct ppc_context* context = arg;

  return context->size == sizeof(*context) ? 0 : -1;
}

static const struct ppc_operation table = {.ppc_init = init};

struct ppc_operation* register_policy(void) {
  return (struct ppc_operation*)&table;
}
#endif

#ifdef PLUGIN_NULL_TABLE
struct ppc_operation* register_policy(void) {
  return NULL;
}
#endif

#ifdef PLUGIN_OTHER_ABI
struct ppc_operation* register_policy(void) {
  return NULL;
}
#endif

#ifdef PLUGIN_NO_ABI
__attribute__((visibility("default"))) void* register_policy(void);
void* register_policy(void) { return 0; }
#endif
