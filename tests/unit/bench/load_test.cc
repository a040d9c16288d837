// SPDX-License-Identifier: Apache-2.0
// Making a small model and loading it: modes and worker counts agree, and damage is told.  The
// running checksum equals a plain computation, and depends on values and order, not on pieces.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "daemon/base/unique_fd.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"
#include "tools/model/common/content.h"
#include "tools/model/common/model_dir.h"
#include "tools/model/loadmodel/worker.h"
#include "tools/model/mkmodel/writer.h"
#include "tools/model/sample/residency.h"

namespace ppc::bench {
namespace {

namespace fs = std::filesystem;

class LoadTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kScale = 16384;  // 72B in 9 MB

  std::string MakeModel(bool is_hf_cache = false) {
    WriteOptions options;
    options.out = root_ / "model";
    options.scale = kScale;
    options.is_hf_cache = is_hf_cache;
    return Value(WriteModel(*FindModel("qwen2.5-72b"), options)).model_dir;
  }

  // The worker's checksum, or its error.
  static std::string Load(const std::string& dir, int worker, uint32_t workers, ReadMode mode,
                          uint64_t* bytes = nullptr) {
    LoadConfig config;
    config.dir = dir;
    config.worker = worker;
    config.workers = config.tp = workers;
    config.is_mmap = mode == ReadMode::kMmap;
    config.is_direct = mode == ReadMode::kDirect;
    Result<ModelDir> model = OpenModelDir(dir);
    if (!model.ok()) return model.error().message;
    Worker loader(config, *model);
    const Status loaded = loader.Load();
    if (!loaded.ok()) return loaded.error().message;
    if (bytes != nullptr) *bytes += loader.bytes();
    return std::to_string(loader.checksum());
  }

