// SPDX-License-Identifier: Apache-2.0
// The application's side of ppcdev: one open file at a time and its mapping.
#pragma once

#include <string>
#include <vector>

#include "script.h"

namespace ppc::test {

class App {
 public:
  App() = default;
  ~App();
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  // Runs an application command.  *known says whether the verb is one.
  Outcome Run(const Words& words, bool* known);

 private:
  Outcome Open(const Words& words);
  Outcome Read(const Words& words);
  Outcome Mmap(const Words& words);
  Outcome Touch(const Words& words);
  Outcome MapSum(const Words& words);
  Outcome Mincore();
  Outcome Advise(const Words& words);
  Outcome Seek(const Words& words);
  Outcome Splice(const Words& words);
  Outcome Mprotect(const Words& words);
  Outcome Bind(const Words& words);
  Outcome Munmap();
  Outcome Close();

  int fd_ = -1;
  char* map_ = nullptr;
  size_t map_bytes_ = 0;
};

}  // namespace ppc::test
