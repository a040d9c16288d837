// SPDX-License-Identifier: Apache-2.0
// Options that become a request: good values, and what is said of wrong ones.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/supervisor/daemon_fixture.h"
#include "tests/unit/supervisor/given_options.h"
#include "tools/ppcctl/spec.h"

namespace ppc::ctl {
namespace {

std::string ErrorOfFields(Given options) {
  const Result<Json> spec = ReadServiceFields(ArgsOf(std::move(options)));
  return spec ? "" : spec.error().message;
}

TEST(ServiceFields, NodeAndNodes) {
  const Json spec = Value(
      ReadServiceFields(ArgsOf({{"--workers", {"8-15"}}, {"--node", {"1"}}, {"--nodes", {"2"}}})));
  EXPECT_EQ(spec, (Json{{"op", "service_start"},
                        {"workers", 8},
                        {"first_worker", 8},
                        {"node", 1},
                        {"nodes", 2}}));
}

TEST(ServiceFields, AWrongNodeIsNamed) {
  for (const char* value : {"", "x", "-1", "1.5", "0x1", "99999999999"}) {
    for (const char* option : {"--node", "--nodes"}) {
      EXPECT_EQ(
          ErrorOfFields({{option, {value}}}),
          std::string(option) + " '" + value + "' is not a whole number from 0 to 2147483647");
    }
  }
  EXPECT_EQ(ErrorOfFields({{"--node", {"2"}}, {"--nodes", {"2"}}}),
            "--node 2 is not below --nodes 2: the first is 0");
  EXPECT_EQ(ErrorOfFields({{"--node", {"0"}}}),
            "--node is of a service on several nodes; give --nodes, too");
  EXPECT_EQ(ErrorOfFields({{"--nodes", {"0"}}}), "--nodes 0: a service has one at least");
}

class ServiceOptionTest : public control::DaemonTest {};

TEST_F(ServiceOptionTest, NodeAndNodesReachThePolicy) {
  Start();
  Out({"service", "start", "--id", "svc-nodes", "--workers", "8-15", "--node", "1", "--nodes", "2",
       kMount});
  EXPECT_TRUE(Has(RunnerLog(), R"("first_worker":8,"node":1,"nodes":2)"));
  control::ExpectFailure(
      Ctl({"service", "start", "--id", "svc-nodes", "--node", "two", "--nodes", "2", kMount}),
      kExitUsage);
}

}  // namespace
}  // namespace ppc::ctl
