// SPDX-License-Identifier: Apache-2.0
// Mounts of the module, its counters, what it left behind.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <sstream>

#include "attack.h"

namespace ppc::attack {

int Mount(const std::string& base, const std::string& mnt, const std::string& options) {
  return mount(base.c_str(), mnt.c_str(), "ppc", 0, options.c_str()) ? errno : 0;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteText(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

int DeviceOf(const std::string& mnt) {
  struct stat status {};
  if (stat(mnt.c_str(), &status)) return -1;
  const std::string want =
      std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev)) + "\n";
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir("/sys/fs/ppc"), closedir);
  if (!dir) return -1;
  while (const dirent* entry = readdir(dir.get())) {
    const std::string name = entry->d_name;
    if (name[0] != '.' && ReadText("/sys/fs/ppc/" + name + "/dev") == want) return std::stoi(name);
  }
  return -1;
}

uint64_t Counter(int device, const std::string& name) {
  return std::strtoull(ReadText("/sys/fs/ppc/" + std::to_string(device) + "/" + name).c_str(),
                       nullptr, 10);
}

long SlabObjects(const std::string& cache) {
  // Free objects in per-CPU slabs count as used until they are given back.
  WriteText("/sys/kernel/slab/" + cache + "/shrink", "1");
  std::ifstream slabinfo("/proc/slabinfo");
  std::string line;
  while (std::getline(slabinfo, line)) {
    std::istringstream words(line);
    std::string name;
    long used = 0;
    if (words >> name >> used && name == cache) return used;
  }
  return -1;
}

bool NothingLeft(const char* when) {
  long inodes = 0, opens = 0;
  // Inodes are freed by RCU callbacks, lower files by a work item.
  for (int tries = 0; tries < 100; ++tries) {
    inodes = SlabObjects("ppc_inode");
    opens = SlabObjects("ppc_open");
    if (inodes == 0 && opens == 0) return true;
    usleep(100000);
  }
  std::printf("FAIL: %s: %ld inodes and %ld open files of the module are left\n", when, inodes,
              opens);
  return false;
}

}  // namespace ppc::attack
