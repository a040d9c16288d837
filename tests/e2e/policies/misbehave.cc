// SPDX-License-Identifier: Apache-2.0
// A policy that does what its config's "do" says: "refuse", "throw-init" or "ask" (the kernel for
// what no policy needs) in ppc_init; "throw", "hang", "crash" or "nonsense" in ppc_prefetch;
// "exit-throw", "exit-hang" or "exit-crash" in ppc_exit.
#include <ppc.h>
#include <sys/personality.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

namespace {

const char* g_config = "";

bool Is(const char* what) { return std::strstr(g_config, what) != nullptr; }

int Init(void* argument) {
  g_config = static_cast<ppc_context*>(argument)->config;
  if (Is("\"throw-init\"")) throw std::runtime_error("thrown in ppc_init");
  // It asks for nothing and succeeds everywhere.
  if (Is("\"ask\"") && personality(0xffffffff) < 0) return -errno;
  return Is("\"refuse\"") ? -22 : 0;
}

void Hang() {
  for (;;) asm volatile("");  // a loop without effect may be left out
}

int Exit() {
  if (Is("\"exit-throw\"")) throw std::runtime_error("thrown in ppc_exit");
  if (Is("\"exit-crash\"")) raise(SIGSEGV);
  if (Is("\"exit-hang\"")) Hang();
  return 0;
}

prefetch_ios* Prefetch(miss_io* miss) {
  static ppc_io io;
  static prefetch_ios list;
  if (Is("\"throw\"")) throw std::runtime_error("thrown in ppc_prefetch");
  if (Is("\"crash\"")) raise(SIGSEGV);
  if (Is("\"hang\"")) Hang();
  io = {};
  io.path = miss->path;
  list = {1, 0, &io};
  // More entries than any list may have, at an address that is none.
  if (Is("\"nonsense\"")) list = {0xffffffffU, 0xffffffffU, reinterpret_cast<ppc_io*>(8)};
  io.size = 1 << 20;
  return &list;
}

ppc_operation g_table = {Init, Exit, Prefetch, nullptr};

}  // namespace

extern "C" PPC_EXPORT ppc_operation* register_policy() { return &g_table; }
