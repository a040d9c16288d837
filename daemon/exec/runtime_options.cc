// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/runtime_options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace ppc {
namespace {

constexpr std::array<std::string_view, 16> kKeys = {
    "lease_ms",   "threads_per_node", "threshold",     "hook_timeout_ms", "max_faults", "cgroup",
    "trace_file", "template_dir",     "limit",         "reserve",         "window",     "chunk",
    "blind",      "memory_stall",     "xpu_libraries", "auto_service"};

Error OutOfRange(const char* key, const char* range) {
  return Error{EINVAL, std::string("runtime option \"") + key + "\" must be " + range};
}

// Reads one member into *out or keeps the first error.
class OptionReader {
 public:
  explicit OptionReader(const Json& object) : object_(object) {}

  template <typename T>
  void Int(const char* key, T* out, int64_t least, int64_t most) {
    const Result<int64_t> value = JsonInt(object_, key, static_cast<int64_t>(*out));
    if (!value) return Keep(value.error());
    if (*value < least || *value > most) {
      const std::string range = std::to_string(least) + " to " + std::to_string(most);
      return Keep(OutOfRange(key, range.c_str()));
    }
    *out = static_cast<T>(*value);
  }
  void Size(const char* key, uint64_t* out) {
    const Result<uint64_t> value = JsonSize(object_, key, *out);
    if (!value) return Keep(value.error());
    *out = *value;
  }
  // What ATTACH takes, which has 32 bits for it.
  void Window(const char* key, uint64_t* out) {
    constexpr uint64_t kMost = 32 << 20;
    Size(key, out);
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    if (*out == 0 || (std::has_single_bit(*out) && *out >= page && *out <= kMost)) return;
    Keep(OutOfRange(key, "0 or a power of two from a page to 32M"));
  }
  void Text(const char* key, std::string* out) {
    Result<std::string> value = JsonString(object_, key, *out);
    if (!value) return Keep(value.error());
    if (!value->empty() && (*value)[0] != '/') return Keep(OutOfRange(key, "an absolute path"));
    *out = std::move(*value);
  }
  void Share(const char* key, double* out) {
    const Result<double> value = JsonNumber(object_, key, *out);
    if (!value) return Keep(value.error());
    if (!(*value > 0) || *value > 1) return Keep(OutOfRange(key, "above 0 and at most 1"));
    *out = *value;
  }
  // "2G", or "10%" of something.
  void SizeOrShare(const char* key, uint64_t* bytes, double* share) {
    const auto value = object_.find(key);
    const bool is_share = value != object_.end() && value->is_string() &&
                          value->get_ref<const std::string&>().ends_with('%');
    if (!is_share) return Size(key, bytes);
    const std::string& text = value->get_ref<const std::string&>();
    unsigned percent = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size() - 1, percent);
    if (parsed.ec != std::errc() || parsed.ptr + 1 != text.data() + text.size() || percent > 99) {
      return Keep(OutOfRange(key, "a size, or \"0%\" to \"99%\""));
    }
    *share = percent / 100.0;
  }
  void ShareOrNone(const char* key, double* out) {
    const Result<double> value = JsonNumber(object_, key, *out);
    if (!value) return Keep(value.error());
    if (!(*value >= 0) || *value > 1) return Keep(OutOfRange(key, "0 to 1"));
    *out = *value;
  }
  void Bool(const char* key, bool* out) {
    const Result<bool> value = JsonBool(object_, key, *out);
    if (!value) return Keep(value.error());
    *out = *value;
  }
  // A list of some of two names: which are in it.
  void Names(const char* key, std::string_view first, bool* has_first, std::string_view second,
             bool* has_second) {
    const auto list = object_.find(key);
    if (list == object_.end() || list->is_null()) return;
    *has_first = *has_second = false;
    bool is_good = list->is_array();
    for (size_t i = 0; is_good && i < list->size(); ++i) {
      const Json& name = (*list)[i];
      *has_first |= name == first;
      *has_second |= name == second;
      is_good = name == first || name == second;
    }
    if (is_good) return;
    std::string names = "a list of \"";
    names.append(first).append("\" and \"").append(second).append("\"");
    Keep(OutOfRange(key, names.c_str()));
  }
  void Keep(const Error& error) {
    if (ok_) error_ = error;
    ok_ = false;
  }
  bool ok() const { return ok_; }
  const Error& error() const { return error_; }

 private:
  const Json& object_;
  bool ok_ = true;
  Error error_;
};

}  // namespace

Result<RuntimeOptions> ParseRuntimeOptions(const Json& runtime) {
  RuntimeOptions options;
  const char* from_env = std::getenv("PPC_TEMPLATE_DIR");
  if (from_env != nullptr) options.template_dir = from_env;
  if (runtime.is_null()) return options;
  if (!runtime.is_object()) return Error{EINVAL, "\"runtime\" must be an object"};
  for (const auto& item : runtime.items()) {
    if (std::find(kKeys.begin(), kKeys.end(), item.key()) == kKeys.end()) {
      return Error{EINVAL, "unknown runtime option \"" + item.key() + "\""};
    }
  }
  OptionReader reader(runtime);
  reader.Int("lease_ms", &options.lease_ms, 100, 600000);
  reader.Int("threads_per_node", &options.threads_per_node, 0, 64);
  reader.Share("threshold", &options.threshold);
  reader.Bool("blind", &options.is_blind);
  reader.Int("hook_timeout_ms", &options.hook_timeout_ms, 1, 3600000);
  reader.Int("max_faults", &options.max_faults, 1, 1000000);
  reader.Text("cgroup", &options.cgroup);
  reader.Text("trace_file", &options.trace_file);
  reader.Text("template_dir", &options.template_dir);
  reader.Size("limit", &options.limit_bytes);
  reader.SizeOrShare("reserve", &options.reserve_bytes, &options.reserve_share);
  reader.ShareOrNone("memory_stall", &options.stall_share);
  reader.Window("window", &options.window_bytes);
  reader.Size("chunk", &options.chunk_bytes);
  reader.Bool("auto_service", &options.auto_service);
  reader.Names("xpu_libraries", "nvml", &options.ask_nvml, "dcmi", &options.ask_dcmi);
  constexpr uint64_t kStep = 2 << 20;
  if (reader.ok() && (options.chunk_bytes < kStep || options.chunk_bytes > 4 * kStep ||
                      options.chunk_bytes % kStep != 0)) {
    return OutOfRange("chunk", "2M, 4M, 6M or 8M");
  }
  if (!reader.ok()) return reader.error();
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
