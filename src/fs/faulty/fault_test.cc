#include "fs/faulty/fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace penstock::fs::faulty {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Fault> Parse(std::string_view text) {
  const auto faults = ParseFaults(text);
  EXPECT_TRUE(faults) << faults.error().message;
  return faults.value_or(std::vector<Fault>{});
}

std::string ErrorOf(std::string_view text) {
  const auto faults = ParseFaults(text);
  return faults ? "no error" : faults.error().message;
}

TEST(ParseFaultsTest, ReadsAListOfFaults) {
  EXPECT_THAT(Parse("write:eio@3,read:slow=2s,commit:kill@1,any:estale%0.01"),
              ElementsAre(Fault{.operation = Operation::kWrite, .when = Nth(3), .effect = FailWith(Error::kIo)},
                          Fault{.operation = Operation::kRead, .effect = Slow(seconds(2))},
                          Fault{.operation = Operation::kCommit, .when = Nth(1), .effect = Kill()},
                          Fault{.when = AtRandom(0.01), .effect = FailWith(Error::kStale)}));
}

TEST(ParseFaultsTest, ReadsEveryOperation) {
  for (const auto& [operation, name] : kOperationNames) {
    EXPECT_THAT(Parse(std::string(name) + ":eio"), ElementsAre(Fault{.operation = operation}));
  }
}

TEST(ParseFaultsTest, ReadsEveryError) {
  const auto expect = [](std::string_view name, Error error) {
    EXPECT_THAT(Parse("any:" + std::string(name)), ElementsAre(Fault{.effect = FailWith(error)}));
  };
  expect("eacces", Error::kAccess);
  expect("edquot", Error::kQuota);
  expect("efbig", Error::kFileTooBig);
  expect("eio", Error::kIo);
  expect("emfile", Error::kDelay);
  expect("enoent", Error::kNoEnt);
  expect("enospc", Error::kNoSpace);
  expect("eperm", Error::kPerm);
  expect("erofs", Error::kReadOnly);
  expect("estale", Error::kStale);
}

TEST(ParseFaultsTest, ReadsEveryEffect) {
  const auto effect = [](std::string_view text) { return Parse("any:" + std::string(text)).at(0).effect; };
  EXPECT_EQ(effect("slow=500ms"), Slow(milliseconds(500)));
  EXPECT_EQ(effect("slow=0.5s"), Slow(milliseconds(500)));
  EXPECT_EQ(effect("slow=..2s"), SlowUpTo(seconds(2), Effect::Moment::kBefore));
  EXPECT_EQ(effect("slow=..2s-after"), SlowUpTo(seconds(2), Effect::Moment::kAfter));
  EXPECT_EQ(effect("eio-after"), FailWith(Error::kIo, Effect::Moment::kAfter));
  EXPECT_EQ(effect("short"), Short(1));
  EXPECT_EQ(effect("short=4096"), Short(4096));
  EXPECT_EQ(effect("hang"), Hang());
  EXPECT_EQ(effect("kill"), Kill());
  EXPECT_EQ(Parse("read:unreadable").at(0).effect, Unreadable());
}

TEST(ParseFaultsTest, ReadsTheConditionOfAFault) {
  const auto when = [](std::string_view text) { return Parse("any:eio" + std::string(text)).at(0).when; };
  EXPECT_EQ(when(""), When{});
  EXPECT_EQ(when("@7"), Nth(7));
  EXPECT_EQ(when("/7"), (When{.kind = When::Kind::kEachNth, .n = 7}));
  EXPECT_EQ(when("%1"), AtRandom(1));
}

TEST(ParseFaultsTest, NamesTheUnknownPart) {
  EXPECT_THAT(ErrorOf("write"), HasSubstr("\"write\": write OPERATION:EFFECT"));
  EXPECT_THAT(ErrorOf("writes:eio"), HasSubstr("unknown operation \"writes\"; write any or one of getattr, "));
  EXPECT_THAT(ErrorOf("write:oei"), HasSubstr("unknown effect \"oei\""));
  EXPECT_THAT(ErrorOf("write:EIO"), HasSubstr("unknown effect \"EIO\""));
  EXPECT_THAT(ErrorOf("read:eio,write:bad"), HasSubstr("fault \"write:bad\""));
}

TEST(ParseFaultsTest, RejectsEmptyParts) {
  for (const char* text : {"", ",", "read:eio,", ":eio", "read:", "read:@1", "read:eio@", "read:eio%", "read:short="}) {
    EXPECT_NE(ErrorOf(text), "no error") << text;
  }
}

TEST(ParseFaultsTest, RejectsCountsBelowOne) {
  for (const char* text : {"read:eio@0", "read:eio/0", "read:eio@-1", "read:eio@1x", "read:short=0", "read:eio@1@2"}) {
    EXPECT_NE(ErrorOf(text), "no error") << text;
  }
}

TEST(ParseFaultsTest, RejectsProbabilitiesOutOfRange) {
  for (const char* text : {"read:eio%0", "read:eio%1.5", "read:eio%-1", "read:eio%nan", "read:eio%5x"}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("is not a probability above 0 and up to 1")) << text;
  }
}

TEST(ParseFaultsTest, RejectsTimesWithoutAUnitOrOutOfRange) {
  for (const char* text : {"read:slow=2", "read:slow=s", "read:slow=0s", "read:slow=-1s", "read:slow=2h",
                           "read:slow=3601s", "read:slow=..", "read:slow="}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("is not a time such as slow=2s or slow=..500ms")) << text;
  }
}

TEST(ParseFaultsTest, RejectsEffectsThatAnOperationCannotHave) {
  EXPECT_THAT(ErrorOf("lookup:short"), HasSubstr("short applies to read, write and copy"));
  EXPECT_THAT(ErrorOf("write:unreadable"), HasSubstr("unreadable applies to read"));
  EXPECT_THAT(ErrorOf("write:kill-after"), HasSubstr("-after applies to errors, slow and hang"));
}

}  // namespace
}  // namespace penstock::fs::faulty
