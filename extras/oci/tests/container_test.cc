// SPDX-License-Identifier: Apache-2.0
// A hook's view of a container's files: paths, the model, the service's name.
#include "extras/oci/container.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "daemon/base/json.h"
#include "daemon/machine/proc_info.h"
#include "extras/oci/container_paths.h"
#include "extras/oci/known_containers.h"
#include "extras/oci/service_request.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc::oci {
namespace {

// A host with a model on a mount, one in the container's image, and a file that is no model.
class ContainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    tree_.Write("/host/models/qwen/model.safetensors", "weights");
    tree_.Write("/host/models/qwen/config.json", "{}");
    tree_.Write("/outside/secret.safetensors", "secret");
    tree_.Write("/bundle/rootfs/opt/tiny/tiny.gguf", "weights");
    tree_.Write("/bundle/rootfs/bin/sh", "");
    tree_.Write("/proc/4321/cgroup", "0::/pods/a\n");
    tree_.WriteStat(4321, 1, 1, 100);
    tree_.Write("/proc/" + std::to_string(getpid()) + "/cgroup", "0::/runtime\n");
  }

  Json Mount(const std::string& destination, const std::string& source) {
    return {{"destination", destination},
            {"type", "bind"},
            {"source", tree_.Path(source)},
            {"options", {"rbind", "ro"}}};
  }

  Container Make(Json configuration, const Json& annotations = Json::object()) {
    configuration["root"] = {{"path", "rootfs"}};
    configuration["annotations"] = annotations;
    tree_.Write("/bundle/config.json", DumpJson(configuration));
    Result<Container> container =
        ReadState(DumpJson({{"id", "box"}, {"pid", 4321}, {"bundle", tree_.Path("/bundle")}}));
    EXPECT_TRUE(container.ok());
    EXPECT_TRUE(ReadConfiguration(*container).ok());
    return *container;
  }

  Container WithModel(const Json& annotations, Json words = Json::array()) {
    return Make({{"mounts", Json::array({Mount("/models", "/host/models")})},
                 {"process", {{"args", words}, {"cwd", "/models"}}}},
                annotations);
  }

  SysRoots Roots() { return {tree_.Root(), tree_.Root()}; }

  TempTree tree_;
};

TEST_F(ContainerTest, StateWithoutAUsableNameIsRefused) {
  EXPECT_EQ(ReadState(R"({"id": "../x", "pid": 1})").error().code, EINVAL);
  EXPECT_EQ(ReadState(R"({"id": "a", "pid": -1})").error().code, EINVAL);
  EXPECT_FALSE(ReadState("{").ok());
}

TEST_F(ContainerTest, PathsGoByMountsAndByTheImage) {
  const Container container =
      Make({{"mounts", Json::array({Mount("/models", "/host/models"),
                                    {{"destination", "/models/tmp"}, {"type", "tmpfs"}}})}});
  const ContainerPaths paths(container);
  EXPECT_EQ(*paths.ToHost("/models/qwen/"), tree_.Path("/host/models/qwen"));
  EXPECT_EQ(*paths.ToHost("/opt/../opt/tiny"), tree_.Path("/bundle/rootfs/opt/tiny"));
  EXPECT_EQ(*paths.ToHost("/modelsX"), tree_.Path("/bundle/rootfs/modelsX"));
  EXPECT_EQ(paths.ToHost("/models/tmp/x").error().code, EXDEV);
  EXPECT_EQ(paths.ToContainer(tree_.Path("/host/models/qwen")), "/models/qwen");
  EXPECT_EQ(paths.ToContainer(tree_.Path("/outside")), "");
}

TEST_F(ContainerTest, LinksStayInTheContainer) {
  tree_.Link("/bundle/rootfs/link", "/models/qwen");
  tree_.Link("/bundle/rootfs/up", "../../../../outside");
  tree_.Link("/bundle/rootfs/loop", "loop");
  tree_.Link("/bundle/rootfs/var/run", "/run");
  const Container container =
      Make({{"mounts",
             Json::array({Mount("/models", "/host/models"), Mount("/var/run/m", "/outside")})}});
  const ContainerPaths paths(container);
  EXPECT_EQ(*paths.ToHost("/link/config.json"), tree_.Path("/host/models/qwen/config.json"));
  EXPECT_EQ(*paths.ToHost("/up"), tree_.Path("/bundle/rootfs/outside"));
  EXPECT_EQ(paths.ToHost("/loop").error().code, ELOOP);
  EXPECT_EQ(*paths.ToHost("/run/m/x"), tree_.Path("/outside/x"));
}

