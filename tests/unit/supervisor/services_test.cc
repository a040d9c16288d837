// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/services.h"

#include <gtest/gtest.h>

namespace ppc::control {
namespace {

Service Started(const std::string& id, uint32_t number) {
  Service service;
  service.id = id;
  service.number = number;
  service.message = {{"service_id", id}, {"service", number}};
  service.is_pending = false;
  return service;
}

Json Saved(const Services& services, const std::string& changed) {
  return *ParseJson(services.Save(changed), "what was saved");
}

TEST(ServicesTest, WhatIsSavedIsRestored) {
  Services services;
  EXPECT_EQ(services.Save(""), "[]");
  services.Put(Started("a", 0));
  services.Put(Started("b", 1));
  services.Find("b")->is_ready = true;
  Services restored;
  restored.Restore(Saved(services, ""));
  ASSERT_EQ(restored.size(), 2u);
  EXPECT_FALSE(restored.Find("a")->is_ready);
  EXPECT_TRUE(restored.Find("b")->is_ready);
  EXPECT_EQ(restored.Find("b")->number, 1u);
}

// The start of one of very many services must not cost what all do.
TEST(ServicesTest, OnlyWhatHasChangedIsWrittenAnew) {
  Services services;
  services.Put(Started("a", 0));
  services.Put(Started("b", 1));
  const Json before = Saved(services, "");
  services.Find("a")->is_ready = services.Find("b")->is_ready = true;
  const Json after = Saved(services, "b");
  EXPECT_EQ(after[0], before[0]);
  EXPECT_EQ(after[1]["ready"], true);
  EXPECT_EQ(Saved(services, "")[0]["ready"], true);
}

TEST(ServicesTest, OneThatIsPutAgainOrRemovedIsNotSavedAsItWas) {
  Services services;
  services.Put(Started("a", 0));
  services.Put(Started("b", 1));
  (void)services.Save("");
  services.Put(Started("a", 7));
  services.Remove("b");
  const Json saved = Saved(services, "c");
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0]["message"]["service"], 7);
}

TEST(ServicesTest, TheSmallestFreeNumberIsGiven) {
  Services services;
  EXPECT_EQ(*services.NumberFor("a"), 0u);
  services.Put(Started("a", 0));
  services.Put(Started("b", 2));
  services.Put(Started("far", 4000));
  EXPECT_EQ(*services.NumberFor("c"), 1u);
  EXPECT_EQ(*services.NumberFor("b"), 2u);
  services.Put(Started("c", 1));
  EXPECT_EQ(*services.NumberFor("d"), 3u);
}

}  // namespace
}  // namespace ppc::control
