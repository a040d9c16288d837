// SPDX-License-Identifier: Apache-2.0
// ppcdev: runs commands given as arguments, one argument each, in one process:
// it speaks the ioctls of /dev/ppcN, reads the rings, and reads or maps files
// as an application would.  Results are lines "VERB NAME=VALUE ...".
//
//   ppcdev 'dev /dev/ppc0' 'attach managed' 'open /mnt/m/a' 'read 0 1M' events
//
// "!ERRNO COMMAND" expects a failure (ENAME or number); an unexpected outcome
// ends the run with status 1.  "dev PATH" and "use N" switch descriptors.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <thread>

#include "app.h"
#include "device.h"
#include "script.h"

namespace ppc::test {

namespace {

class Interpreter {
 public:
  // Returns 0 or the errno of the command.
  Outcome Run(const std::string& line) {
    const Words words(line);
    if (words.empty()) return 0;
    const std::string& verb = words.verb();
    if (verb == "dev") return OpenDevice(words.Text(1));
    if (verb == "use") return current_ = words.Number(1), 0;
    if (verb == "undev") return devices_.at(current_).reset(), 0;
    if (verb == "sleep") return Sleep(words.Number(1));
    if (verb == "alarm") return Alarm(words.Number(1));
    if (verb == "sh") return Shell(line.substr(3));
    if (verb == "cost") return Cost();
    if (verb == "say") return std::printf("%s\n", line.substr(4).c_str()), 0;
    if (verb == "fork") return Fork(line.substr(5));
    if (verb == "thread") return Thread(line.substr(7));
    if (verb == "join") return Join();
    bool known = false;
    Outcome outcome = app_.Run(words, &known);
    if (known) return outcome;
    if (current_ >= devices_.size() || !devices_[current_]) return ENOTCONN;
    outcome = devices_[current_]->Run(words, &known);
    if (known) return outcome;
    std::fprintf(stderr, "ppcdev: unknown command '%s'\n", line.c_str());
    std::exit(2);
  }

 private:
  Outcome OpenDevice(const std::string& path) {
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) return errno;
    devices_.push_back(std::make_unique<Device>(fd));
    current_ = devices_.size() - 1;
    return 0;
  }

  static Outcome Sleep(uint64_t milliseconds) {
    usleep(static_cast<useconds_t>(milliseconds * 1000));
    return 0;
  }

  // A signal after so long: it interrupts what can be interrupted and does nothing else.
  static Outcome Alarm(uint64_t milliseconds) {
    struct sigaction nothing {};
    nothing.sa_handler = [](int) {};
    itimerval timer{};
    timer.it_value.tv_sec = static_cast<time_t>(milliseconds / 1000);
    timer.it_value.tv_usec = static_cast<suseconds_t>(milliseconds % 1000 * 1000);
    const bool is_set =
        sigaction(SIGALRM, &nothing, nullptr) == 0 && setitimer(ITIMER_REAL, &timer, nullptr) == 0;
    return is_set ? 0 : errno;
  }

  // What this process has taken since the last time: CPU time (in a guest of `tools/vm --icount`
  // instructions) and page faults.
  Outcome Cost() {
    timespec now{};
    rusage usage{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    getrusage(RUSAGE_SELF, &usage);
    const int64_t ns = now.tv_sec * 1000000000L + now.tv_nsec;
    const int64_t faults = usage.ru_minflt + usage.ru_majflt;
    std::printf("cost ns=%ld faults=%ld\n", ns - cost_ns_, faults - cost_faults_);
    cost_ns_ = ns;
    cost_faults_ = faults;
    return 0;
  }

  static Outcome Shell(const std::string& command) {
    std::fflush(stdout);
    const int status = std::system(command.c_str());
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EPROTO;
  }

  // Runs one command in a child with everything inherited, and waits for it.
  Outcome Fork(const std::string& line) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      const Outcome outcome = Run(line);
      std::fflush(stdout);
      _exit(outcome ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status ? EPROTO : 0;
  }

  // Runs one command in another thread until "join".
  Outcome Thread(const std::string& line) {
    threads_.emplace_back([this, line] {
      // A child of "sh" or "fork" that ends beside it must not stop what this thread does.
      sigset_t child;
      sigemptyset(&child);
      sigaddset(&child, SIGCHLD);
      pthread_sigmask(SIG_BLOCK, &child, nullptr);
      if (const Outcome outcome = Run(line)) {
        std::printf("thread error=%s\n", strerrorname_np(outcome));
      }
      std::fflush(stdout);
    });
    return 0;
  }

  Outcome Join() {
    threads_.clear();
    return 0;
  }

  int64_t cost_ns_ = 0, cost_faults_ = 0;
  std::vector<std::unique_ptr<Device>> devices_;
  size_t current_ = 0;
  App app_;
  std::vector<std::jthread> threads_;
};

// Splits "!ERRNO COMMAND"; *expected becomes "" when none is given.
std::string Expectation(const std::string& line, std::string* expected) {
  expected->clear();
  if (line.empty() || line[0] != '!') return line;
  const size_t blank = line.find(' ');
  *expected = line.substr(1, blank - 1);
  return line.substr(blank + 1);
}

bool Matches(Outcome outcome, const std::string& expected) {
  if (expected.empty()) return outcome == 0;
  const char* name = outcome ? strerrorname_np(outcome) : "0";
  return name && expected == name;
}

}  // namespace

int Main(int argc, char** argv) {
  Interpreter interpreter;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (int i = 1; i < argc; ++i) {
    std::string expected;
    const std::string line = Expectation(argv[i], &expected);
    const Outcome outcome = interpreter.Run(line);
    if (!Matches(outcome, expected)) {
      std::fprintf(stderr, "ppcdev: '%s': %s, expected %s\n", line.c_str(),
                   outcome ? strerrorname_np(outcome) : "success",
                   expected.empty() ? "success" : expected.c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace ppc::test

int main(int argc, char** argv) { return ppc::test::Main(argc, argv); }