TEST_F(ContainerTest, TheModelIsFoundByTheWordsOfTheCommand) {
  for (const Json& words : {Json{"vllm", "serve", "/models/qwen"}, Json{"x", "--model=qwen"},
                            Json{"sh", "-c", "exec vllm serve /models/qwen --port 1"}}) {
    const Container container = WithModel({}, words);
    const ContainerPaths paths(container);
    const Result<ctl::FoundModel> model = FindContainerModel(container, paths);
    ASSERT_TRUE(model.ok()) << words;
    EXPECT_EQ(model->directory, tree_.Path("/host/models/qwen")) << words;
  }
}

TEST_F(ContainerTest, HostPathsInTheCommandAreNotTheHosts) {
  const Container container = WithModel({}, {"cat", tree_.Path("/outside/secret.safetensors")});
  EXPECT_EQ(FindContainerModel(container, ContainerPaths(container)).error().code, ENOENT);
}

TEST_F(ContainerTest, AModelWhoseFilesLeadOutIsRefused) {
  tree_.Link("/host/models/trap/model.safetensors", tree_.Path("/outside/secret.safetensors"));
  const Container container = WithModel({{"ppc.model", "/models/trap"}});
  EXPECT_EQ(FindContainerModel(container, ContainerPaths(container)).error().code, EXDEV);
}

TEST_F(ContainerTest, HubRepositoriesAreFoundInTheContainersCache) {
  tree_.Write("/host/hub/models--Org--Tiny/blobs/abc", "weights");
  tree_.Write("/host/hub/models--Org--Tiny/refs/main", "r1");
  tree_.Link("/host/hub/models--Org--Tiny/snapshots/r1/model.safetensors", "../../blobs/abc");
  const Json mounts = Json::array({Mount("/cache/hub", "/host/hub")});
  for (const Json& annotations : {Json::object(), Json{{"ppc.model", "Org/Tiny"}}}) {
    const Container container =
        Make({{"mounts", mounts},
              {"process", {{"args", {"vllm", "serve", "Org/Tiny"}}, {"env", {"HF_HOME=/cache"}}}}},
             annotations);
    const ContainerPaths paths(container);
    const Result<ctl::FoundModel> model = FindContainerModel(container, paths);
    ASSERT_TRUE(model.ok()) << annotations;
    EXPECT_EQ(model->directory, tree_.Path("/host/hub/models--Org--Tiny"));
    EXPECT_EQ(ContainerParams(container, paths, *model)["model"],
              "/cache/hub/models--Org--Tiny/snapshots/r1");
  }
}

TEST_F(ContainerTest, TheServicesNameIsThatOfTheNextContainer) {
  const Json annotations{{"ppc.model", "/models/qwen"}};
  const ctl::ServiceRequest first = Value(RequestOf(WithModel(annotations), Roots()));
  // A pod's volume has a new name on the host.
  tree_.Write("/pod2/qwen/model.safetensors", "weights");
  tree_.Write("/pod2/qwen/config.json", "{}");
  const ctl::ServiceRequest next = Value(RequestOf(
      Make({{"mounts", Json::array({Mount("/models", "/pod2")})}}, annotations), Roots()));
  EXPECT_EQ(first.spec["service_id"], next.spec["service_id"]);
  EXPECT_EQ(next.spec["params"]["model_path"], tree_.Path("/pod2/qwen"));
  tree_.Write("/pod2/qwen/config.json", "{\"other\": 1}");
  EXPECT_NE(
      first.spec["service_id"],
      RequestOf(Make({{"mounts", Json::array({Mount("/models", "/pod2")})}}, annotations), Roots())
          ->spec["service_id"]);
}

