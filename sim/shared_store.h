// SPDX-License-Identifier: Apache-2.0
// Owns what is wrong with the directory where nodes share templates: whose server answers late, or
// goes away while something is written to it.
//
// The directory is a real one and the policy's calls are made in no simulated time: each one that
// opens, makes or renames something there is seen by inotify, and is what an answer took so long
// for.  What is cut is cut by the limit of a file's size, whose signal comes in the midst of the
// write.
// Threads: one; one such store at a time goes away.
#ifndef PPC_SIM_SHARED_STORE_H_
#define PPC_SIM_SHARED_STORE_H_

#include <cstdint>
#include <set>
#include <string>

#include "daemon/base/unique_fd.h"
#include "daemon/exec/job_queue.h"
#include "sim/fiber.h"
#include "sim/scenario.h"

namespace ppc::sim {

class SharedStore {
 public:
  struct Options {
    uint64_t late_ns = 0;     // each answer
    uint64_t lost_after = 0;  // goes away when so many bytes of a file are written; 0: never
  };
  SharedStore(Scheduler* scheduler, std::string directory, const Options& options);
  ~SharedStore();
  SharedStore(const SharedStore&) = delete;
  SharedStore& operator=(const SharedStore&) = delete;

  JobQueue::Pace Pace();
  uint64_t waited_ns() const { return waited_ns_; }

 private:
  void Begin();
  bool GoesOn();
  void Watch();
  uint64_t Answers();

  Scheduler* const scheduler_;
  const std::string directory_;
  const Options options_;
  UniqueFd watch_;
  std::set<std::string> watched_;
  uint64_t end_ns_ = 0;  // of what the worker waits for
  uint64_t waited_ns_ = 0;
};

// The names and contents of all templates below a directory.
std::string TemplatesIn(const std::string& directory);
// Gives a policy whose templates are there the store that its scenario tells of.
bool ShareTemplates(const std::string& templates, const std::string& store, System* system);

// What one that went away has of files that were being written, and how it is there again.
double CutFilesIn(const std::string& store);
void ComeBack(const std::string& store);

// Against those that were put there: they differ in their number at most.
struct StoredTemplates {
  double whole = 0;
  double torn = 0;
};
StoredTemplates TemplatesInStore(const std::string& store, const std::string& templates);

}  // namespace ppc::sim

#endif  // PPC_SIM_SHARED_STORE_H_
