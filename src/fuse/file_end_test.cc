#include "fuse/file_end.h"

#include <gtest/gtest.h>

namespace penstock::fuse {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kNow{1h};

TEST(FileEnd, TheServerMustBeAskedFirst) {
  FileEnd end;
  EXPECT_EQ(end.At(kNow, 3s), std::nullopt);
  end.HandleWritten(10);
  EXPECT_EQ(end.At(kNow, 3s), std::nullopt) << "there may be more";
  const auto question = end.Ask();
  end.HandleAnswer(question, 30, kNow);
  EXPECT_EQ(end.At(kNow, 3s), 30u);
}

TEST(FileEnd, WritesMoveIt) {
  FileEnd end;
  end.HandleAnswer(end.Ask(), 30, kNow);
  end.HandleWritten(20);
  EXPECT_EQ(end.At(kNow, 3s), 30u);
  end.HandleWritten(40);
  EXPECT_EQ(end.At(kNow, 3s), 40u);
}

TEST(FileEnd, AnAnswerIsValidForATime) {
  FileEnd end;
  end.HandleAnswer(end.Ask(), 30, kNow);
  end.HandleWritten(40);
  EXPECT_EQ(end.At(kNow + 2999ms, 3s), 40u);
  EXPECT_EQ(end.At(kNow + 3s, 3s), std::nullopt);
  end.HandleAnswer(end.Ask(), 50, kNow + 4s);
  EXPECT_EQ(end.At(kNow + 5s, 3s), 50u);
}

TEST(FileEnd, AnotherClientMayHaveTruncatedTheFile) {
  FileEnd end;
  end.HandleWritten(40);
  end.HandleAnswer(end.Ask(), 7, kNow);
  EXPECT_EQ(end.At(kNow, 3s), 7u);
}

TEST(FileEnd, AnAnswerThatIsOlderThanAWriteSaysNothing) {
  FileEnd end;
  end.HandleAnswer(end.Ask(), 30, kNow);
  const auto question = end.Ask();
  end.HandleWritten(40);
  end.HandleAnswer(question, 30, kNow + 1s);
  EXPECT_EQ(end.At(kNow, 3s), 40u);
}

TEST(FileEnd, AnAnswerThatIsOlderThanAnotherOneSaysNothing) {
  FileEnd end;
  const auto first = end.Ask();
  const auto second = end.Ask();
  end.HandleAnswer(second, 40, kNow);
  end.HandleAnswer(first, 30, kNow);
  EXPECT_EQ(end.At(kNow, 3s), 40u);
}

TEST(FileEnd, AfterAnOpenTheServerMustBeAskedAgain) {
  FileEnd end;
  end.HandleAnswer(end.Ask(), 30, kNow);
  const auto before = end.Ask();
  end.Expire();
  EXPECT_EQ(end.At(kNow, 3s), std::nullopt);
  end.HandleAnswer(before, 40, kNow);
  EXPECT_EQ(end.At(kNow, 3s), std::nullopt) << "it was asked before the open";
  EXPECT_EQ(end.AnsweredSince(before), 40u) << "of the file that was open before";
  const auto after = end.Ask();
  EXPECT_EQ(end.AnsweredSince(after), std::nullopt);
  end.HandleAnswer(after, 50, kNow);
  EXPECT_EQ(end.At(kNow, 3s), 50u);
}

TEST(FileEnd, AnAnswerServesTheOneWhoHasAskedHoweverShortItIsValid) {
  FileEnd end;
  const auto question = end.Ask();
  end.HandleAnswer(question, 30, kNow);
  EXPECT_EQ(end.At(kNow, 0s), std::nullopt);
  EXPECT_EQ(end.AnsweredSince(question), 30u);
  end.Forget();
  EXPECT_EQ(end.AnsweredSince(question), std::nullopt);
}

TEST(FileEnd, AfterALossTheServerMustBeAskedAgain) {
  FileEnd end;
  end.HandleAnswer(end.Ask(), 30, kNow);
  end.HandleWritten(40);
  const auto question = end.Ask();
  end.Forget();
  EXPECT_EQ(end.At(kNow, 3s), std::nullopt);
  end.HandleAnswer(question, 40, kNow);
  EXPECT_EQ(end.At(kNow, 3s), std::nullopt) << "it was asked before the loss";
  end.HandleAnswer(end.Ask(), 30, kNow);
  EXPECT_EQ(end.At(kNow, 3s), 30u);
}

}  // namespace
}  // namespace penstock::fuse