TEST_F(ContainerTest, AnnotationsBecomeTheRequest) {
  const ctl::ServiceRequest request = Value(RequestOf(WithModel({{"ppc.model", "/models/qwen"},
                                                                 {"ppc.service-id", "svc-a"},
                                                                 {"ppc.workers", "2"},
                                                                 {"ppc.xpus", "4,5"},
                                                                 {"ppc.first-worker", "2"}}),
                                                      Roots()));
  EXPECT_EQ(request.spec["service_id"], "svc-a");
  EXPECT_EQ(request.spec["workers"], 2);
  EXPECT_EQ(request.spec["xpus"], (Json{4, 5}));
  EXPECT_EQ(request.spec["first_worker"], 2);
  EXPECT_EQ(request.spec["pid"], 4321);
  EXPECT_EQ(request.spec["cgroup"], "/pods/a");
}

TEST_F(ContainerTest, ACgroupThatIsNotTheContainersOwnTellsNothing) {
  const Json annotations{{"ppc.model", "/models/qwen"}};
  for (const char* group : {"0::/runtime\n", "0::/\n"}) {
    tree_.Write("/proc/4321/cgroup", group);
    const ctl::ServiceRequest request = Value(RequestOf(WithModel(annotations), Roots()));
    EXPECT_FALSE(request.spec.contains("cgroup")) << group;
  }
}

TEST_F(ContainerTest, WhatIsWrongNamesTheAnnotation) {
  for (const auto& [key, value] :
       {std::pair{"ppc.workers", "two"}, std::pair{"ppc.xpus", "1,x"},
        std::pair{"ppc.service-id", "a b"}, std::pair{"ppc.models", "/m"},
        std::pair{"ppc.policy", "/m/evil.so"}, std::pair{"ppc.params", "["}}) {
    const Result<ctl::ServiceRequest> request =
        RequestOf(WithModel({{"ppc.model", "/models/qwen"}, {key, value}}), Roots());
    ASSERT_FALSE(request.ok()) << key;
    EXPECT_NE(request.error().message.find(key), std::string::npos) << request.error().message;
  }
  EXPECT_EQ(RequestOf(WithModel({{"ppc.model", "/models/none"}}), Roots()).error().code, ENOENT);
}

TEST_F(ContainerTest, SandboxesAndOtherContainersOfAPodAreLeftAlone) {
  EXPECT_TRUE(IsLeftAlone(WithModel({{"io.kubernetes.cri.container-type", "sandbox"}})));
  EXPECT_TRUE(IsLeftAlone(WithModel({{"io.kubernetes.cri-o.ContainerType", "sandbox"}})));
  EXPECT_TRUE(IsLeftAlone(
      WithModel({{"ppc.container", "engine"}, {"io.kubernetes.cri.container-name", "proxy"}})));
  EXPECT_FALSE(IsLeftAlone(
      WithModel({{"ppc.container", "engine"}, {"io.kubernetes.container.name", "engine"}})));
  EXPECT_FALSE(IsLeftAlone(WithModel({{"ppc.model", "/models/qwen"}})));
}

TEST_F(ContainerTest, NotesWhatAContainerRunsAndDropsTheDead) {
  const std::string notes = tree_.Path("/notes");
  tree_.WriteStat(4322, 1, 1, 200);
  KnownContainers known = Value(KnownContainers::Open(notes, Roots(), 100));
  ASSERT_TRUE(known.Note("a", {"/m", "svc-a", 4321}).ok());
  ASSERT_TRUE(known.Note("a", {"/m", "svc-a", 4321}).ok());  // noted again
  ASSERT_TRUE(known.Note("b", {"/m", "svc-a.2", 4322}).ok());
  EXPECT_EQ(KnownContainers::Open(notes, Roots(), 20).error().code, ETIMEDOUT);
  tree_.WriteStat(4321, 1, 1, 300);  // another process has the number
  ASSERT_TRUE(known.Note("c", {"/m", "svc-b", 4322}).ok());
  EXPECT_FALSE(known.Forget("a").has_value());
  EXPECT_EQ(known.Forget("b")->service_id, "svc-a.2");
  EXPECT_FALSE(known.Forget("b").has_value());
  EXPECT_EQ(known.Note("d", {"/m", "svc-d", 1}).error().code, ESRCH);
}

}  // namespace
}  // namespace ppc::oci
