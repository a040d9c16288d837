// SPDX-License-Identifier: Apache-2.0
// Asks a file or directory everything a read-only file system can be asked and prints the answers,
// so that those of two paths can be compared as text.
// usage: ppc-answers QUESTION PATH [ARGUMENT]      (questions: the table below)
#include "answers.h"

namespace ppc::test {

namespace {

struct Question {
  const char* name;
  Ask* ask;
};

constexpr Question kQuestions[] = {
    {"statx", Statx},         {"mountid", MountId},     {"attributes", Attributes},
    {"ioctls", Ioctls},       {"fiemap", Fiemap},       {"seek", Seek},
    {"directory", Directory}, {"handle", NameToHandle}, {"openhandle", OpenHandle},
    {"locks", Locks},         {"leases", Leases},       {"source", Source},
    {"copyrange", CopyRange}, {"cached", Cached},       {"async", Async},
    {"seals", Seals},
};

int Main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: ppc-answers QUESTION PATH [ARGUMENT]\n");
    return 2;
  }
  for (const Question& question : kQuestions) {
    if (question.name == std::string(argv[1]))
      return question.ask(argv[2], argc > 3 ? argv[3] : "");
  }
  std::fprintf(stderr, "ppc-answers: unknown question '%s'\n", argv[1]);
  return 2;
}

}  // namespace

}  // namespace ppc::test

int main(int argc, char** argv) { return ppc::test::Main(argc, argv); }
