// SPDX-License-Identifier: Apache-2.0
// See fake_host.h.
#include "tests/policy/fake_host.h"

#include <dlfcn.h>
#include <errno.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>
#include <utility>

namespace ppc::test {
namespace {

FakeHost* Self(const ppc_context* context) { return static_cast<FakeHost*>(context->host); }

const FakeFile* Find(FakeHost* host, const char* path, uint64_t* number) {
  for (auto& [id, file] : host->files) {
    if (file.path == path) {
      *number = id;
      return &file;
    }
  }
  const auto link = host->links.find(path);
  if (link != host->links.end()) {
    *number = link->second;
    return &host->files[link->second];
  }
  return nullptr;
}

int FileInfo(const ppc_context* context, const char* path, ppc_file_info* out) {
  uint64_t number = 0;
  if (Self(context)->late_answers > 0 && Self(context)->late_answers-- > 0) return -ETIMEDOUT;
  const FakeFile* file = Find(Self(context), path, &number);
  if (file == nullptr) return -ENOENT;
  *out = {};
  out->file = number;
  out->size = file->size;
  out->ino = number;
  out->mtime_ns = file->mtime_ns;
  return 0;
}

int FilePath(const ppc_context* context, uint64_t number, char* buf, size_t bytes) {
  auto it = Self(context)->files.find(number);
  if (it == Self(context)->files.end()) return -ESTALE;
  if (it->second.path.size() + 1 > bytes) return -ENAMETOOLONG;
  std::memcpy(buf, it->second.path.c_str(), it->second.path.size() + 1);
  return 0;
}

int64_t Read(const ppc_context* context, const char* path, uint64_t offset, void* buf,
             size_t size) {
  FakeHost* host = Self(context);
  host->reads++;
  uint64_t number = 0;
  const FakeFile* file = Find(host, path, &number);
  if (file == nullptr) return -ENOENT;
  if (offset >= file->size) return 0;
  size = std::min<uint64_t>(size, file->size - offset);
  std::memset(buf, 0, size);
  if (offset < file->head.size()) {
    std::memcpy(buf, file->head.data() + offset, std::min(size, file->head.size() - offset));
  }
  return static_cast<int64_t>(size);
}

int ListDir(const ppc_context* context, const char* path, int (*entry)(void*, const char*, char),
            void* arg) {
  std::string prefix = *path != '\0' ? std::string(path) + "/" : "";
  std::set<std::string> dirs;
  bool any = prefix.empty();
  std::vector<std::string> paths;
  for (auto& [number, file] : Self(context)->files) paths.push_back(file.path);
  for (auto& [name, number] : Self(context)->links) paths.push_back(name);
  for (const std::string& file : paths) {
    if (file.rfind(prefix, 0) != 0) continue;
    any = true;
    std::string rest = file.substr(prefix.size());
    size_t slash = rest.find('/');
    if (slash != std::string::npos) {
      if (!dirs.insert(rest.substr(0, slash)).second) continue;
      if (entry(arg, rest.substr(0, slash).c_str(), 'd') != 0) return 0;
    } else if (entry(arg, rest.c_str(), 'f') != 0) {
      return 0;
    }
  }
  return any ? 0 : -ENOENT;
}

}  // namespace

PolicyLibrary::PolicyLibrary(const std::string& path) {
  handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) throw std::runtime_error(dlerror());
  auto abi = static_cast<const uint32_t*>(dlsym(handle_, "ppc_policy_abi"));
  auto get = reinterpret_cast<ppc_operation* (*)()>(dlsym(handle_, "register_policy"));
  if (abi == nullptr || get == nullptr) throw std::runtime_error(path + ": not a policy");
  abi_ = *abi;
  ops_ = get();
}

PolicyLibrary::~PolicyLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

std::string PolicyPath(const std::string& name) {
  return std::string(PPC_TEST_POLICY_DIR) + "/libppc_" + name + ".so";
}

FakeHost::FakeHost() {
  memory.limit = 64ull << 30;
  memory.threshold = memory.limit / 5 * 4;
  memory.room = memory.threshold;
}

uint64_t FakeHost::AddFile(const std::string& path, uint64_t size, const std::string& head) {
  uint64_t number = files.size() + 1;
  files[number] = {path, size, 1, head.empty() ? path : head};
  return number;
}

miss_io FakeHost::Event(uint32_t kind, uint64_t file, uint64_t offset, uint64_t size, int pid) {
  miss_io e = {};
  e.path = files[file].path.c_str();
  e.file = file;
  e.offset = offset;
  e.size = size;
  e.pid = e.tid = pid;
  e.open_id = static_cast<uint32_t>(pid * 1000 + static_cast<int>(file));
  e.kind = kind;
  e.xpu = -1;
  e.service = 1;
  e.start_ns = 5;
  e.time_ns = now_ns;
  e.file_bytes = files[file].size;
  return e;
}

