// SPDX-License-Identifier: Apache-2.0
// What a start keeps for the next: whose it is, what it may be, and what is wrong with it.
#include "extras/artifact/values.h"

#include <cerrno>

#include "extras/artifact/tests/fixture.h"

namespace ppc::artifact {
namespace {

class ValuesTest : public ArtifactTest {
 protected:
  Store MustOpen() {
    Result<Store> store = Store::Open(place_, Store::Use::kWrite);
    EXPECT_TRUE(store) << store.error().message;
    return *std::move(store);
  }
  std::string File() const {
    return place_.directory + "/" + std::to_string(geteuid()) + "/values/svc1";
  }
};

TEST_F(ValuesTest, AreReadBackAsTheyWereKept) {
  const Store store = MustOpen();
  EXPECT_TRUE(LoadValues(store, "svc1")->empty());
  const Values values = {
      {"KV_CACHE_BYTES", "123"}, {"A", "it's \"quoted\" $x = y"}, {"_b2", "\xc3\xa4"}};
  ASSERT_TRUE(SaveValues(store, "svc1", values));
  EXPECT_EQ(*LoadValues(store, "svc1"), values);
  EXPECT_TRUE(LoadValues(store, "svc2")->empty());
  struct stat info {};
  ASSERT_EQ(stat(File().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  ASSERT_TRUE(SaveValues(store, "svc1", {}));
  EXPECT_NE(stat(File().c_str(), &info), 0);
  EXPECT_TRUE(SaveValues(store, "svc1", {}));
}

TEST_F(ValuesTest, NamesAndValuesAreBounded) {
  EXPECT_EQ(ReadValue("A=b=c")->second, "b=c");
  EXPECT_EQ(ReadValue("A=")->second, "");
  for (const char* bad : {"", "A", "=x", "1A=x", "A B=x", "A-B=x", "A=\n", "A=x\x1b[0m", "A=\x7f"})
    EXPECT_EQ(ReadValue(bad).error().code, EINVAL) << bad;
  EXPECT_TRUE(ReadValue(std::string(64, 'N') + "=" + std::string(4096, 'v')));
  EXPECT_FALSE(ReadValue(std::string(65, 'N') + "=v"));
  EXPECT_FALSE(ReadValue("N=" + std::string(4097, 'v')));
  Values many;
  for (int i = 0; i < 65; i++) many["N" + std::to_string(i)] = "v";
  const Store store = MustOpen();
  EXPECT_EQ(SaveValues(store, "svc1", many).error().code, E2BIG);
  EXPECT_EQ(SaveValues(store, "../x", {{"A", "b"}}).error().code, EINVAL);
}

TEST_F(ValuesTest, WhatSaysWhatIsRunIsNotCarried) {
  for (const char* name : {"PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSTARTUP",
                           "BASH_ENV", "PPC_SOCKET", "HOME", "IFS"})
    EXPECT_EQ(ReadValue(std::string(name) + "=x").error().code, EINVAL) << name;
  EXPECT_TRUE(ReadValue("VLLM_PATH=x"));
}

TEST_F(ValuesTest, ChangedOrForgedOnesAreRefused) {
  {
    const Store store = MustOpen();
    ASSERT_TRUE(SaveValues(store, "svc1", {{"A", "b"}}));
    ASSERT_TRUE(SaveValues(store, "svc2", {{"A", "c"}}));
  }
  const std::string good = TextAt(File());
  const std::string other = TextAt(File().substr(0, File().size() - 4) + "svc2");
  std::string changed = good;
  changed[changed.find("A=b") + 2] = 'x';
  for (const auto& [text, code] : {std::pair(changed, EKEYREJECTED),
                                   {std::string(), EKEYREJECTED},
                                   {good.substr(0, good.size() - 1), EKEYREJECTED},
                                   {"ppc-values 1 svc1\nA=b\n", EKEYREJECTED},
                                   {other, EBADMSG}}) {
    std::ofstream(File(), std::ios::binary | std::ios::trunc) << text;
    const Store store = MustOpen();
    const Result<Values> values = LoadValues(store, "svc1");
    ASSERT_FALSE(values);
    EXPECT_EQ(values.error().code, code) << values.error().message;
    EXPECT_NE(values.error().message.find("svc1"), std::string::npos);
  }
}

TEST_F(ValuesTest, SweepingLeavesThem) {
  Store store = MustOpen();
  ASSERT_TRUE(SaveValues(store, "svc1", {{"A", "b"}}));
  ASSERT_TRUE(store.Sweep());
  EXPECT_EQ(LoadValues(store, "svc1")->size(), 1U);
}

}  // namespace
}  // namespace ppc::artifact
