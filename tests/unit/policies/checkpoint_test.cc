// SPDX-License-Identifier: Apache-2.0
//
// Notes that outlive a crash, and what they say of a service.
#include "policies/maio/follow/checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "policies/maio/follow/affinity.h"
#include "policies/maio/follow/evictor.h"
#include "policies/maio/follow/progress.h"
#include "tests/unit/fuzz.h"
#include "tests/unit/units.h"

namespace ppc::maio {
namespace {

using Note = std::vector<uint8_t>;

TEST(MaioCheckpointTest, TheLastNoteIsRead) {
  std::vector<uint64_t> memory(Checkpoint::BytesFor(100) / 8);
  const size_t bytes = memory.size() * 8;
  EXPECT_TRUE(Checkpoint(memory.data(), bytes).Read().empty());
  Checkpoint checkpoint(memory.data(), bytes);
  for (uint8_t i = 1; i < 5; i++) {
    EXPECT_TRUE(checkpoint.Write(Note(i, i)));
    EXPECT_EQ(Checkpoint(memory.data(), bytes).Read(), Note(i, i));
  }
  // The next one goes on after it.
  Checkpoint next(memory.data(), bytes);
  EXPECT_TRUE(next.Write(Note(100, 9)));
  EXPECT_EQ(next.Read(), Note(100, 9));
  EXPECT_FALSE(next.Write(Note(next.room() + 1, 8)));
  EXPECT_EQ(Checkpoint(memory.data(), bytes).Read(), Note(100, 9));
}

TEST(MaioCheckpointTest, WithoutMemoryNothingIsKept) {
  Checkpoint none;
  EXPECT_FALSE(none.Write(Note(1, 1)));
  EXPECT_TRUE(none.Read().empty());
  Checkpoint refused(nullptr, 4096);
  EXPECT_FALSE(refused.is_kept());
  EXPECT_FALSE(refused.Write(Note(1, 1)));
  EXPECT_TRUE(refused.Read().empty());
}

// However far the second note has got, in whatever order its words were stored: the first is read,
// or the second.
TEST(MaioCheckpointTest, ATornNoteLeavesTheOneBefore) {
  constexpr size_t kRoom = 64;
  std::vector<uint64_t> before(Checkpoint::BytesFor(kRoom) / 8);
  const size_t bytes = before.size() * 8;
  const Note first(kRoom, 1), second(kRoom, 2), third(kRoom, 3);
  Checkpoint checkpoint(before.data(), bytes);
  ASSERT_TRUE(checkpoint.Write(first));
  ASSERT_TRUE(checkpoint.Write(second));
  std::vector<uint64_t> after = before;
  ASSERT_TRUE(Checkpoint(after.data(), bytes).Write(third));
  std::mt19937_64 random(1);
  uint32_t torn = 0;
  for (int i = 0; i < 2000; i++) {
    std::vector<uint64_t> memory = before;
    for (size_t w = 0; w < memory.size(); w++) {
      if (random() % 2 != 0) memory[w] = after[w];
    }
    const Note note = Checkpoint(memory.data(), bytes).Read();
    EXPECT_TRUE(note == second || note == third);
    torn += note == second ? 1 : 0;
  }
  EXPECT_GT(torn, 0u);
}

// Two workers that read two files, partly the same.
class MaioProgressTest : public ::testing::Test {
 protected:
  struct Follower {
    explicit Follower(const Template& t)
        : layout(t, std::vector<uint64_t>{1, 2}),
          table(&layout),
          matcher(&table, kMiB, kMiB),
          affinity(&context, layout, false),
          planner(&table, &matcher, &affinity, 0, 1),
          evictor(&table, &matcher, &planner, 4 * kMiB, 1) {}