size_t FakeHost::RunBackground(size_t most) {
  size_t count = 0;
  for (; count < most && !is_background_held; ++count) {
    std::deque<BackgroundWork>& from =
        background.empty() && !is_remote_silent ? remote : background;
    if (from.empty()) break;
    const BackgroundWork next = from.front();
    from.pop_front();
    next.work(next.arg);
    if (next.done != nullptr) next.done(next.arg);
  }
  return count;
}

ppc_context* FakeHost::context() {
  context_ = {};
  context_.size = sizeof(context_);
  context_.caps = caps;
  context_.config = config_text_.c_str();
  context_.mount = "/mnt/fake";
  context_.template_dir = template_dir.c_str();
  context_.nr_nodes = nr_nodes;
  context_.nr_xpus = static_cast<int32_t>(xpu_nodes.size());
  context_.window_bytes = window_bytes;
  context_.beacon_bytes = beacon_bytes;
  context_.host = this;
  context_.log = [](const ppc_context* c, int, const char* text) { Self(c)->log.push_back(text); };
  context_.now_ns = [](const ppc_context* c) { return Self(c)->now_ns; };
  context_.want = [](const ppc_context* c, uint32_t w, uint64_t beacon) {
    Self(c)->want = w;
    if (beacon != 0) Self(c)->beacon_bytes = beacon;
    return 0;
  };
  context_.memory = [](const ppc_context* c, uint32_t, ppc_memory* out) {
    *out = Self(c)->memory;
    return 0;
  };
  context_.file_info = FileInfo;
  context_.file_path = FilePath;
  context_.resident = [](const ppc_context* c, uint64_t file, uint64_t offset, uint64_t size,
                         ppc_residency* out, uint8_t* bitmap, size_t bytes) {
    Self(c)->FindResident(file, offset, size, bitmap, bytes, out);
    return 0;
  };
  context_.read = Read;
  context_.xpu_node = [](const ppc_context* c, int32_t xpu) {
    const auto& nodes = Self(c)->xpu_nodes;
    return xpu >= 0 && static_cast<size_t>(xpu) < nodes.size() ? nodes[xpu] : -1;
  };
  context_.process_xpu = [](const ppc_context*, int32_t, uint64_t) { return -1; };
  context_.interrupt = [](const ppc_context* c, uint32_t group) {
    for (const uint32_t service : Self(c)->services) Self(c)->Interrupted(service, group);
  };
  context_.interrupt_of = [](const ppc_context* c, uint32_t service, uint32_t group) {
    Self(c)->Interrupted(service, group);
  };
  context_.file_native = [](const ppc_context* c, uint64_t file, int on) {
    Self(c)->native[file] = on;
    return 0;
  };
  context_.stat = [](const ppc_context* c, const char* name, uint64_t value) {
    Self(c)->stats[name] = value;
  };
  context_.trace = [](const ppc_context* c, const char* json) { Self(c)->traces.push_back(json); };
  context_.list_dir = ListDir;
  context_.background = [](const ppc_context* c, void (*work)(void*), void (*done)(void*),
                           void* arg) {
    if (Self(c)->is_closing) return -ESHUTDOWN;
    Self(c)->background.push_back({work, done, arg});
    return 0;
  };
  context_.background_remote = [](const ppc_context* c, void (*work)(void*), void (*done)(void*),
                                  void* arg) {
    if (Self(c)->is_closing) return -ESHUTDOWN;
    Self(c)->remote.push_back({work, done, arg});
    return 0;
  };
  context_.group_used = [](const ppc_context* c, uint32_t) { return Self(c)->memory.used; };
  context_.use_limit = [](const ppc_context* c, uint32_t, int on) {
    Self(c)->uses_limit = on != 0;
    return 0;
  };
  return &context_;
}

HostedPolicy::~HostedPolicy() { Exit(); }

int HostedPolicy::Init() {
  const int rc = ops().ppc_init(context());
  is_there_ = rc == 0;
  return rc;
}

int HostedPolicy::Exit() {
  if (!std::exchange(is_there_, false)) return 0;
  RunBackground();
  return ops().ppc_exit != nullptr ? ops().ppc_exit() : 0;
}

nlohmann::json HostedPolicy::Control(const nlohmann::json& message) {
  const std::string text = message.dump();
  const char* reply = ops().ppc_control(text.c_str());
  return reply != nullptr ? nlohmann::json::parse(reply) : nlohmann::json();
}

}  // namespace ppc::test
