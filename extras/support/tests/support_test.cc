// SPDX-License-Identifier: Apache-2.0
// The content of a support bundle, its redaction, and its format.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>

#include "extras/support/collect.h"
#include "extras/support/redact.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc::ctl {
namespace {

class SupportTest : public testing::Test {
 protected:
  SupportTest() {
    SystemSnapshot& snapshot = gathered_.snapshot;
    snapshot.roots = {tree_.Root(), tree_.Root()};
    snapshot.host = tree_.Root();
    snapshot.release = "6.1.0-1-amd64";
    snapshot.template_dir = tree_.Path("/templates");
    snapshot.registered = {"/models"};
    tree_.Write("/etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian 12\"\n");
    tree_.Write("/sys/kernel/btf/vmlinux", "");
    tree_.Write("/templates/sv/svc-one.ppct", "secret of a model");
    tree_.Write("/proc/self/mountinfo",
                "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                "23 22 0:50 / /models rw - nfs server:/models rw,username=somebody\n"
                "24 23 0:51 / /models/more rw - xfs /dev/sdb1 rw\n");
    tree_.Write("/sys/fs/cgroup/pods/pod-a/memory.max", "1048576\n");
    tree_.Write("/sys/fs/cgroup/pods/memory.max", "max\n");
    tree_.Write("/sys/fs/cgroup/pods/io.max", "8:0 rbps=1000\n");
    tree_.Write("/sys/fs/cgroup/cgroup.controllers", "memory\n");
    gathered_.status = {
        {"daemon", {{"version", "0.1.0"}}},
        {"mounts",
         {{{"mount", "/models"},
           {"policy", "maio"},
           {"config", {{"store", "etcd:http://me:pass@host:1/p"}, {"store_key", "/etc/ppc/key"}}},
           {"services",
            {{{"service_id", "svc-one"},
              {"cgroup", "/pods/pod-a"},
              {"params",
               {{"model", "/models/qwen"}, {"hf_token", "abc"}, {"tokenizer", "/models/t"}}}}}}}}}};
    gathered_.metrics = "ppc_up_seconds 1\n";
    gathered_.log_source = "ppcd";
    gathered_.log = {{1'000'000'000, 4, "ppcd: /models: HF_TOKEN=hf_abcdefghijk was not taken"}};
  }
  std::string TextOf(const std::string& name) {
    for (const BundleFile& file : BundleOf(gathered_)) {
      if (file.name == "ppc-support/" + name) return file.text;
    }
    ADD_FAILURE() << "no " << name;
    return "";
  }
  TempTree tree_;
  Gathered gathered_;
};

TEST_F(SupportTest, HasWhatIsAskedFor) {
  const Json versions = Json::parse(TextOf("versions.json"));
  EXPECT_EQ(versions["kernel"]["release"], "6.1.0-1-amd64");
  EXPECT_EQ(versions["system"], "\"Debian 12\"");
  EXPECT_EQ(versions["has_btf"], true);
  const Json mounts = Json::parse(TextOf("mounts.json"));
  EXPECT_EQ(mounts[0]["on"]["type"], "nfs");
  EXPECT_EQ(mounts[0]["below"][0]["type"], "xfs");
  const Json templates = Json::parse(TextOf("templates.json"));
  EXPECT_EQ(templates["files"][0]["file"], "sv/svc-one.ppct");
  EXPECT_EQ(templates["files"][0]["bytes"], 17);
  const Json groups = Json::parse(TextOf("cgroups.json"));
  EXPECT_EQ(groups[tree_.Path("/sys/fs/cgroup/pods/pod-a")]["memory.max"], "1048576") << groups;
  EXPECT_EQ(groups[tree_.Path("/sys/fs/cgroup/pods")]["io.max"], "8:0 rbps=1000") << groups;
  EXPECT_NE(TextOf("log.txt").find("was not taken"), std::string::npos);
  EXPECT_EQ(TextOf("metrics.txt"), gathered_.metrics);
  EXPECT_EQ(Json::parse(TextOf("status.json"))["mounts"][0]["services"][0]["params"]["model"],
            "/models/qwen");
}

TEST_F(SupportTest, HasNoSecrets) {
  std::string all;
  for (const BundleFile& file : BundleOf(gathered_)) all += file.text;
  for (const char* secret : {"pass@", "abc", "hf_abc", "/etc/ppc/key", "somebody", "of a model"}) {
    EXPECT_EQ(all.find(secret), std::string::npos) << secret << all;
  }
  EXPECT_NE(all.find("/models/t"), std::string::npos) << "a tokenizer is no token";
  EXPECT_TRUE(Has(TextOf("README.txt"), "4 values that look like secrets"));
}

TEST_F(SupportTest, SecretsOfEachKindAreFound) {
  for (const char* text :
       {"api_key=XYZZY", "\"password\": \"XYZZY\"", "--hf-token XYZZY", "--api-key=XYZZY",
        "Authorization: Bearer XYZZY", "https://me:XYZZY@host/x", "sk-XYZZY1234567",
        "AWS_SECRET_ACCESS_KEY='XYZZY'", "passwd: XYZZY", "credentials=XYZZY"}) {
    size_t count = 0;
    const std::string cleared = WithoutSecrets(std::string(text), &count);
    EXPECT_EQ(cleared.find("XYZZY"), std::string::npos) << cleared;
    EXPECT_GE(count, 1U) << text;
  }
  size_t count = 0;
  for (const char* text :
       {"/models/qwen/tokenizer.json: 8 keys", "key frames", "ppc_events_total{directory=\"/m\"} 1",
        "tokenizer=/models/t", "http://host:2379/prefix", "\n\na\n\n", ""}) {
    EXPECT_EQ(WithoutSecrets(std::string(text), &count), text);
  }
  EXPECT_EQ(count, 0U);
}

TEST_F(SupportTest, IsBoundedAndSaysWhatIsLeftOut) {
  gathered_.log.clear();
  for (int i = 0; i < 4000; ++i) {
    gathered_.log.push_back({0, 6, std::to_string(i) + std::string(1000, 'x')});
  }
  gathered_.errors = {"status: nobody there"};
  gathered_.metrics = std::string(1 << 22, 'm');
  const std::vector<BundleFile> files = BundleOf(gathered_);
  for (const BundleFile& file : files) EXPECT_LE(file.text.size(), kMostOfAFile) << file.name;
  const std::string readme = files[0].text;
  EXPECT_NE(readme.find("status: nobody there"), std::string::npos) << readme;
  EXPECT_NE(readme.find("log.txt: 3.0 MiB of its beginning"), std::string::npos) << readme;
  EXPECT_NE(TextOf("log.txt").find("3999x"), std::string::npos) << "the last is what counts";
}

TEST_F(SupportTest, WithoutADaemonThereIsTheRest) {
  gathered_.status = nullptr;
  gathered_.metrics.clear();
  gathered_.log.clear();
  gathered_.snapshot.daemon_error = ECONNREFUSED;
  EXPECT_NE(TextOf("doctor.json").find("daemon-down"), std::string::npos);
  EXPECT_NE(TextOf("versions.json").find("6.1.0"), std::string::npos);
  EXPECT_NE(TextOf("README.txt").find("nothing was logged"), std::string::npos);
}

// An independent tar reads it.
TEST_F(SupportTest, IsATarArchive) {
  if (std::system("command -v zstd >/dev/null") != 0) GTEST_SKIP() << "no zstd here";
  const std::vector<BundleFile> files = {{"ppc-support/a.txt", "of a"},
                                         {"ppc-support/empty", ""},
                                         {"ppc-support/b.txt", std::string(5000, 'b')}};
  tree_.Write("/x.tar.zst", *Compressed(TarOf(files, 1'700'000'000)));
  const std::string in = "cd " + tree_.Root() + " && ";
  ASSERT_EQ(std::system((in + "tar --zstd -xf x.tar.zst").c_str()), 0);
  for (const BundleFile& file : files) {
    EXPECT_EQ(tree_.Read("/" + file.name), file.text) << file.name;
  }
  EXPECT_EQ(
      std::system((in + "test \"$(stat -c %a.%Y ppc-support/a.txt)\" = 600.1700000000").c_str()),
      0);
}

}  // namespace
}  // namespace ppc::ctl
