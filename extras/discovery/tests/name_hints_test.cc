// SPDX-License-Identifier: Apache-2.0
#include "extras/discovery/name_hints.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace ppc {
namespace {

TEST(NameHintsTest, OneFileThatWasFoundNamesAllOfItsDirectory) {
  NameHints hints;
  hints.Note(1, 50, "first");
  hints.Note(2, 50, "second");
  hints.Note(3, 51, "third");
  EXPECT_EQ(hints.PathOf(1), "");
  hints.Learn(1, "a/b/first");
  EXPECT_EQ(hints.PathOf(1), "a/b/first");
  EXPECT_EQ(hints.PathOf(2), "a/b/second");
  EXPECT_EQ(hints.PathOf(3), "");
  hints.Learn(3, "third");
  EXPECT_EQ(hints.PathOf(3), "third");
}

TEST(NameHintsTest, ADirectoryThatWasRenamedIsLearntAgain) {
  NameHints hints;
  hints.Note(1, 50, "first");
  hints.Note(2, 50, "second");
  hints.Learn(1, "a/first");
  hints.Learn(2, "renamed/second");
  EXPECT_EQ(hints.PathOf(1), "renamed/first");
}

// The kernel told another name of the file than it was found by.
TEST(NameHintsTest, AnotherNameOfTheFileSaysNothingOfTheDirectory) {
  NameHints hints;
  hints.Note(1, 50, "first");
  hints.Learn(1, "elsewhere/link");
  EXPECT_EQ(hints.PathOf(1), "");
}

// Under overload most events are given up, while others wait for long.
TEST(NameHintsTest, WhatIsKeptIsNotPushedOutByWhatIsOnlyNoted) {
  constexpr uint64_t kFiles = 1'000'000;
  constexpr uint64_t kHeld = 32768;
  NameHints hints;
  hints.Note(1, 50, "file");
  hints.Learn(1, "a/file");
  uint64_t held = 0;
  for (uint64_t file = 1; file <= kFiles; ++file) {
    hints.Note(file, 50, "file");
    if (file % (kFiles / kHeld) == 0 && ++held <= kHeld) hints.Keep(file);
  }
  uint64_t known = 0;
  uint64_t kept = 0;
  for (uint64_t file = 1; file <= kFiles; ++file) {
    const bool is_known = !hints.PathOf(file).empty();
    known += is_known ? 1 : 0;
    kept += is_known && file % (kFiles / kHeld) == 0 ? 1 : 0;
  }
  EXPECT_GE(kept, kHeld * 3 / 4);
  EXPECT_LE(known, 43008u);
}

TEST(NameHintsTest, TheOldestOfTheKeptGoFirst) {
  constexpr uint64_t kFiles = 100'000;
  NameHints hints;
  hints.Note(1, 50, "file");
  hints.Learn(1, "a/file");
  for (uint64_t file = 1; file <= kFiles; ++file) {
    hints.Note(file, 50, "file");
    hints.Keep(file);
  }
  EXPECT_EQ(hints.PathOf(1), "");
  EXPECT_EQ(hints.PathOf(kFiles), "a/file");
}

TEST(NameHintsTest, ADirectoryMoreThanAreKeptPushesOneOut) {
  constexpr uint64_t kFolders = 2000;
  NameHints hints;
  for (uint64_t file = 1; file <= kFolders; ++file) {
    hints.Note(file, 1000 + file, "file");
    hints.Learn(file, "folder/file");
  }
  uint64_t known = 0;
  for (uint64_t file = 1; file <= kFolders; ++file) known += hints.PathOf(file).empty() ? 0 : 1;
  EXPECT_GT(known, 500u);
  EXPECT_LE(known, 1024u);
  EXPECT_EQ(hints.PathOf(kFolders), "folder/file");
}

}  // namespace
}  // namespace ppc
