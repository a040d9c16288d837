// SPDX-License-Identifier: Apache-2.0
// What ppc-rival was asked to do.
// Threads: free functions without state.
#include "bench/rivals/config.h"

#include <cerrno>
#include <map>

namespace ppc::bench {
namespace {

constexpr uint64_t kMaxThreads = 64;
constexpr uint64_t kMaxBlock = 256 << 20;

Error Bad(const std::string& message) { return Error{EINVAL, message}; }

const std::map<std::string, RivalKind>& Kinds() {
  static const std::map<std::string, RivalKind> kinds{{"willneed", RivalKind::kWillNeed},
                                                      {"prefetch", RivalKind::kPrefetch},
                                                      {"window", RivalKind::kWindow},
                                                      {"direct", RivalKind::kDirect}};
  return kinds;
}

// Which options a kind has; anything else is refused rather than ignored.
const std::set<std::string>& OptionsOf(RivalKind kind) {
  static const std::map<RivalKind, std::set<std::string>> known{
      {RivalKind::kWillNeed, {"delay-s"}},
      {RivalKind::kPrefetch, {"delay-s", "ranks", "threads", "block"}},
      {RivalKind::kWindow, {"delay-s", "threads", "block", "window"}},
      {RivalKind::kDirect,
       {"workers", "threads", "chunk", "pool", "device-mbps", "init-s", "early"}}};
  return known.at(kind);
}

Status ReadCount(const Options& options, const std::string& name, uint32_t* out) {
  const Result<uint64_t> value = options.Number(name, *out);
  if (!value.ok()) return value.error();
  if (*value < 1 || *value > kMaxThreads)
    return Bad("--" + name + " must be between 1 and " + std::to_string(kMaxThreads));
  *out = static_cast<uint32_t>(*value);
  return Ok();
}

Status ReadSize(const Options& options, const std::string& name, uint64_t max, uint64_t* out) {
  const Result<uint64_t> value = options.Size(name, *out);
  if (!value.ok()) return value.error();
  if (*value == 0 || *value % kDirectAlign != 0 || *value > max)
    return Bad("--" + name + " must be a multiple of 4096 bytes, at most " +
               std::to_string(max >> 20) + "M");
  *out = *value;
  return Ok();
}

Status ReadReal(const Options& options, const std::string& name, double* out) {
  const Result<double> value = options.Real(name, *out);
  if (!value.ok()) return value.error();
  *out = *value;
  return Ok();
}

Status ReadPrefetch(const Options& options, RivalConfig* config) {
  PrefetchConfig* prefetch = &config->prefetch;
  for (const Status& read : {ReadCount(options, "ranks", &prefetch->ranks),
                             ReadCount(options, "threads", &prefetch->threads),
                             ReadSize(options, "block", kMaxBlock, &prefetch->block_bytes),
                             ReadReal(options, "delay-s", &config->delay_s)})
    if (!read.ok()) return read;
  if (config->kind != RivalKind::kWindow) return Ok();
  if (!options.Has("window")) return Bad("window needs --window SIZE");
  return ReadSize(options, "window", UINT64_MAX / 2, &prefetch->window_bytes);
}

Status ReadDirect(const Options& options, RivalConfig* config) {
  DirectConfig* direct = &config->direct;
  for (const Status& read : {ReadCount(options, "workers", &direct->workers),
                             ReadCount(options, "threads", &direct->threads),
                             ReadSize(options, "chunk", kMaxBlock, &direct->chunk_bytes),
                             ReadSize(options, "pool", UINT64_MAX / 2, &direct->pool_bytes),
                             ReadReal(options, "device-mbps", &direct->device_mbps),
                             ReadReal(options, "init-s", &config->init_s)})
    if (!read.ok()) return read;
  config->is_early = options.Has("early");
  return Ok();
}

}  // namespace

const std::set<std::string>& RivalOptionNames() {
  static const std::set<std::string> names{"delay-s", "ranks", "threads", "block",       "window",
                                           "workers", "chunk", "pool",    "device-mbps", "init-s"};
  return names;
}

const std::set<std::string>& RivalFlagNames() {
  static const std::set<std::string> names{"early", "help"};
  return names;
}

Result<RivalConfig> ParseRivalConfig(const Options& options) {
  if (options.words().size() != 2) return Bad("give a kind and one model directory; see --help");
  const auto kind = Kinds().find(options.words()[0]);
  if (kind == Kinds().end())
    return Bad("'" + options.words()[0] + "' is not willneed, prefetch, window or direct");
  RivalConfig config;
  config.kind = kind->second;
  config.dir = options.words()[1];
  std::set<std::string> names = RivalOptionNames();
  names.insert("early");
  for (const std::string& name : names)
    if (options.Has(name) && OptionsOf(config.kind).count(name) == 0)
      return Bad("--" + name + " is no option of " + kind->first + "; see --help");
  const Status read = config.kind == RivalKind::kDirect ? ReadDirect(options, &config)
                                                        : ReadPrefetch(options, &config);
  if (!read.ok()) return read.error();
  return config;
}

}  // namespace ppc::bench
