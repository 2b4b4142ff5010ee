// What every store does. A test program instantiates the suite with PENSTOCK_OBJECT_STORE_SUITE.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <memory>

#include "objects/store.h"

namespace penstock::objects::suite {

struct Parameter {
  const char* name;
  std::function<std::shared_ptr<Store>()> make;  // an empty store
};

class StoreTest : public testing::TestWithParam<Parameter> {
 protected:
  std::string ContentOf(const std::string& name) {
    Store::Object object;
    EXPECT_EQ(store_->Read(name, object), 0);
    return object.content;
  }
  uint64_t VersionOf(const std::string& name) {
    Store::Object object;
    EXPECT_EQ(store_->Read(name, object), 0);
    return object.version;
  }
  std::map<std::string, std::string> EntriesOf(const std::string& name) {
    std::map<std::string, std::string> entries{{"old", "old"}};
    EXPECT_EQ(store_->ListEntries(name, entries), 0);
    return entries;
  }
  const std::shared_ptr<Store> store_ = GetParam().make();
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StoreTest);

TEST_P(StoreTest, ReplacesAnObjectOnlyIfItHasTheExpectedVersion) {
  Store::Object object;
  EXPECT_EQ(store_->Read("a", object), -ENOENT);
  EXPECT_EQ(store_->Replace("a", 7, "never"), -ECANCELED);
  EXPECT_EQ(store_->Replace("a", 0, "first, and longer"), 0);
  EXPECT_EQ(store_->Replace("a", 0, "again"), -ECANCELED);
  const uint64_t first = VersionOf("a");
  EXPECT_NE(first, 0u);
  EXPECT_EQ(store_->Replace("a", first, "second"), 0);
  EXPECT_EQ(ContentOf("a"), "second");
  EXPECT_NE(VersionOf("a"), first);
  EXPECT_EQ(store_->Replace("a", first, "third"), -ECANCELED);
  EXPECT_EQ(store_->Replace("a", VersionOf("a") + 100, "third"), -ECANCELED);
  EXPECT_EQ(ContentOf("a"), "second");
}

TEST_P(StoreTest, ARemovedObjectCanBeMadeAgain) {
  EXPECT_EQ(store_->Remove("a"), 0) << "it is not there";
  ASSERT_EQ(store_->Replace("a", 0, "text"), 0);
  const uint64_t version = VersionOf("a");
  EXPECT_EQ(store_->Remove("a"), 0);
  Store::Object object;
  EXPECT_EQ(store_->Read("a", object), -ENOENT);
  EXPECT_EQ(store_->Replace("a", version, "other"), -ECANCELED);
  EXPECT_EQ(store_->Replace("a", 0, "other"), 0);
}

TEST_P(StoreTest, AWriteKeepsTheOctetsAroundIt) {
  EXPECT_EQ(store_->WriteAt("a", 2, AsBytes("cd")), -ENOENT);
  ASSERT_EQ(store_->Replace("a", 0, ""), 0);
  EXPECT_EQ(store_->WriteAt("a", 2, AsBytes("cd")), 0);
  EXPECT_EQ(ContentOf("a"), std::string("\0\0cd", 4));
  EXPECT_EQ(store_->WriteAt("a", 0, AsBytes("abC")), 0);
  EXPECT_EQ(ContentOf("a"), "abCd");
}

TEST_P(StoreTest, ReadsALargeObjectAsAWhole) {
  std::string text(300'000, 'x');
  text.back() = 'y';
  ASSERT_EQ(store_->Replace("a", 0, text), 0);
  EXPECT_EQ(ContentOf("a"), text);
}

TEST_P(StoreTest, KeepsEntriesBesideTheContent) {
  EXPECT_TRUE(EntriesOf("a").empty());
  EXPECT_EQ(store_->RemoveEntry("a", "key"), 0);
  EXPECT_EQ(store_->SetEntry("a", "one", "1"), -ENOENT);
  ASSERT_EQ(store_->Replace("a", 0, ""), 0);
  ASSERT_EQ(store_->SetEntry("a", "one", std::string_view("1\0", 2)), 0);
  ASSERT_EQ(store_->SetEntry("a", "two", ""), 0);
  ASSERT_EQ(store_->SetEntry("a", "one", "11"), 0);
  EXPECT_THAT(EntriesOf("a"), testing::ElementsAre(testing::Pair("one", "11"), testing::Pair("two", "")));
  EXPECT_EQ(store_->RemoveEntry("a", "one"), 0);
  EXPECT_EQ(store_->RemoveEntry("a", "one"), 0);
  EXPECT_THAT(EntriesOf("a"), testing::ElementsAre(testing::Pair("two", "")));
  EXPECT_EQ(ContentOf("a"), "");
}

TEST_P(StoreTest, ListsManyEntries) {
  std::map<std::string, std::string> all;
  for (int i = 0; i < 3000; ++i) all["key" + std::to_string(i)] = std::to_string(i);
  ASSERT_EQ(store_->Replace("a", 0, ""), 0);
  for (const auto& [key, value] : all) ASSERT_EQ(store_->SetEntry("a", key, value), 0);
  EXPECT_EQ(EntriesOf("a"), all);
}

TEST_P(StoreTest, ListsTheNamesWithAPrefix) {
  for (const char* name : {"a-1", "a-2", "b-1", "a"}) ASSERT_EQ(store_->Replace(name, 0, ""), 0);
  std::vector<std::string> names{"old"};
  ASSERT_EQ(store_->ListNames("a-", names), 0);
  EXPECT_THAT(names, testing::UnorderedElementsAre("a-1", "a-2"));
}

}  // namespace penstock::objects::suite

// Once in a program, in namespace penstock::objects::suite.
#define PENSTOCK_OBJECT_STORE_SUITE(prefix, ...)           \
  INSTANTIATE_TEST_SUITE_P(prefix, StoreTest, __VA_ARGS__, \
                           [](const auto& test) { return std::string(test.param.name); })