    void Read(uint32_t group, uint32_t file, uint64_t first_mib, uint64_t end_mib) {
      for (uint64_t mib = first_mib; mib < end_mib; mib++) {
        Observation o;
        o.group = group;
        o.file = file;
        o.first_page = mib * kMiBPages;
        o.end_page = o.first_page + 1;
        o.now_ns = ns += 10'000'000;
        matcher.Observe(o);
      }
    }
    IoList Evict() {
      ppc_memory memory = {};
      memory.threshold = 1 << 30;
      memory.used = 2 << 29;
      IoList list;
      evictor.Evict(
          memory, ns, true, [](uint64_t, uint64_t, uint64_t) { return false; }, &list);
      return list;
    }
    Progress Save() const {
      Progress progress;
      progress.distance = evictor.distance();
      for (uint32_t g = 0; g < layout.groups().size(); g++) {
        progress.groups.push_back(matcher.Save(g));
        progress.groups.back().released = evictor.position(g);
      }
      return progress;
    }
    void Resume(const Progress& progress) {
      for (uint32_t g = 0; g < layout.groups().size(); g++)
        matcher.Resume(g, progress.groups[g], ns + 1);
      evictor.Resume(progress);
    }
    // As many pieces are held as uses are not burnt.
    void Check() const {
      std::vector<uint32_t> pending(layout.pieces().size());
      for (uint32_t g = 0; g < layout.groups().size(); g++) {
        for (const UseList& list : layout.groups()[g].lists) {
          for (uint32_t i = 0; i < list.size(); i++) {
            const Use use = list.At(layout.pieces(), i);
            pending[use.piece] += use.state != UseState::kBurnt ? 1 : 0;
          }
        }
      }
      for (size_t p = 0; p < pending.size(); p++) EXPECT_EQ(layout.pieces()[p].pending, pending[p]);
    }
    std::vector<UseState> States() const {
      std::vector<UseState> states;
      for (const LayoutGroup& group : layout.groups()) {
        for (const UseList& list : group.lists) {
          for (uint32_t i = 0; i < list.size(); i++)
            states.push_back(list.At(layout.pieces(), i).state);
        }
      }
      return states;
    }

    uint64_t ns = 1'000'000'000;
    ppc_context context = {};
    Layout layout;
    PieceTable table;
    Matcher matcher;
    Affinity affinity;
    Planner planner;
    Evictor evictor;
  };

  MaioProgressTest() {
    template_.service_id = "abcd";
    template_.files.push_back({"a", 64 * kMiB, 0, FileKind::kSafetensors, {}});
    template_.files.push_back({"b", 64 * kMiB, 0, FileKind::kSafetensors, {}});
    TemplateGroup one;
    one.id = 0;
    one.extents = {{0, 0, 64 * kMiBPages}, {1, 0, 64 * kMiBPages}};
    TemplateGroup two;
    two.id = 1;
    two.extents = {{0, 0, 32 * kMiBPages}, {1, 16 * kMiBPages, 16 * kMiBPages}};
    template_.groups = {one, two};
    follower_ = std::make_unique<Follower>(template_);
    follower_->Read(0, 0, 0, 40);
    follower_->Read(1, 0, 0, 20);
    (void)follower_->Evict();
  }

