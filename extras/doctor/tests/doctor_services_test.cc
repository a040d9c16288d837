// SPDX-License-Identifier: Apache-2.0
// Causes of services and of who reads: made up below a root of one's own.
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "extras/doctor/tests/doctor_fixture.h"
#include "policies/maio/template/template.h"

namespace ppc::ctl {
namespace {

TEST_F(DoctorTest, AServiceWhoseTemplateIsOfAnotherLoader) {
  look_.mount["services"] = {{{"service_id", "svc-one"}, {"workers", 1}}};
  look_.policy = {{"services", {{{"service_id", "svc-one"}, {"matched", 100}, {"unknown", 90}}}}};
  // Without a template nothing differs from it.
  EXPECT_EQ(Only(Services()), "");
  patient_.template_dir = tree_.Path("/templates");
  std::filesystem::create_directories(patient_.template_dir);
  maio::Template t;
  t.service_id = "svc-one";
  std::string error;
  ASSERT_EQ(maio::Store(patient_.template_dir, t, &error), 0) << error;
  EXPECT_EQ(Only(Services()),
            "template-differs ppcctl template rerecord svc-one --dir " + patient_.template_dir);
  look_.policy["services"][0]["unknown"] = 24;
  EXPECT_EQ(Only(Services()), "") << "less than a quarter";
  look_.policy["services"][0]["matched"] = 2;
  EXPECT_EQ(Only(Services()), "") << "next to nothing was read";
}

TEST_F(DoctorTest, ACgroupThatMayNotReadFast) {
  struct stat info {};
  ASSERT_EQ(stat(tree_.Root().c_str(), &info), 0);
  const std::string disk =
      std::to_string(major(info.st_dev)) + ":" + std::to_string(minor(info.st_dev));
  look_.path = tree_.Root();
  look_.mount["services"] = {{{"service_id", "svc-one"}, {"cgroup", "/svc"}}};
  tree_.Write("/sys/fs/cgroup/cgroup.controllers", "io memory\n");
  tree_.Write("/sys/fs/cgroup/svc/memory.max", "max\n");
  tree_.Write("/sys/fs/cgroup/svc/io.max", disk + " rbps=max wbps=max riops=max wiops=max\n");
  EXPECT_EQ(Only(Services()), "");
  tree_.Write("/sys/fs/cgroup/svc/io.max", disk + " rbps=1048576 wbps=max riops=max wiops=max\n");
  EXPECT_EQ(Only(Services()), "io-limit echo '" + disk + " rbps=max riops=max' > " +
                                  tree_.Path("/sys/fs/cgroup/svc/io.max"));
  // It is the group around it that is limited.
  tree_.Write("/sys/fs/cgroup/svc/inner/memory.max", "max\n");
  tree_.Write("/sys/fs/cgroup/svc/inner/io.max", "");
  look_.mount["services"][0]["cgroup"] = "/svc/inner";
  EXPECT_TRUE(Only(Services()).ends_with(tree_.Path("/sys/fs/cgroup/svc/io.max")));
}

// The first version has a hierarchy for it, and two files.
TEST_F(DoctorTest, ACgroupOfTheFirstVersionThatMayNotReadFast) {
  struct stat info {};
  ASSERT_EQ(stat(tree_.Root().c_str(), &info), 0);
  const std::string disk =
      std::to_string(major(info.st_dev)) + ":" + std::to_string(minor(info.st_dev));
  look_.path = tree_.Root();
  look_.mount["services"] = {{{"service_id", "svc-one"}, {"cgroup", "/svc"}}};
  tree_.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree_.Write("/sys/fs/cgroup/memory/svc/memory.limit_in_bytes", "9223372036854771712\n");
  const std::string throttle = "/sys/fs/cgroup/blkio/svc/blkio.throttle.read_";
  tree_.Write(throttle + "bps_device", "");
  tree_.Write(throttle + "iops_device", "");
  EXPECT_EQ(Only(Services()), "");
  tree_.Write(throttle + "iops_device", disk + " 8\n");
  EXPECT_EQ(Only(Services()), "io-limit echo '" + disk + " 0' > " +
                                  tree_.Path(throttle + "bps_device") + " && echo '" + disk +
                                  " 0' > " + tree_.Path(throttle + "iops_device"));
}

TEST_F(DoctorTest, AGuardThatLimits) {
  const auto limits = [this](const char* state, const char* id = "svc-one") {
    look_.mount["runner"]["services"] = {{{"service_id", id},
                                          {"guard",
                                           {{"state", state},
                                            {"reason", "33 MiB came back"},
                                            {"refused_drop_bytes", uint64_t{3} << 20},
                                            {"refused_load_bytes", uint64_t{2} << 20}}}}};
    return Only(Services());
  };
  const std::string again = "ppcctl rm_policy /models && ppcctl reg_policy /models maio";
  EXPECT_EQ(limits("open"), "");
  EXPECT_EQ(limits("no_unmap"), "guard-limits " + again + " '{\"bar\": false}'");
  EXPECT_EQ(Services().at(0).about, "/models svc-one");
  EXPECT_EQ(Services().at(0).cause,
            "the guard limits what its policy does, no_unmap: 33 MiB came back; it has refused "
            "drops of 3.0 MiB and loads of 2.0 MiB");
  EXPECT_EQ(limits("no_loads"), "guard-limits " + again + " '{\"prefetch\": false}'");
  EXPECT_EQ(limits("small_window", ""), "guard-limits " + again + " '{\"prefetch\": false}'");
  EXPECT_EQ(Services().at(0).about, "/models") << "readers that belong to no service";
  // What was recorded is not what it reads.
  patient_.template_dir = tree_.Path("/templates");
  std::filesystem::create_directories(patient_.template_dir);
  maio::Template t;
  t.service_id = "svc-one";
  std::string error;
  ASSERT_EQ(maio::Store(patient_.template_dir, t, &error), 0) << error;
  EXPECT_EQ(limits("no_loads"),
            "guard-limits ppcctl template rerecord svc-one --dir " + patient_.template_dir);
  look_.mount["policy"] = "/opt/mine.so";
  EXPECT_EQ(limits("no_drops+no_loads"), "guard-limits " + again);
}

TEST_F(DoctorTest, EventsThatWereLost) {
  look_.mount["runner"]["device"] = {{"events_lost", 3}, {"events_queued", 1000}};
  EXPECT_EQ(Only(Services()), "");
  look_.mount["runner"]["device"]["events_lost"] = 30;
  EXPECT_EQ(Only(Services()),
            "events-lost ppcctl rm_policy /models && ppcctl reg_policy /models maio");
}

// A service of one worker, of which MAIO tells this.
class DoctorPaceTest : public DoctorTest {
 protected:
  DoctorPaceTest() {
    look_.mount["services"] = {{{"service_id", "svc-one"}}};
    group_ = {{"state", "SYNC"},
              {"consumed", uint64_t{100} << 20},
              {"total", uint64_t{200} << 20},
              {"ahead", uint64_t{1} << 20}};
  }
  std::string Pace(uint64_t device_mbps = 300) {
    look_.policy = {{"services",
                     {{{"service_id", "svc-one"},
                       {"device_mbps", device_mbps},
                       {"loaded", loaded_},
                       {"redundant", redundant_},
                       {"groups", Json::array({group_})}}}}};
    found_ = Services();
    for (const Finding& each : found_) EXPECT_FALSE(each.is_problem) << each.code;
    return Only(found_);
  }
  Json group_;
  uint64_t loaded_ = 100 << 20;
  uint64_t redundant_ = 0;
  Findings found_;
};

TEST_F(DoctorPaceTest, ADiskThatReadersWaitForIsWorthKnowing) {
  EXPECT_EQ(Pace(), "device-slow ppcctl warm /models --id svc-one");
  EXPECT_NE(found_.at(0).cause.find("gives 300 MB/s"), std::string::npos);
  EXPECT_EQ(Pace(0), "") << "nothing was measured";
  redundant_ = 101 << 20;
  EXPECT_EQ(Pace(), "") << "most of it was in memory";
  redundant_ = 0;
  loaded_ = 1 << 20;
  EXPECT_EQ(Pace(), "") << "hardly anything came from the disk";
  loaded_ = 100 << 20;
  group_["ahead"] = uint64_t{64} << 20;
  EXPECT_EQ(Pace(), "") << "the loads are ahead";
  group_["ahead"] = nullptr;
  EXPECT_EQ(Pace(), "") << "all is loaded";
  group_["ahead"] = 0;
  group_["consumed"] = uint64_t{1} << 20;
  EXPECT_EQ(Pace(), "") << "they have just begun";
  group_["consumed"] = group_["total"];
  EXPECT_EQ(Pace(), "") << "they have read all";
  group_["consumed"] = uint64_t{100} << 20;
  group_["state"] = "LOST";
  EXPECT_EQ(Pace(), "") << "nothing is loaded for who goes elsewhere";
}

TEST_F(DoctorTest, AnEnginesOwnPrefetch) {
  const auto of_words = [this](std::vector<std::string> words) {
    patient_.command = std::move(words);
    Findings found;
    CheckCommand(patient_, &found);
    return Only(found);
  };
  const std::string option = "--safetensors-load-strategy";
  EXPECT_EQ(of_words({"vllm", "serve", "my m", option, "eager", "-v"}),
            "own-prefetch vllm serve 'my m' " + option + " lazy -v");
  EXPECT_EQ(of_words({"vllm", "serve", "m", option + "=prefetch"}),
            "own-prefetch vllm serve m " + option + "=lazy");
  EXPECT_EQ(of_words({"vllm", "serve", "m", option, "lazy"}), "");
  EXPECT_EQ(of_words({"sglang", "--weight-loader-prefetch-checkpoints", "m"}),
            "own-prefetch sglang m");
}

TEST_F(DoctorTest, WhoReadsAtRandom) {
  Reader reader;
  reader.pid = 9;
  reader.random_file = "/models/m.gguf";
  const auto remedy = [this, &reader](std::vector<std::string> words) {
    reader.words = std::move(words);
    look_.readers = {reader};
    Findings found;
    CheckReaders(patient_, look_, &found);
    return Only(found);
  };
  EXPECT_EQ(remedy({"llama-server", "--numa", "distribute", "-m", "m.gguf"}),
            "madv-random start it again as: llama-server -m m.gguf");
  EXPECT_EQ(remedy({"llama-server", "--numa"}), "madv-random start it again as: llama-server");
  EXPECT_EQ(remedy({"other"}), "madv-random start it without what asks for random reads");
}

}  // namespace
}  // namespace ppc::ctl
