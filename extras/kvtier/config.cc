// SPDX-License-Identifier: Apache-2.0
#include "extras/kvtier/config.h"

#include <bit>
#include <cerrno>

#include "daemon/base/config_reader.h"

namespace ppc::kvtier {
namespace {

constexpr uint64_t kLeastBlock = 64 << 10;
constexpr uint64_t kMostBlock = 64 << 20;
constexpr uint64_t kLeastTable = 64 << 10;
constexpr uint64_t kMostTable = 1 << 30;

Error OfKvtier(const Error& error) { return {error.code, "kvtier: " + error.message}; }

}  // namespace

Result<Config> ParseConfig(const std::string& text) {
  const Result<Json> json = ParseJsonObject(text, "the configuration");
  if (!json) return OfKvtier(json.error());
  Config config;
  ConfigReader reader(*json, "option");
  reader.Size("block", &config.block);
  reader.Size("ahead", &config.ahead);
  reader.Size("table", &config.table);
  reader.Choice<ReaderIs>(
      "reader", {{"process", ReaderIs::kProcess}, {"thread", ReaderIs::kThread}}, &config.reader);
  (void)reader.Find("runtime");
  if (!std::has_single_bit(config.block) || config.block < kLeastBlock || config.block > kMostBlock)
    reader.Refuse("block", "a power of two from \"64K\" to \"64M\"");
  if (config.table < kLeastTable || config.table > kMostTable)
    reader.Refuse("table", "from \"64K\" to \"1G\"");
  if (const Status status = reader.Finish(); !status) return OfKvtier(status.error());
  return config;
}

}  // namespace ppc::kvtier
