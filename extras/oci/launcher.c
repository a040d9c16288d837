// SPDX-License-Identifier: Apache-2.0
// ppc-oci-hook: the program that an OCI runtime calls.  A runtime fails a container if its hook
// fails, and waits for a hook that hangs.  So this program starts the worker, which does the work,
// waits for a limited time, then kills it, and reports success in any case.  Only a container with
// ppc.required=true is failed, and only before its start.
//
// Static and in one file: no library, no allocation, no name service that could be missing or
// block.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int kDefaultTimeoutMs = 1000;
static const int kMaxTimeoutMs = 60000;

static char state[1 << 20];  // of the container, from the runtime
static char text[1024];      // output of the worker

static long long NowMs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static int Left(long long deadline) {
  const long long left = deadline - NowMs();
  return left > 0 ? (int)left : 0;
}

// The effect on the container.
enum Fate { kGoesOn, kIsFailed, kHasEnded };
static const char* const kFates[] = {
    "the container goes on without PPC",
    "the container needs PPC (ppc.required) and is not started",
    "ppcd ends its service by itself",
};

// Writes one line to the runtime's messages and to the system log; waits for neither.
static void Say(const char* trouble, enum Fate fate) {
  char line[sizeof(text) + 256];
  const int length = snprintf(line, sizeof(line), "<%d>ppc-oci-hook: %s; %s\n",
                              fate == kIsFailed ? 3 : 4, trouble, kFates[fate]);
  const size_t bytes = length < (int)sizeof(line) ? (size_t)length : sizeof(line) - 1;
  (void)!write(STDERR_FILENO, line + 3, bytes - 3);
  const int log = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const struct sockaddr_un address = {AF_UNIX, "/dev/log"};
  (void)sendto(log, line, bytes - 1, MSG_NOSIGNAL, (const struct sockaddr*)&address,
               sizeof(address));
}

// Returns the bytes read, -1 if the time ended first.
static ssize_t ReadAll(int fd, char* to, size_t size, long long deadline) {
  size_t got = 0;
  while (got < size) {
    struct pollfd waiting = {fd, POLLIN, 0};
    const int ready = poll(&waiting, 1, Left(deadline));
    if (ready == 0) return -1;
    const ssize_t bytes = read(fd, to + got, size - got);
    if (bytes < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (bytes <= 0) break;
    got += (size_t)bytes;
  }
  return (ssize_t)got;
}

// Whether the state has this member with this text, at any depth.  `key` includes its quotes;
// inside another string they would be escaped.
static bool HasMember(const char* key, const char* value) {
  for (const char* at = state; (at = strstr(at, key)) != NULL;) {
    const bool is_text = at > state && at[-1] == '\\';
    at += strlen(key);
    at += strspn(at, " \t\r\n");
    if (is_text || *at++ != ':') continue;
    at += strspn(at, " \t\r\n");
    if (strncmp(at, value, strlen(value)) == 0) return true;
  }
  return false;
}

// The worker reads the state from a file in memory, so that a hanging worker does not hold the
// runtime's pipes open.
static int StateFile(size_t bytes) {
  const int file = memfd_create("oci-state", MFD_CLOEXEC);
  if (file < 0) return -1;
  for (size_t done = 0; done < bytes;) {
    const ssize_t written = write(file, state + done, bytes - done);
    if (written <= 0) return -1;
    done += (size_t)written;
  }
  lseek(file, 0, SEEK_SET);
  return file;
}

static _Noreturn void RunWorker(const char* worker, int timeout_ms, int input, int output,
                                pid_t parent) {
  char timeout[16];
  snprintf(timeout, sizeof(timeout), "%d", timeout_ms);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  setpgid(0, 0);
  dup2(input, STDIN_FILENO);
  dup2(output, STDERR_FILENO);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) dup2(nowhere, STDOUT_FILENO);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  char* const words[] = {(char*)worker, timeout, NULL};
  execv(worker, words);
  dprintf(STDERR_FILENO, "%s: %s\n", worker, strerror(errno));
  _exit(127);
}

