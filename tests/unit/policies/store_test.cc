// SPDX-License-Identifier: Apache-2.0
// Template stores: generations, seals, parts of nodes; directories here, etcd in extras/etcd/tests.
#include "policies/maio/template/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>
#include <vector>

#include "daemon/base/digests.h"
#include "policies/maio/template/template_compare.h"
#include "tests/unit/child.h"
#include "tests/unit/has.h"
#include "tests/unit/policies/template_samples.h"
#include "tests/unit/temp_tree.h"

namespace ppc::maio {
namespace {

using Names = std::vector<std::string>;

std::vector<uint8_t> EncodedAs(uint64_t generation) {
  Template t = SampleTemplate();
  t.generation = generation;
  return Encode(t);
}

// How many ended with kWon; the others end with 0.
constexpr int kWon = 1;
int WhoWon(const std::vector<pid_t>& writers) {
  int won = 0;
  for (const pid_t writer : writers) {
    const int end = EndOf(writer);
    EXPECT_TRUE(end == 0 || end == kWon) << end;
    won += end == kWon ? 1 : 0;
  }
  return won;
}

class DirectoryStoreTest : public ::testing::Test {
 protected:
  const std::string kId = SampleTemplate().service_id;
  TempTree tree_;
  std::unique_ptr<TemplateStore> store_ = DirectoryStore(tree_.Path("/store"));
  std::string error_;
  TemplateStore::Value value_;