  const TempTree tree_;
  const fs::path root_ = tree_.Root();
};

TEST_F(LoadTest, ModesAgreeForEveryWorker) {
  const std::string dir = MakeModel();
  for (const uint32_t workers : {1u, 2u, 4u})
    for (uint32_t worker = 0; worker < workers; ++worker) {
      const std::string mapped = Load(dir, static_cast<int>(worker), workers, ReadMode::kMmap);
      EXPECT_EQ(mapped, Load(dir, static_cast<int>(worker), workers, ReadMode::kRead));
      EXPECT_EQ(mapped.find_first_not_of("0123456789"), std::string::npos) << mapped;
    }
}

TEST_F(LoadTest, OtherOrdersAndOtherRanksAreTheSameModel) {
  LoadConfig config;
  config.dir = MakeModel();
  config.workers = config.tp = 2;
  const ModelDir model = *OpenModelDir(config.dir);
  ASSERT_GT(model.shards.size(), 2u);
  uint64_t bytes = 0;
  const std::string first = Load(config.dir, 0, 2, ReadMode::kMmap, &bytes);
  const std::string second = Load(config.dir, 1, 2, ReadMode::kMmap);
  config.worker = 0;
  config.shuffle = 7;
  Worker shuffled(config, model);
  EXPECT_NE(shuffled.shards(), model.shards);
  EXPECT_TRUE(std::is_permutation(shuffled.shards().begin(), shuffled.shards().end(),
                                  model.shards.begin(), model.shards.end()));
  ASSERT_TRUE(shuffled.Load().ok());
  // The checksum is one of the order as well.
  EXPECT_NE(std::to_string(shuffled.checksum()), first);
  config.is_mmap = false;
  Worker read(config, model);
  ASSERT_TRUE(read.Load().ok());
  EXPECT_EQ(read.checksum(), shuffled.checksum());
  EXPECT_EQ(read.bytes(), bytes);
  config.shuffle = 0;
  config.ranks = {1, 0};
  Worker swapped(config, model);
  ASSERT_TRUE(swapped.Load().ok());
  EXPECT_EQ(std::to_string(swapped.checksum()), second);
}

TEST_F(LoadTest, WorkersTakeTheWholeModel) {
  const std::string dir = MakeModel();
  uint64_t one = 0, two = 0;
  Load(dir, 0, 1, ReadMode::kMmap, &one);
  Load(dir, 0, 2, ReadMode::kMmap, &two);
  Load(dir, 1, 2, ReadMode::kMmap, &two);
  uint64_t tensors = 0;
  for (const Shard& shard : ShardModel(*FindModel("qwen2.5-72b"), kScale))
    tensors += shard.data_bytes();
  EXPECT_EQ(one, tensors);
  EXPECT_GT(two, one);  // norms are replicated
  EXPECT_LT(two, one + one / 50);
}

// Every family can be made and loaded; a sparse one has the same headers and no blocks of tensors.
TEST_F(LoadTest, OtherFamiliesLoadAndSparseOnesHaveTheSameHeaders) {
  for (const char* name : {"llama-2-7b", "deepseek-r1"}) {
    WriteOptions options;
    options.out = root_ / "full";
    options.scale = 65536;
    const WrittenModel full = Value(WriteModel(*FindModel(name), options));
    uint64_t bytes = 0;
    const std::string mapped = Load(full.model_dir, 1, 2, ReadMode::kMmap, &bytes);
    EXPECT_GT(bytes, full.tensor_bytes / 3) << mapped;
    EXPECT_EQ(mapped, Load(full.model_dir, 1, 2, ReadMode::kRead));
    fs::remove_all(root_ / "full");
  }
  WriteOptions options;
  options.out = root_ / "sparse";
  options.is_sparse = true;
  ASSERT_TRUE(WriteModel(*FindModel("llama-2-7b"), options).ok());
  const std::vector<Shard> shards = ShardModel(*FindModel("llama-2-7b"), 1);
  std::ifstream file(options.out + "/" + shards[1].file, std::ios::binary);
  std::string header(shards[1].Header().size(), '\0');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  EXPECT_EQ(header, shards[1].Header());
  struct stat info {};
  ASSERT_EQ(::stat((options.out + "/" + shards[0].file).c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 9976570304);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
}

// With the cost of remote bytes the device is given as much more as the pages say.
TEST_F(LoadTest, RemoteBytesCostTheDeviceMore) {
  LoadConfig config;
  config.dir = MakeModel();
  config.worker = 0;
  config.workers = config.tp = 2;
  config.has_placement = true;
  config.remote_cost = 1.5;
  Json reports[2];
  for (const int node : {0, 99}) {  // no page lies on node 99
    config.nodes = {node};
    Worker worker(config, *OpenModelDir(config.dir));
    ASSERT_TRUE(worker.Load().ok());
    reports[node == 99] = worker.Report();
  }
  const Json& far = reports[1];
  if (far["placement"]["wrong"] == 0) GTEST_SKIP() << "this kernel does not tell pages' nodes";
  const auto bytes = far["bytes"].get<uint64_t>(), remote = far["remote_bytes"].get<uint64_t>();
  EXPECT_EQ(remote, far["placement"]["wrong"].get<uint64_t>() * 8 * 4096);
  EXPECT_GT(remote, bytes / 3);
  EXPECT_NEAR(far["device_bytes"].get<double>(), static_cast<double>(bytes) + remote * 0.5, 100);
  const Json& near = reports[0];
  EXPECT_EQ(near["device_bytes"].get<uint64_t>(),
            near["bytes"].get<uint64_t>() + near["remote_bytes"].get<uint64_t>() / 2);
  EXPECT_LT(near["remote_bytes"].get<uint64_t>(), remote);
}

// A shard leaves the page cache when it was loaded; what another process still maps stays.
TEST_F(LoadTest, DropsShardsThatNobodyMaps) {
  LoadConfig config;
  config.dir = MakeModel();
  for (const fs::directory_entry& file : fs::directory_iterator(config.dir)) {
    const UniqueFd fd(::open(file.path().c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::fsync(fd.Get()), 0);  // what is dirty cannot be dropped
  }
  const auto resident = [&] {
    uint64_t pages = 0;
    const auto files = MapDirectory(config.dir);
    for (const auto& [name, file] : *files)
      if (name.find(".safetensors") != std::string::npos && name.find(".json") == std::string::npos)
        pages += file.Resident(0, file.pages());
    return pages;
  };
  config.worker = 0;
  Worker keeps(config, *OpenModelDir(config.dir));
  ASSERT_TRUE(keeps.Load().ok());
  EXPECT_GT(resident(), 2000u);
  config.drops_shards = true;
  const auto other =
      Value(ShardSource::Open(config.dir + "/model-00003-of-00037.safetensors", ReadMode::kMmap));
  const volatile uint8_t touched = **other->Fetch(0, 1);
  (void)touched;
  Worker drops(config, *OpenModelDir(config.dir));
  ASSERT_TRUE(drops.Load().ok());
  EXPECT_GT(resident(), 0u);
  EXPECT_LT(resident(), 200u);
  EXPECT_EQ(drops.checksum(), keeps.checksum());
}

TEST_F(LoadTest, ChecksumSeesOneFlippedBit) {
  const std::string dir = MakeModel();
  const std::string right = Load(dir, 0, 1, ReadMode::kMmap);
  const std::string shard = dir + "/model-00020-of-00037.safetensors";
  {
    std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-7, std::ios::end);
    const char byte = static_cast<char>(file.get() ^ 4);
    file.seekp(-7, std::ios::end);
    file.put(byte);
  }
  EXPECT_NE(Load(dir, 0, 1, ReadMode::kMmap), right);
}

TEST_F(LoadTest, HubCacheTreeLoadsThroughItsLinks) {
  const std::string plain = Load(MakeModel(), 0, 1, ReadMode::kMmap);
  fs::remove_all(root_ / "model");
  const std::string dir = MakeModel(/*is_hf_cache=*/true);
  EXPECT_TRUE(Has(dir, "models--Qwen--Qwen2.5-72B/snapshots/"));
  EXPECT_TRUE(fs::is_symlink(dir + "/config.json"));
  EXPECT_EQ(fs::read_symlink(dir + "/config.json").string().rfind("../../blobs/", 0), 0u);
  std::ifstream ref(root_ / "model/models--Qwen--Qwen2.5-72B/refs/main");
  std::string revision;
  ref >> revision;
  EXPECT_EQ(revision, fs::path(dir).filename().string());
  EXPECT_EQ(Load(dir, 0, 1, ReadMode::kMmap), plain);
}

TEST_F(LoadTest, NoPageIsAllZeros) {
  const std::string dir = MakeModel();
  std::ifstream file(dir + "/model-00002-of-00037.safetensors", std::ios::binary);
  std::vector<char> page(4096);
  for (int i = 0; file.read(page.data(), 4096); ++i)
    EXPECT_NE(std::count(page.begin(), page.end(), 0), 4096) << i;
}

TEST_F(LoadTest, MissingShardIsNamed) {
  const std::string dir = MakeModel();
  fs::remove(dir + "/model-00005-of-00037.safetensors");
  const std::string error = Load(dir, 0, 1, ReadMode::kMmap);
  EXPECT_TRUE(Has(error, "model-00005-of-00037.safetensors"));
  EXPECT_TRUE(Has(error, "missing"));
}

TEST_F(LoadTest, DamagedShardsAreNamed) {
  const std::string dir = MakeModel();
  const std::string shard = dir + "/model-00001-of-00037.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 1);
  for (const ReadMode mode : {ReadMode::kMmap, ReadMode::kRead}) {
    const std::string error = Load(dir, 0, 1, mode);
    EXPECT_TRUE(Has(error, "model-00001-of-00037.safetensors: truncated"));
  }
  std::ofstream(shard, std::ios::binary) << "12345678garbage that is no header";
  EXPECT_TRUE(Has(Load(dir, 0, 1, ReadMode::kMmap), "100 MB"));
  std::ofstream(shard, std::ios::binary) << "abc";
  EXPECT_TRUE(Has(Load(dir, 0, 1, ReadMode::kMmap), "shorter than 8"));
}

TEST_F(LoadTest, BrokenIndexAndEmptyDirectoryAreTold) {
  EXPECT_TRUE(Has(Load(root_, 0, 1, ReadMode::kMmap), "no *.safetensors"));
  EXPECT_TRUE(Has(Load(root_ / "nothing", 0, 1, ReadMode::kMmap), "No such file"));
  const std::string dir = MakeModel();
  std::ofstream(dir + "/model.safetensors.index.json") << "{\"weight_map\": {}}";
  EXPECT_TRUE(Has(Load(dir, 0, 1, ReadMode::kMmap), "no weight_map"));
  std::ofstream(dir + "/model.safetensors.index.json") << "{\"weight_map\": {\"a\": \"../x\"}}";
  EXPECT_TRUE(Has(Load(dir, 0, 1, ReadMode::kMmap), "no file name"));
}

TEST_F(LoadTest, WithoutIndexAllShardsAreLoaded) {
  const std::string dir = MakeModel();
  const std::string with_index = Load(dir, 0, 1, ReadMode::kMmap);
  fs::remove(dir + "/model.safetensors.index.json");
  EXPECT_EQ(Load(dir, 0, 1, ReadMode::kMmap), with_index);
}

std::vector<uint8_t> Data(uint64_t bytes) {
  std::vector<uint8_t> data(bytes);
  FillContent(FileKey(7, 3), 0, data.data(), bytes);
  return data;
}

uint64_t Plain(const std::vector<uint8_t>& data) {
  uint64_t a[2] = {1, 1}, b[2] = {0, 0};
  for (uint64_t i = 0; i < data.size(); i += 16) {
    uint8_t block[16] = {};
    for (uint64_t k = 0; k < 16 && i + k < data.size(); ++k) block[k] = data[i + k];
    for (int lane = 0; lane < 2; ++lane) {
      uint64_t word = 0;
      for (int k = 7; k >= 0; --k) word = word << 8 | block[8 * lane + k];
      a[lane] += word;
      b[lane] += a[lane];
    }
  }
  uint64_t value = 0x70706331;
  for (const uint64_t part : {a[0], a[1], b[0], b[1]}) value = MixWord(value ^ part);
  return value;
}

uint64_t Fold(const std::vector<uint8_t>& data, uint64_t piece) {
  Checksum checksum;
  std::vector<uint8_t> copy(data.size() + 1);
  for (uint64_t at = 0; at < data.size(); at += piece)
    checksum.CopyFold(copy.data() + 1 + at, data.data() + at, std::min(piece, data.size() - at));
  EXPECT_TRUE(std::equal(data.begin(), data.end(), copy.begin() + 1));
  return checksum.Value();
}

TEST(Checksum, EqualsThePlainComputation) {
  for (const uint64_t bytes : {0u, 1u, 15u, 16u, 17u, 64u, 100u, 4096u, 10007u})
    EXPECT_EQ(Fold(Data(bytes), 1 << 20), Plain(Data(bytes))) << bytes;
}

TEST(Checksum, DoesNotDependOnPieces) {
  const std::vector<uint8_t> data = Data(10007);
  EXPECT_EQ(Fold(data, 16), Fold(data, 1 << 20));
  EXPECT_EQ(Fold(data, 4096), Fold(data, 112));
}

TEST(Checksum, SeesChangedSwappedAndMissingBytes) {
  const std::vector<uint8_t> data = Data(8192);
  const uint64_t right = Fold(data, 8192);
  for (const uint64_t at : {0u, 63u, 4096u, 8191u}) {
    std::vector<uint8_t> changed = data;
    changed[at] ^= 0x80;
    EXPECT_NE(Fold(changed, 8192), right) << at;
  }
  std::vector<uint8_t> swapped = data;
  std::swap_ranges(swapped.begin(), swapped.begin() + 4096, swapped.begin() + 4096);
  EXPECT_NE(Fold(swapped, 8192), right);
  std::vector<uint8_t> zeroed = data;
  std::fill(zeroed.begin() + 4096, zeroed.end(), 0);
  EXPECT_NE(Fold(zeroed, 8192), right);
}

TEST(Content, FollowsFromPositionAlone) {
  std::vector<uint8_t> whole(1000), part(100);
  FillContent(FileKey(1, 2), 0, whole.data(), whole.size());
  FillContent(FileKey(1, 2), 50, part.data(), part.size());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 400));
  FillContent(FileKey(2, 2), 50, part.data(), part.size());
  EXPECT_FALSE(std::equal(part.begin(), part.end(), whole.begin() + 400));
}

}  // namespace
}  // namespace ppc::bench
