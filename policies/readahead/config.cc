// SPDX-License-Identifier: Apache-2.0
#include "policies/readahead/config.h"

#include <cstdio>
#include <string>

#include "daemon/base/config_reader.h"

namespace ppc {
namespace {

constexpr uint64_t kMiB = 1 << 20;

Status Read(const std::string& text, readahead_config* config) {
  const Result<Json> json = ParseJsonObject(text, "the configuration");
  if (!json) return json.error();
  bool evict = true, unmap = false;
  ConfigReader reader(*json, "option");
  reader.Size("window_min", &config->window_min);
  reader.Size("window_max", &config->window_max);
  reader.Size("behind", &config->behind);
  reader.Bool("evict", &evict);
  reader.Bool("unmap", &unmap);
  (void)reader.Find("runtime");
  if (config->window_min == 0) reader.Refuse("window_min", "above 0");
  if (config->window_max < config->window_min) reader.Refuse("window_max", "at least window_min");
  config->evict = evict ? 1 : 0;
  config->unmap = unmap ? 1 : 0;
  return reader.Finish();
}

}  // namespace
}  // namespace ppc

int readahead_read_config(const char* text, readahead_config* config, char* error, size_t size) {
  *config = {2 * ppc::kMiB, 64 * ppc::kMiB, 64 * ppc::kMiB, 1, 0};
  const ppc::Status status = ppc::Read(text, config);
  if (status) return 0;
  std::snprintf(error, size, "readahead: %s", status.error().message.c_str());
  return -1;
}
