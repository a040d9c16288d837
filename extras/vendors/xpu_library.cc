// SPDX-License-Identifier: Apache-2.0
#include "extras/vendors/xpu_library.h"

#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "daemon/base/files.h"
#include "daemon/base/json.h"
#include "daemon/xpu/vendor_xpus.h"

namespace ppc {
namespace xpu_library {

Result<Handle> Open(const std::string& file) {
  Handle library(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (library) return library;
  const char* why = dlerror();
  return Error{ENOENT, why != nullptr ? why : file + " cannot be loaded"};
}

std::string Bdf(unsigned domain, unsigned bus, unsigned device, unsigned function) {
  char text[40];
  std::snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", domain, bus, device, function);
  return text;
}

}  // namespace xpu_library

namespace {

constexpr unsigned kLifeSeconds = 60;  // ends this process if its parent is gone

struct Library {
  const char* name;
  const char* variable;  // holds the library's file name
  std::vector<std::string> files;
  Result<XpuListing> (*ask)(const std::string& file);
};

std::vector<Library> Libraries() {
  return {{kNvmlName, "PPC_NVML_LIBRARY", {"libnvidia-ml.so.1"}, AskNvml},
          {kDcmiName,
           "PPC_DCMI_LIBRARY",
           {"libdcmi.so", "/usr/local/dcmi/libdcmi.so",
            "/usr/local/Ascend/driver/lib64/driver/libdcmi.so"},
           AskDcmi}};
}

// Device files of NVIDIA are open to every user, those of Ascend to root only.
Status DropEverything() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2]{};
  if (syscall(SYS_capset, &header, none) != 0) return PosixError("capset", errno);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return PosixError("no_new_privs", errno);
  const rlimit no_core{0, 0};
  if (setrlimit(RLIMIT_CORE, &no_core) != 0) return PosixError("setrlimit", errno);
  return Ok();
}

Result<XpuListing> Ask(const std::string& name) {
  const Status dropped = DropEverything();
  if (!dropped) return dropped.error();
  for (Library& library : Libraries()) {
    if (library.name != name) continue;
    const char* named = std::getenv(library.variable);
    if (named != nullptr) library.files = {named};
    Result<XpuListing> listing = Error{ENOENT, "has no file"};
    for (const std::string& file : library.files) {
      listing = library.ask(file);
      if (listing || listing.error().code != ENOENT) break;
    }
    return listing;
  }
  return Error{EINVAL, "no library is called " + name};
}

}  // namespace

// Gives up all privileges and asks.  $PPC_NVML_LIBRARY and $PPC_DCMI_LIBRARY name the files.
int AskXpuLibrary(const std::string& library) {
  prctl(PR_SET_NAME, "ppc-xpus");
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(kLifeSeconds);
  // The library is not trusted: of the runner's descriptors it gets only the answer's.
  CloseFrom(kAnswerFd + 1);
  const Result<XpuListing> listing = Ask(library);
  Json answer = Json::object();
  if (!listing) {
    answer["error"] = listing.error().message;
  } else {
    answer["silent"] = listing->silent;
    answer["devices"] = Json::array();
    for (const XpuUse& use : listing->devices) {
      answer["devices"].push_back({{"bdf", use.bdf}, {"uuid", use.uuid}, {"pids", use.pids}});
    }
  }
  const std::string text = DumpJson(answer);
  const Status written = WriteAll(kAnswerFd, text.data(), text.size());
  // Not exit(): the library's exit handlers may hang.
  _exit(written ? 0 : 1);
}

}  // namespace ppc