  // The generation that is there; 0: none can be got.
  uint64_t Generation() {
    value_ = {};
    EXPECT_EQ(store_->Get(kId, &value_, &error_), 0) << error_;
    return value_.generation;
  }
  Names Files() const {
    Names files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(tree_.Path("/store"))) {
      if (entry.is_regular_file()) files.push_back(entry.path().filename());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  std::string FileOf(const std::string& name) const {
    return tree_.Path("/store/" + name.substr(0, 2) + "/" + name + ".ppct");
  }
};

TEST_F(DirectoryStoreTest, OnePutOfEachGenerationSucceeds) {
  EXPECT_EQ(store_->Get(kId, &value_, &error_), -ENOENT);
  EXPECT_EQ(store_->Put(kId, EncodedAs(1), 1, &error_), -ESTALE);
  ASSERT_EQ(store_->Put(kId, EncodedAs(1), 0, &error_), 0) << error_;
  EXPECT_EQ(store_->Put(kId, EncodedAs(1), 0, &error_), -ESTALE);
  ASSERT_EQ(store_->Put(kId, EncodedAs(2), 1, &error_), 0) << error_;
  EXPECT_EQ(Generation(), 2u);
  EXPECT_EQ(value_.bytes, EncodedAs(2));
  // One file of the present generation, and the one that readers without a store know.
  EXPECT_EQ(Files(), (Names{kId + ".ppct", kId + ".ppct.g0000000000000002"}));
  Template t;
  EXPECT_EQ(Load(TemplatePath(tree_.Path("/store"), kId), &t, &error_), 0) << error_;
  EXPECT_EQ(t.generation, 2u);
  Names names;
  ASSERT_EQ(store_->List(&names, &error_), 0);
  EXPECT_EQ(names, Names{kId});
  EXPECT_EQ(store_->Remove(kId, &error_), 0) << error_;
  EXPECT_EQ(store_->Remove(kId, &error_), -ENOENT);
  EXPECT_EQ(Files(), Names());
}

// A template that was stored without a store is one generation, too.
TEST_F(DirectoryStoreTest, GoesOnFromAFileWithoutGenerations) {
  Template t = SampleTemplate();
  t.generation = 7;
  ASSERT_EQ(Store(tree_.Path("/store"), t, &error_), 0) << error_;
  EXPECT_EQ(Generation(), 7u);
  EXPECT_EQ(store_->Put(kId, EncodedAs(8), 6, &error_), -ESTALE);
  EXPECT_EQ(store_->Put(kId, EncodedAs(8), 7, &error_), 0) << error_;
  // And the other way round.
  t.generation = 9;
  ASSERT_EQ(Store(tree_.Path("/store"), t, &error_), 0) << error_;
  EXPECT_EQ(Generation(), 9u);
}

// A writer died between its claim and the rename: its value counts, and the next one goes on.
TEST_F(DirectoryStoreTest, FinishesWhatADeadWriterBegan) {
  ASSERT_EQ(store_->Put(kId, EncodedAs(1), 0, &error_), 0) << error_;
  const std::vector<uint8_t> second = EncodedAs(2);
  tree_.Write("/store/" + kId.substr(0, 2) + "/" + kId + ".ppct.g0000000000000002",
              std::string(second.begin(), second.end()));
  EXPECT_EQ(Generation(), 2u);
  EXPECT_EQ(value_.bytes, second);
  EXPECT_EQ(store_->Put(kId, EncodedAs(2), 1, &error_), -ESTALE);
  EXPECT_EQ(store_->Put(kId, EncodedAs(3), 2, &error_), 0) << error_;
  EXPECT_EQ(Generation(), 3u);
}

TEST_F(DirectoryStoreTest, WritersOfOneGenerationHaveOneWinner) {
  constexpr int kWriters = 24;
  constexpr uint64_t kRounds = 5;
  for (uint64_t round = 0; round < kRounds; round++) {
    std::vector<pid_t> writers;
    for (int i = 0; i < kWriters; i++) {
      writers.push_back(StartChild([&] {
        std::string error;
        const int rc =
            DirectoryStore(tree_.Path("/store"))->Put(kId, EncodedAs(round + 1), round, &error);
        return rc == 0 ? kWon : rc == -ESTALE ? 0 : 2;
      }));
    }
    EXPECT_EQ(WhoWon(writers), 1) << round;
    EXPECT_EQ(Generation(), round + 1);
  }
}

TEST_F(DirectoryStoreTest, ErrorsNameTheStore) {
  tree_.Write("/file", "");
  const auto on_file = DirectoryStore(tree_.Path("/file"));
  EXPECT_LT(on_file->Put(kId, EncodedAs(1), 0, &error_), 0);
  EXPECT_TRUE(Has(error_, "/file"));
  error_.clear();
  EXPECT_EQ(store_->Get("../x", &value_, &error_), -EINVAL);
  EXPECT_EQ(store_->Put(".hidden", {}, 0, &error_), -EINVAL);
  EXPECT_EQ(OpenStore("nfs:/x", &error_), nullptr);
  EXPECT_TRUE(Has(error_, "nfs:/x"));
  EXPECT_EQ(OpenStore("dir:relative", &error_), nullptr);
  EXPECT_NE(OpenStore("dir:/x", &error_), nullptr);
}

// Also of a key longer than a block; the zero byte between name and template is part of the text.
TEST(StoreKey, IsHmacSha256) {
  const auto digest = [](const std::string& key, const std::string& text) {
    // The name and the zero byte behind it are the beginning of the text.
    const size_t zero = text.find('\0');
    const std::string name = text.substr(0, zero);
    const std::vector<uint8_t> rest(text.begin() + static_cast<std::ptrdiff_t>(zero) + 1,
                                    text.end());
    const Sha256Digest d = StoreKey(key).Digest(name, rest);
    return Hex(d.data(), d.size());
  };
  // By `openssl dgst -sha256 -mac HMAC`.
  EXPECT_EQ(digest("Jefe", std::string("abcd\0what do ya want for nothing?", 33)),
            "a9a7861247bb1f4ae071099778be577df62930656b473e333dbee9d4ac3736ba");
  EXPECT_EQ(digest(std::string(131, '\xaa'), std::string("abcd\0x", 6)),
            "2757bf7a69977346c374f83ff09ef24305b3e7f75dca1270adadf3826baab641");
}

TEST(Seal, OnlyTheSameKeyAndNameOpenIt) {
  const StoreKey key(std::string(32, 'k'));
  const StoreKey other(std::string(32, 'o'));
  const std::vector<uint8_t> plain = EncodedAs(1);
  std::vector<uint8_t> sealed = plain;
  Seal(key, "abcd", &sealed);
  std::string error;
  const auto opens = [&](const StoreKey* with, const std::string& name,
                         std::vector<uint8_t> bytes) {
    return Unseal(with, name, &bytes, &error) && bytes == plain;
  };
  EXPECT_TRUE(opens(&key, "abcd", sealed));
  EXPECT_TRUE(opens(nullptr, "abcd", sealed));  // who has no key does not ask
  EXPECT_TRUE(opens(nullptr, "abcd", plain));
  EXPECT_FALSE(opens(&other, "abcd", sealed));
  EXPECT_FALSE(opens(&key, "abce", sealed));
  EXPECT_FALSE(opens(&key, "abcd", plain));
  EXPECT_TRUE(Has(error, "abcd"));
  for (const size_t at : {size_t{20}, sealed.size() - 1}) {
    std::vector<uint8_t> changed = sealed;
    changed[at] ^= 1;
    EXPECT_FALSE(opens(&key, "abcd", changed)) << at;
  }
}

TEST(StoreKey, IsAPrivateFileOfRoots) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  TempTree tree;
  tree.Write("/key", std::string(32, 'k') + "\n");
  std::string error;
  const std::string path = tree.Path("/key");
  for (const mode_t mode : {0640, 0604, 0644}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    EXPECT_FALSE(StoreKey::Load(path, &error)) << mode;
    EXPECT_TRUE(Has(error, path));
  }
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  const auto key = StoreKey::Load(path, &error);
  ASSERT_TRUE(key) << error;
  EXPECT_EQ(key->Digest("abcd", {1}), StoreKey(std::string(32, 'k')).Digest("abcd", {1}));
  ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
  EXPECT_FALSE(StoreKey::Load(path, &error));
  tree.Write("/short", "x");
  ASSERT_EQ(chmod(tree.Path("/short").c_str(), 0600), 0);
  EXPECT_FALSE(StoreKey::Load(tree.Path("/short"), &error));
  tree.Link("/link", path);
  EXPECT_FALSE(StoreKey::Load(tree.Path("/link"), &error));
  EXPECT_FALSE(StoreKey::Load(tree.Path("/none"), &error));
}

TEST_F(DirectoryStoreTest, KeyedTemplatesNeedTheKey) {
  const StoreKey key(std::string(32, 'k'));
  const StoreKey other(std::string(32, 'o'));
  Template t = SampleTemplate();
  uint64_t generation = 0;
  ASSERT_EQ(PutTemplate(store_.get(), &key, kId, &t, 0, &error_), 0) << error_;
  Template back;
  EXPECT_EQ(GetTemplate(store_.get(), &key, kId, &back, &generation, &error_), 0) << error_;
  EXPECT_EQ(Encode(back), Encode(t));
  EXPECT_EQ(generation, 1u);
  EXPECT_EQ(GetTemplate(store_.get(), &other, kId, &back, nullptr, &error_), -EBADMSG);
  EXPECT_EQ(GetTemplate(store_.get(), nullptr, kId, &back, nullptr, &error_), 0) << error_;
  EXPECT_EQ(Load(FileOf(kId), &back, &error_), 0) << error_;  // as a file, too
  ASSERT_EQ(PutTemplate(store_.get(), nullptr, kId, &t, 1, &error_), 0) << error_;
  EXPECT_EQ(GetTemplate(store_.get(), &key, kId, &back, nullptr, &error_), -EBADMSG);
  // Another service's template under this name.
  ASSERT_EQ(PutTemplate(store_.get(), nullptr, "other", &t, 0, &error_), 0) << error_;
  EXPECT_EQ(GetTemplate(store_.get(), nullptr, "other", &back, nullptr, &error_), -EBADMSG);
}

TEST_F(DirectoryStoreTest, PartsAreNamesOfTheirService) {
  EXPECT_EQ(PartName("abcd", 3), "abcd.n3.part");
  EXPECT_EQ(ServiceOfName("abcd.n3.part"), "abcd");
  EXPECT_EQ(ServiceOfName("abcd.n3.n12.part"), "abcd.n3");
  for (const char* name : {"abcd", "abcd.n.part", "abcd.nx.part", "abcd.part", "abcd.n3.parts"})
    EXPECT_EQ(ServiceOfName(name), name);
  EXPECT_FALSE(ValidStoreName("abc.n1.part"));
  EXPECT_TRUE(ValidStoreName(PartName(std::string(64, 'a'), 63)));
}

// The store of a hundred nodes: PPC_TEST_STORE, a directory that several machines share, of which
// this one has the nodes of PPC_TEST_NODES, "FIRST:END" (tests/nodes); else all in a directory of
// the test's.
struct Shared {
  static constexpr uint32_t kNodes = 100;
  std::string root;
  uint32_t first = 0;
  uint32_t end = kNodes;