// NULL: success; else the problem.
static const char* Work(const char* worker, size_t state_bytes, long long deadline) {
  sigset_t child_ends;
  sigemptyset(&child_ends);
  sigaddset(&child_ends, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_ends, NULL);
  int words[2];
  const int input = StateFile(state_bytes);
  if (input < 0 || pipe2(words, O_CLOEXEC | O_NONBLOCK) != 0) return strerror(errno);
  const int timeout_ms = Left(deadline);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return strerror(errno);
  if (pid == 0) RunWorker(worker, timeout_ms, input, words[1], parent);
  close(words[1]);
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    const int left = Left(deadline);
    const struct timespec limit = {left / 1000, left % 1000 * 1000000L};
    if (sigtimedwait(&child_ends, NULL, &limit) >= 0 || errno == EINTR) continue;
    if (Left(deadline) > 0) continue;
    // Not waited for: a process blocked by a dead file server does not even die.
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL);
    snprintf(text, sizeof(text), "%s took more than its time", worker);
    return text;
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return NULL;
  const ssize_t said = read(words[0], text, sizeof(text) - 1);
  text[said > 0 ? said : 0] = '\0';
  text[strcspn(text, "\n")] = '\0';
  if (WIFSIGNALED(status))
    snprintf(text, sizeof(text), "%s was killed by signal %d", worker, WTERMSIG(status));
  else if (said <= 0)
    snprintf(text, sizeof(text), "%s ended with status %d", worker, WEXITSTATUS(status));
  return text;
}

// Beside this program, as in a build; else the installed one.
static const char* FindWorker(void) {
  static char path[4096];
  static const char name[] = "ppc-oci-worker";
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - sizeof(name));
  char* slash = bytes > 0 ? (path[bytes] = '\0', strrchr(path, '/')) : NULL;
  if (slash != NULL) memcpy(slash + 1, name, sizeof(name));
  return slash != NULL && access(path, X_OK) == 0 ? path : PPC_OCI_WORKER;
}

// For users; a runtime uses neither option.
static bool IsAnswered(const char* option) {
  const bool is_help = strcmp(option, "--help") == 0 || strcmp(option, "-h") == 0;
  if (is_help)
    puts("usage: ppc-oci-hook [--timeout-ms N] [--worker FILE] <STATE; see man 8 ppc-oci-hook");
  if (strcmp(option, "--version") != 0) return is_help;
  puts("ppc-oci-hook " PPC_VERSION);
  return true;
}

int main(int argc, char** argv) {
  if (argc == 2 && IsAnswered(argv[1])) return 0;
  const char* worker = NULL;
  int timeout_ms = kDefaultTimeoutMs;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--worker") == 0 && i + 1 < argc)
      worker = argv[++i];
    else if (strcmp(argv[i], "--timeout-ms") == 0 && i + 1 < argc)
      timeout_ms = atoi(argv[++i]);
  }
  if (timeout_ms <= 0 || timeout_ms > kMaxTimeoutMs) timeout_ms = kDefaultTimeoutMs;
  signal(SIGPIPE, SIG_IGN);
  const long long deadline = NowMs() + timeout_ms;
  const ssize_t bytes = ReadAll(STDIN_FILENO, state, sizeof(state) - 1, deadline);
  const bool is_required = HasMember("\"ppc.required\"", "\"true\"");
  const enum Fate fate = HasMember("\"status\"", "\"stopped\"") ? kHasEnded
                         : is_required                          ? kIsFailed
                                                                : kGoesOn;
  const char* trouble = bytes < 0
                            ? "the runtime did not write the container's state"
                            : Work(worker != NULL ? worker : FindWorker(), (size_t)bytes, deadline);
  if (trouble != NULL) Say(trouble, fate);
  return trouble != NULL && fate == kIsFailed ? 1 : 0;
}
