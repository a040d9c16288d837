// SPDX-License-Identifier: Apache-2.0
// Options that name a store: good values, and what is said of wrong ones.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "extras/templates/template_store.h"
#include "policies/maio/template/store.h"
#include "tests/unit/supervisor/daemon_fixture.h"
#include "tests/unit/supervisor/given_options.h"

namespace ppc::ctl {
namespace {

std::string ErrorOfStore(Given options) {
  const Result<GivenStore> store = OpenGivenStore(ArgsOf(std::move(options)));
  return store ? "" : store.error().message;
}

class StoreOptionTest : public control::DaemonTest {
 protected:
  std::string WriteKey(const std::string& text, mode_t mode) {
    const std::string path = dir_ + "/key";
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }
};

TEST_F(StoreOptionTest, AWrongStoreIsNamed) {
  EXPECT_EQ(ErrorOfStore({{"--store-key", {"/k"}}}),
            "--store-key is of a store; give --store, too");
  for (const char* spec : {"/srv/templates", "dir:relative", "s3://bucket"}) {
    EXPECT_EQ(
        ErrorOfStore({{"--store", {spec}}}),
        "store '" + std::string(spec) + "' is neither dir:/PATH nor etcd:http://HOST:PORT/PREFIX");
  }
  EXPECT_TRUE(Has(ErrorOfStore({{"--store", {"etcd:nowhere"}}}), "etcd"));
  control::ExpectFailure(Ctl({"template", "list", "--store", "s3://bucket"}), kExitUsage);
}

TEST_F(StoreOptionTest, AWrongKeyIsNamed) {
  const std::string store = "dir:" + dir_ + "/store";
  const auto error_of = [&](const std::string& key) {
    return ErrorOfStore({{"--store", {store}}, {"--store-key", {key}}});
  };
  EXPECT_EQ(error_of("/absent"), "store key /absent: No such file or directory");
  std::string key = WriteKey("0123456789abcdef", 0644);
  EXPECT_TRUE(Has(error_of(key), "mode 0600"));
  if (geteuid() != 0) GTEST_SKIP() << "needs root for a key of root's";
  key = WriteKey("short", 0600);
  EXPECT_EQ(error_of(key), "store key " + key + ": must have 16 to 4096 bytes");
}

TEST_F(StoreOptionTest, TemplatesAreReadFromItWithTheKeyThatSealsThem) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root for a key of root's";
  std::filesystem::create_directories(dir_ + "/store");
  const std::string spec = "dir:" + dir_ + "/store";
  const std::string key = WriteKey("0123456789abcdef", 0600);
  const GivenStore store =
      Value(OpenGivenStore(ArgsOf({{"--store", {spec}}, {"--store-key", {key}}})));
  ASSERT_NE(store.Key(), nullptr);
  maio::Template t;
  t.service_id = "svc-shared";
  t.files.push_back({"model", 4096, 0, maio::FileKind::kSafetensors, {}});
  t.groups.emplace_back().extents = {{0, 0, 1}};
  std::string error;
  ASSERT_EQ(maio::PutTemplate(store.store.get(), store.Key(), t.service_id, &t, 0, &error), 0)
      << error;
  Out({"template", "show", "svc-shared", "--store", spec, "--store-key", key});
  WriteKey("another 16 bytes", 0600);
  control::ExpectFailure(
      Ctl({"template", "show", "svc-shared", "--store", spec, "--store-key", key}), kExitFailed,
      "sealed with another key");
}

}  // namespace
}  // namespace ppc::ctl
