#include "fuse/file_end.h"

#include <gtest/gtest.h>

namespace penstock::fuse {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kNow{1h};

TEST(FileEnd, TheServerMustBeAskedFirst) {
  FileEnd end;
  EXPECT_EQ(end.At(kNow, 3s), std::nullopt);
  end.BeginWrite(10);
  end.EndWrite();
  EXPECT_EQ(end.At(kNow, 3s), std::nullopt) << "there may be more";
  const auto question = end.Ask(0);
  end.HandleAnswer(question, 30, kNow);
  EXPECT_EQ(end.At(kNow, 3s), 30u);
}

TEST(FileEnd, WritesMoveIt) {
  FileEnd end;
  end.HandleAnswer(end.Ask(0), 30, kNow);
  end.BeginWrite(20);
  end.EndWrite();
  EXPECT_EQ(end.At(kNow, 3s), 30u);
  end.BeginWrite(40);
  end.EndWrite();
  EXPECT_EQ(end.At(kNow, 3s), 40u);
}

TEST(FileEnd, AnAnswerIsValidForATime) {
  FileEnd end;
  end.HandleAnswer(end.Ask(0), 30, kNow);
  end.BeginWrite(40);
  end.EndWrite();
  EXPECT_EQ(end.At(kNow + 2999ms, 3s), 40u);
  EXPECT_EQ(end.At(kNow + 3s, 3s), std::nullopt);
  end.HandleAnswer(end.Ask(0), 50, kNow + 4s);
  EXPECT_EQ(end.At(kNow + 5s, 3s), 50u);
}

TEST(FileEnd, AnotherClientMayHaveTruncatedTheFile) {
  FileEnd end;
  end.BeginWrite(40);
  end.EndWrite();
  end.HandleAnswer(end.Ask(0), 7, kNow);
  EXPECT_EQ(end.At(kNow, 3s), 7u);
}

TEST(FileEnd, AnAnswerThatIsOlderThanAWriteSaysNothing) {
  FileEnd end;
  end.HandleAnswer(end.Ask(0), 30, kNow);
  const auto question = end.Ask(0);
  end.BeginWrite(40);
  end.EndWrite();
  end.HandleAnswer(question, 30, kNow + 1s);
  EXPECT_EQ(end.At(kNow, 3s), 40u);
}

// A program looks at the file while others append to it.
TEST(FileEnd, TheServerDoesNotKnowTheDataThatItDoesNotHave) {
  FileEnd end;
  end.BeginWrite(40);
  const auto during = end.Ask(0);
  end.HandleAnswer(during, 30, kNow);
  EXPECT_EQ(end.At(kNow, 3s), 40u) << "the write waits for memory";
  end.EndWrite();
  end.HandleAnswer(end.Ask(40), 30, kNow);
  EXPECT_EQ(end.At(kNow, 3s), 40u) << "the data wait for more";
  end.HandleAnswer(end.Ask(40), 50, kNow);
  EXPECT_EQ(end.At(kNow, 3s), 50u) << "another client has appended";
  end.HandleAnswer(end.Ask(0), 30, kNow);
  EXPECT_EQ(end.At(kNow, 3s), 30u);
}

TEST(FileEnd, TheLatestEndHasTheWritesOfThisTree) {
  FileEnd end;
  end.BeginWrite(40);
  end.EndWrite();
  EXPECT_EQ(end.Latest(), std::nullopt) << "there may be more";
  end.HandleAnswer(end.Ask(0), 50, kNow);
  end.Expire();
  end.BeginWrite(60);
  end.EndWrite();
  EXPECT_EQ(end.Latest(), 60u);
  end.Forget();
  EXPECT_EQ(end.Latest(), std::nullopt);
}

TEST(FileEnd, AnAnswerThatIsOlderThanAnotherOneSaysNothing) {
  FileEnd end;
  const auto first = end.Ask(0);
  const auto second = end.Ask(0);
  end.HandleAnswer(second, 40, kNow);
  end.HandleAnswer(first, 30, kNow);
  EXPECT_EQ(end.At(kNow, 3s), 40u);
}

TEST(FileEnd, AfterAnOpenTheServerMustBeAskedAgain) {
  FileEnd end;
  end.HandleAnswer(end.Ask(0), 30, kNow);
  const auto before = end.Ask(0);
  end.Expire();
  EXPECT_EQ(end.At(kNow, 3s), std::nullopt);
  end.HandleAnswer(before, 40, kNow);
  EXPECT_EQ(end.At(kNow, 3s), std::nullopt) << "it was asked before the open";
  EXPECT_EQ(end.AnsweredSince(before), 40u) << "of the file that was open before";
  const auto after = end.Ask(0);
  EXPECT_EQ(end.AnsweredSince(after), std::nullopt);
  end.HandleAnswer(after, 50, kNow);
  EXPECT_EQ(end.At(kNow, 3s), 50u);
}

TEST(FileEnd, AnAnswerServesTheOneWhoHasAskedHoweverShortItIsValid) {
  FileEnd end;
  const auto question = end.Ask(0);
  end.HandleAnswer(question, 30, kNow);
  EXPECT_EQ(end.At(kNow, 0s), std::nullopt);
  EXPECT_EQ(end.AnsweredSince(question), 30u);
  end.Forget();
  EXPECT_EQ(end.AnsweredSince(question), std::nullopt);
}

TEST(FileEnd, AfterALossTheServerMustBeAskedAgain) {
  FileEnd end;
  end.HandleAnswer(end.Ask(0), 30, kNow);
  end.BeginWrite(40);
  end.EndWrite();
  const auto question = end.Ask(0);
  end.Forget();
  EXPECT_EQ(end.At(kNow, 3s), std::nullopt);
  end.HandleAnswer(question, 40, kNow);
  EXPECT_EQ(end.At(kNow, 3s), std::nullopt) << "it was asked before the loss";
  end.HandleAnswer(end.Ask(0), 30, kNow);
  EXPECT_EQ(end.At(kNow, 3s), 30u);
}

}  // namespace
}  // namespace penstock::fuse
