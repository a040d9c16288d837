// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/runtime_options.h"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "daemon/base/config_reader.h"

namespace ppc {
namespace {

constexpr const char* kWhat = "runtime option";

// What ATTACH takes, which has 32 bits for it.
void ReadWindow(ConfigReader& reader, uint64_t* out) {
  constexpr uint64_t kMost = 32 << 20;
  reader.Size("window", out);
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (*out == 0 || (std::has_single_bit(*out) && *out >= page && *out <= kMost)) return;
  reader.Refuse("window", "0 or a power of two from a page to 32M");
}

void ReadChunk(ConfigReader& reader, uint64_t* out) {
  constexpr uint64_t kStep = 2 << 20;
  reader.Size("chunk", out);
  if (*out >= kStep && *out <= 4 * kStep && *out % kStep == 0) return;
  reader.Refuse("chunk", "2M, 4M, 6M or 8M");
}

// "2G", or "10%" of the machine's memory.
void ReadReserve(ConfigReader& reader, uint64_t* bytes, double* share) {
  const Json* value = reader.Find("reserve");
  const bool is_share =
      value != nullptr && value->is_string() && value->get_ref<const std::string&>().ends_with('%');
  if (!is_share) return reader.Size("reserve", bytes);
  const std::string& text = value->get_ref<const std::string&>();
  unsigned percent = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size() - 1, percent);
  if (parsed.ec != std::errc() || parsed.ptr + 1 != text.data() + text.size() || percent > 99) {
    return reader.Refuse("reserve", "a size, or \"0%\" to \"99%\"");
  }
  *share = percent / 100.0;
}

}  // namespace

Result<RuntimeOptions> ParseRuntimeOptions(const Json& runtime) {
  RuntimeOptions options;
  const char* from_env = std::getenv("PPC_TEMPLATE_DIR");
  if (from_env != nullptr) options.template_dir = from_env;
  if (runtime.is_null()) return options;
  if (!runtime.is_object()) return Error{EINVAL, "\"runtime\" must be an object"};
  ConfigReader reader(runtime, kWhat);
  reader.Int("lease_ms", &options.lease_ms, 100, 600000, "milliseconds");
  reader.Int("threads_per_node", &options.threads_per_node, 0, 64);
  reader.Number("threshold", &options.threshold, 0, 1, /*is_open=*/true);
  reader.Bool("blind", &options.is_blind);
  reader.Int("hook_timeout_ms", &options.hook_timeout_ms, 1, 3600000, "milliseconds");
  reader.Path("cgroup", &options.cgroup);
  reader.Path("trace_file", &options.trace_file);
  reader.Path("template_dir", &options.template_dir);
  reader.Size("limit", &options.limit_bytes);
  ReadReserve(reader, &options.reserve_bytes, &options.reserve_share);
  ReadWindow(reader, &options.window_bytes);
  ReadChunk(reader, &options.chunk_bytes);
  reader.Bool("auto_service", &options.auto_service);
  reader.Bool("guard", &options.guard);
  reader.Bool("learnt_starts", &options.learnt_starts);
  if (Status status = reader.Finish(); !status) return status.error();
  options.guard = options.guard && !options.is_blind;
  // The guard bounds what a wrong guess loads, and an automatic service is what is learnt.
  if (options.learnt_starts && (!options.guard || !options.auto_service)) {
    return Error{EINVAL,
                 "\"learnt_starts\" needs \"guard\" and \"auto_service\"; leave these as they are, "
                 "and \"blind\" out"};
  }
  return options;
}

Status CheckSupervised(const Json& runtime) {
  if (!runtime.is_object()) return Ok();
  if (runtime.contains("template_dir")) {
    return Error{EPERM, "\"template_dir\" is ppcd's to choose: ppcd --template-dir DIR"};
  }
  const Result<std::string> trace = JsonString(runtime, "trace_file", "");
  if (!trace) return trace.error();
  const bool is_below =
      trace->starts_with("/run/") || trace->starts_with("/tmp/") || trace->starts_with("/var/tmp/");
  const bool is_clean = trace->find("/../") == std::string::npos && trace->ends_with(".jsonl");
  if (!trace->empty() && (!is_below || !is_clean)) {
    return Error{EPERM, "\"trace_file\" must be a *.jsonl below /run, /tmp or /var/tmp"};
  }
  return Ok();
}

}  // namespace ppc
