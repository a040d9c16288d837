// SPDX-License-Identifier: Apache-2.0
// Owns faults of the directory where nodes share templates: its server answers late, or goes away
// during a write.
//
// The directory is real, and the policy's calls take no simulated time: inotify reports each call
// that opens, makes or renames something there, and each report costs one answer's time.  The file
// size limit cuts a write, and its signal comes in mid-write.
// Threads: one; at most one such store at a time goes away.
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
    uint64_t lost_after = 0;  // goes away after this many bytes of a file; 0: never
  };
  SharedStore(Scheduler* scheduler, std::string directory, const Options& options);
  ~SharedStore();
  SharedStore(const SharedStore&) = delete;
  SharedStore& operator=(const SharedStore&) = delete;

  JobQueue::SimulatedDelay AnswerDelay();
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
  uint64_t end_ns_ = 0;  // end of the answer that the worker waits for
  uint64_t waited_ns_ = 0;
};

// The names and contents of all templates below a directory.
std::string TemplatesIn(const std::string& directory);
// Gives a policy with templates the store that its scenario describes.
bool ShareTemplates(const std::string& templates, const std::string& store, System* system);

// CutFilesIn counts files that a store left half-written when it went away; BringStoreBack undoes
// that.
double CutFilesIn(const std::string& store);
void BringStoreBack(const std::string& store);

// Compares with the templates stored first: they may differ in their number only.
struct StoredTemplates {
  double whole = 0;
  double torn = 0;
};
StoredTemplates TemplatesInStore(const std::string& store, const std::string& templates);

}  // namespace ppc::sim

#endif  // PPC_SIM_SHARED_STORE_H_
