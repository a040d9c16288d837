/* SPDX-License-Identifier: Apache-2.0 */
/* A policy whose ppc_control waits until the FIFO $PPC_TEST_FENCE has been opened and closed. */
#include <fcntl.h>
#include <ppc.h>
#include <stdlib.h>
#include <unistd.h>

static const char *control(const char *json) {
  const int fd = open(getenv("PPC_TEST_FENCE"), O_RDONLY | O_CLOEXEC);
  char byte;

  (void)json;
  while (fd >= 0 && read(fd, &byte, 1) > 0) {
  }
  close(fd);
  return "{}";
}

static const struct ppc_operation table = {.ppc_control = control};

struct ppc_operation *register_policy(void) {
  return (struct ppc_operation *)&table;
}
