// SPDX-License-Identifier: Apache-2.0
// ppcctl support-bundle: writes one file for support.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>

#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"
#include "extras/support/collect.h"
#include "tools/ppcctl/extra.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/program_options.h"
#include "tools/ppcctl/spec.h"
#include "tools/ppcctl/text.h"

namespace ppc::ctl {
namespace {

constexpr unsigned kBundleTimeoutMs = 3000;

std::string UsualName(std::time_t now) {
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 64> name{};
  std::strftime(name.data(), name.size(), "ppc-support-%Y%m%dT%H%M%SZ.tar.zst", &parts);
  return name.data();
}

// Overwrites no file and follows no link; a failed write leaves nothing behind.
Status WriteNew(const std::string& file, const std::string& data) {
  const UniqueFd fd(open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.IsValid()) return PosixError(file, errno);
  Status written = WriteAll(fd.Get(), data.data(), data.size());
  if (!written) unlink(file.c_str());
  return written;
}

}  // namespace

static int SupportBundle(const Args& args) {
  const Result<unsigned> timeout = ReadTimeoutMs(args, kBundleTimeoutMs);
  if (!timeout) return WrongUsage(timeout.error().message);
  const std::time_t now = std::time(nullptr);
  const std::string file = args.Get("--output", UsualName(now));
  const std::vector<BundleFile> files = BundleOf(Gather(*timeout));
  const Result<std::string> data = Compressed(TarOf(files, static_cast<uint64_t>(now)));
  if (!data) return Failed(data.error());
  if (const Status written = WriteNew(file, *data); !written) return Failed(written.error());
  if (WantsJson()) {
    Json names = Json::array();
    for (const BundleFile& each : files) names.push_back(each.name);
    PrintJson(
        {{"file", file}, {"bytes", data->size()}, {"files", names}, {"readme", files[0].text}});
  } else {
    std::printf("%s (%s)\n\n%s\nlook through it before it is sent: tar --zstd -xf %s\n",
                file.c_str(), HumanBytes(data->size()).c_str(), files[0].text.c_str(),
                ShellWord(file).c_str());
  }
  return kExitOk;
}

namespace {

constexpr std::array kBundleOptions = {
    Option{"--output", "FILE", "write it there; default ppc-support-TIME.tar.zst"}, kTimeout};

const std::array kSupportExtraVerbs = {
    cli::Verb{
        "support-bundle", "State", "",
        "Write the facts that help to find a fault into one file, for support.\n"
        "A tar archive, zstd, mode 0600: versions, status, metrics, doctor, the log's tail, file\n"
        "systems, control groups' limits, the names of templates.  No model, no environment;\n"
        "tokens, keys and passwords are removed; README.txt lists the missing parts.",
        kBundleOptions, SupportBundle},
};

}  // namespace

Extra SupportExtra() { return {.verbs = kSupportExtraVerbs}; }

}  // namespace ppc::ctl