  explicit Shared(const TempTree& tree) : root(tree.Path("/store")) {
    const char* given = getenv("PPC_TEST_STORE");
    if (given == nullptr) return;
    root = given;
    const std::string nodes = getenv("PPC_TEST_NODES");
    first = static_cast<uint32_t>(std::stoul(nodes));
    end = static_cast<uint32_t>(std::stoul(nodes.substr(nodes.find(':') + 1)));
  }
};

// Each of a hundred nodes puts its part and merges, at the same time: what ends in the store are
// all parts and the one template that they make.
TEST_F(DirectoryStoreTest, AHundredNodesEndWithOneTemplate) {
  const Shared shared(tree_);
  store_ = DirectoryStore(shared.root);
  constexpr uint32_t kNodes = Shared::kNodes;
  std::vector<Template> parts = PartsOf(kNodes);
  std::vector<pid_t> writers;
  for (uint32_t node = shared.first; node < shared.end; node++) {
    writers.push_back(StartChild([&] {
      const auto store = DirectoryStore(shared.root);
      std::string error;
      Template whole;
      const int put =
          PutTemplate(store.get(), nullptr, PartName(kId, node), &parts[node], 0, &error);
      const int merged = MergeParts(store.get(), nullptr, kId, kNodes, &whole, &error);
      if (put != 0 || (merged != 0 && merged != -ENOENT)) fprintf(stderr, "%s\n", error.c_str());
      return put == 0 && (merged == 0 || merged == -ENOENT) ? int{merged == 0} : 2;
    }));
  }
  const int merged = WhoWon(writers);
  const bool are_some = shared.first != shared.end;
  for (uint32_t node = are_some ? shared.first : 0; node < (are_some ? shared.end : kNodes);
       node++) {
    Template part;
    ASSERT_EQ(GetTemplate(store_.get(), nullptr, PartName(kId, node), &part, nullptr, &error_), 0)
        << error_;
    parts[node].generation = 1;
    EXPECT_EQ(Encode(part), Encode(parts[node])) << node;
    parts[node].generation = 0;
  }
  // Other machines' nodes are at it.
  if (are_some && shared.end - shared.first != kNodes) return;
  if (are_some) {
    EXPECT_GE(merged, 1);  // the last one finds them all
  }
  ExpectMerged(store_.get(), parts);
  // Again, it is the same.
  Template whole;
  ASSERT_EQ(MergeParts(store_.get(), nullptr, kId, kNodes, &whole, &error_), 0) << error_;
  EXPECT_EQ(whole.generation, 1u);
}

TEST_F(DirectoryStoreTest, APartThatIsRecordedAnewMakesANewTemplate) {
  Template whole;
  for (uint32_t node = 0; node < 2; node++) {
    EXPECT_EQ(MergeParts(store_.get(), nullptr, kId, 2, &whole, &error_), -ENOENT);
    Template part = PartOf(node, 2);
    ASSERT_EQ(PutTemplate(store_.get(), nullptr, PartName(kId, node), &part, 0, &error_), 0);
  }
  ASSERT_EQ(MergeParts(store_.get(), nullptr, kId, 2, &whole, &error_), 0) << error_;
  EXPECT_EQ(whole.generation, 1u);
  Template part = PartOf(1, 2);
  part.created_ns = 5000;
  part.groups[0].extents = {{0, 40, 1}};
  ASSERT_EQ(PutTemplate(store_.get(), nullptr, PartName(kId, 1), &part, 1, &error_), 0) << error_;
  ASSERT_EQ(MergeParts(store_.get(), nullptr, kId, 2, &whole, &error_), 0) << error_;
  EXPECT_EQ(whole.generation, 2u);
  EXPECT_EQ(whole.groups.back().extents, part.groups[0].extents);
  EXPECT_TRUE(whole.flags & kMerged);
}

}  // namespace
}  // namespace ppc::maio