  Template template_;
  std::unique_ptr<Follower> follower_;
};

TEST_F(MaioProgressTest, OneThatTakesOverIsWhereTheOtherWas) {
  const std::optional<Progress> told =
      DecodeProgress(follower_->layout, EncodeProgress(follower_->layout, follower_->Save()));
  ASSERT_TRUE(told);
  Follower next(template_);
  next.Resume(*told);
  next.Check();
  EXPECT_EQ(next.States(), follower_->States());
  for (uint32_t g : {0u, 1u}) {
    const Cursor& was = follower_->matcher.cursors()[g];
    const Cursor& is = next.matcher.cursors()[g];
    EXPECT_EQ(is.pos, was.pos);
    EXPECT_EQ(is.consumed, was.consumed);
    EXPECT_EQ(is.streams[0].front, was.streams[0].front);
    EXPECT_EQ(next.evictor.position(g), follower_->evictor.position(g));
  }
  // It says the same of itself.
  EXPECT_EQ(EncodeProgress(next.layout, next.Save()),
            EncodeProgress(follower_->layout, follower_->Save()));
  // And goes on dropping where both have read: what the other may not have got to drop, too.
  next.ns = follower_->ns;
  next.Read(1, 0, 20, 32);
  uint64_t end = 0;
  IoList list = next.Evict();
  for (const ppc_io& io : list.ios()) end = std::max(end, io.offset + io.size);
  EXPECT_GE(end, 24 * kMiB);
  EXPECT_LE(end, 36 * kMiB);
}

// The reader went on while nobody told: what lies between is read, also of a file it has ended.
TEST_F(MaioProgressTest, WhatWasReadMeanwhileIsPassed) {
  Follower next(template_);
  next.Resume(follower_->Save());
  next.ns = follower_->ns + 300'000'000;
  next.Read(0, 1, 2, 4);
  const UseList& list = next.layout.ListOf(0, 0);
  for (uint32_t i = 0; i < list.size(); i++)
    EXPECT_NE(list.At(next.layout.pieces(), i).state, UseState::kPending) << i;
  EXPECT_EQ(next.matcher.cursors()[0].streams[1].front, 3u);
  next.Check();
}

// What the kernel reads ahead is told before what the reader reads, and is no place of the
// reader's.
TEST_F(MaioProgressTest, WhatIsReadAheadDoesNotHideWhatWasReadMeanwhile) {
  Follower next(template_);
  next.Resume(follower_->Save());
  next.ns = follower_->ns + 300'000'000;
  Observation ahead;
  ahead.file = 1;
  ahead.first_page = 3 * kMiBPages;
  ahead.end_page = ahead.first_page + 16;
  ahead.miss = ahead.idle_loader = true;
  ahead.user = false;
  ahead.now_ns = next.ns;
  EXPECT_TRUE(next.matcher.Observe(ahead).known);
  EXPECT_TRUE(next.matcher.IsAnyAway());
  next.Read(0, 1, 2, 4);
  const UseList& list = next.layout.ListOf(0, 0);
  for (uint32_t i = 0; i < list.size(); i++)
    EXPECT_NE(list.At(next.layout.pieces(), i).state, UseState::kPending) << i;
  EXPECT_EQ(next.matcher.jumps(), 0u);
  next.Check();
}

// The one before died before the reader had begun, as far as was noted.
TEST_F(MaioProgressTest, WhoHadNotBegunMayHaveBegunMeanwhile) {
  const Progress nothing = Follower(template_).Save();
  const auto pending = [](const Follower& follower) {
    const UseList& list = follower.layout.ListOf(0, 0);
    uint32_t count = 0;
    for (uint32_t i = 0; i < 20; i++)
      count += list.At(follower.layout.pieces(), i).state == UseState::kPending ? 1 : 0;
    return count;
  };
  Follower next(template_);
  next.Resume(nothing);
  EXPECT_TRUE(next.matcher.IsAnyAway());
  next.ns = 300'000'000;
  next.Read(0, 0, 20, 21);
  EXPECT_EQ(pending(next), 0u);
  EXPECT_EQ(next.matcher.jumps(), 0u);
  next.Read(1, 0, 20, 21);
  EXPECT_FALSE(next.matcher.IsAnyAway());
  next.Check();
  // Later it has been seen from its beginning, wherever that is.
  Follower late(template_);
  late.Resume(nothing);
  late.ns = 1 + 3 * kAwayKeepNs;
  late.Read(0, 0, 20, 24);
  EXPECT_EQ(pending(late), 20u);
}

// Files read one after the other, of which those that were ended last look as if they were read.
TEST(MaioProgress, FilesThatWereEndedAreNoStreams) {
  Template t;
  t.service_id = "abcd";
  t.groups.resize(1);
  for (uint32_t f = 0; f < 6; f++) {
    t.files.push_back({"f" + std::to_string(f), 4 << 20, 0, FileKind::kSafetensors, {}});
    t.groups[0].extents.push_back({f, 0, 4 * kMiBPages});
  }
  Layout layout(t, std::vector<uint64_t>{1, 2, 3, 4, 5, 6});
  PieceTable table(&layout);
  uint64_t ns = 1;
  const auto read = [&ns](Matcher* matcher, uint32_t file, uint64_t mib) {
    Observation o;
    o.file = file;
    o.first_page = mib * kMiBPages;
    o.end_page = o.first_page + 1;
    o.now_ns = ns += 10'000'000;
    matcher->Observe(o);
  };
  Matcher matcher(&table, kMiB, kMiB);
  for (uint32_t file = 0; file < 3; file++)
    for (uint64_t mib = 0; mib < 4; mib++) read(&matcher, file, mib);
  ASSERT_EQ(matcher.cursors()[0].active.size(), 3u);
  Layout again(t, std::vector<uint64_t>{1, 2, 3, 4, 5, 6});
  PieceTable next_table(&again);
  Matcher next(&next_table, kMiB, kMiB);
  next.Resume(0, matcher.Save(0), ns);
  ns += 300'000'000;
  read(&next, 5, 1);
  for (const uint32_t file : {3u, 4u})
    EXPECT_NE(again.ListOf(0, file).At(again.pieces(), 0).state, UseState::kPending) << file;
  EXPECT_EQ(next.jumps(), 0u);
}

// Where they are now nobody knows before they have said so: it may all be behind them.
TEST_F(MaioProgressTest, NothingIsLoadedBeforeItsReaderIsSeen) {
  Follower next(template_);
  next.Resume(follower_->Save());
  const uint64_t now_ns = follower_->ns + 300'000'000;
  next.ns = now_ns;
  next.planner.WaitForReaders(now_ns + 1'000'000'000);
  ppc_memory memory = {};
  memory.threshold = memory.room = 1 << 30;
  IoList list;
  next.planner.Plan(8 * kMiB, memory, now_ns, &list);
  EXPECT_TRUE(list.empty());
  next.Read(0, 1, 2, 3);
  next.planner.Plan(256 * kMiB, memory, next.ns, &list);
  ASSERT_FALSE(list.empty());
  for (const ppc_io& io : list.ios()) EXPECT_EQ(io.file, 2u) << "the first file is read";
  // One that has nothing to say for so long may still need it.
  list.Clear();
  next.planner.Plan(256 * kMiB, memory, now_ns + 1'000'000'001, &list);
  EXPECT_FALSE(list.empty());
}

// Nobody reads so much in no time: that is a jump, which one event does not prove.
TEST_F(MaioProgressTest, AJumpMeanwhileIsAJump) {
  Follower next(template_);
  next.Resume(follower_->Save());
  next.ns = follower_->matcher.cursors()[0].last_ns;
  next.Read(0, 1, 60, 61);
  EXPECT_EQ(next.layout.ListOf(0, 0).At(next.layout.pieces(), 63).state, UseState::kPending);
  next.Check();
}

TEST_F(MaioProgressTest, OfAnotherTemplateItIsRefused) {
  const Note note = EncodeProgress(follower_->layout, follower_->Save());
  Template other = template_;
  std::vector<Extent> extents = other.groups[1].extents.ToVector();
  extents[0].pages -= kMiBPages;
  other.groups[1].extents = extents;
  Follower next(other);
  EXPECT_FALSE(DecodeProgress(next.layout, note));
  EXPECT_NE(next.layout.Digest(), follower_->layout.Digest());
}

// Bytes that somebody made up, or that a fault changed: refused, or something that can be gone on
// from, with every piece held by those who still need it.
TEST_F(MaioProgressTest, BytesAreNotTrusted) {
  const Note good = EncodeProgress(follower_->layout, follower_->Save());
  std::mt19937_64 random(1);
  const int mutations = Mutations(20000);
  GrowthCheck growth(mutations);
  uint32_t taken = 0;
  for (int i = 0; i < mutations; i++) {
    growth.Round();
    Note note = good;
    const uint64_t changes = 1 + random() % 4;
    for (uint64_t c = 0; c < changes; c++) {
      // Small numbers most of the time: those are what lists and indexes are made of.
      const size_t at = 16 + random() % (note.size() - 16);
      note[at] = static_cast<uint8_t>(random() % 3 == 0 ? random() : random() % 80);
    }
    if (random() % 8 == 0) note.resize(random() % note.size());
    const std::optional<Progress> told = DecodeProgress(follower_->layout, note);
    if (!told) continue;
    taken++;
    Follower next(template_);
    next.Resume(*told);
    next.Check();
    next.Read(0, 0, 30, 64);
    next.Read(1, 1, 16, 32);
    (void)next.Evict();
    next.Check();
  }
  EXPECT_GT(taken, 100u);
}

}  // namespace
}  // namespace ppc::maio
