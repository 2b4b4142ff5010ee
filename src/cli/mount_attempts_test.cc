#include "cli/mount_attempts.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace penstock::cli {
namespace {

using client::Error;
using client::Status;
using namespace std::chrono_literals;

constexpr TimePoint kStart{1h};

client::Url With(const std::string& options) { return client::Url::Parse("nfs://host/?hard&" + options).value(); }
Error Failure(int number) { return {"host: why", std::nullopt, number}; }

// Returns the time after which further failures end the command.
Duration TriesFor(const std::string& options) {
  MountAttempts attempts(With(options), kStart);
  for (TimePoint now = kStart;;) {
    const auto delay = attempts.HandleFailure(Failure(ECONNREFUSED), now);
    if (!delay) return now - kStart;
    EXPECT_GT(*delay, Duration::zero());
    EXPECT_LE(*delay, 10s);
    now += *delay;
  }
}

TEST(MountAttempts, TriesForAsManyMinutesAsRetrySays) {
  EXPECT_EQ(TriesFor("retry=5"), 5min);
  EXPECT_EQ(TriesFor("retry=1&bg"), 1min);
  EXPECT_EQ(TriesFor("retry=0"), 0min);
  EXPECT_EQ(TriesFor("retry=0&bg"), 0min);
}

TEST(MountAttempts, TriesLongerInTheBackground) {
  EXPECT_EQ(TriesFor(""), 2min);
  EXPECT_EQ(TriesFor("fg"), 2min);
  EXPECT_EQ(TriesFor("bg"), 10000min);
  EXPECT_EQ(TriesFor("bg&fg"), 2min) << "the last one counts";
}

TEST(MountAttempts, TheLongestTimeDoesNotOverflow) {
  MountAttempts attempts(With("retry=4294967295"), kStart);
  EXPECT_TRUE(attempts.HandleFailure(Failure(ETIMEDOUT), kStart + 24h * 365));
}

TEST(MountAttempts, OnlyErrorsThatMayPassAreTriedAgain) {
  for (const int number : {ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, ECONNRESET, ESTALE, EAGAIN}) {
    EXPECT_TRUE(MountAttempts(With("bg"), kStart).HandleFailure(Failure(number), kStart)) << number;
  }
  for (const int number : {ENOENT, EACCES, EPERM, EPROTO, EPROTONOSUPPORT, ENOTDIR, EINVAL, ECANCELED}) {
    EXPECT_FALSE(MountAttempts(With("bg"), kStart).HandleFailure(Failure(number), kStart)) << number;
  }
  for (const Status status : {Status::kNotFound, Status::kAccess, Status::kWrongSecurity, Status::kVersionMismatch}) {
    EXPECT_FALSE(MountAttempts(With("bg"), kStart).HandleFailure(client::ErrorOf(status, "/"), kStart));
  }
}

TEST(MountAttempts, WaitsLongerAfterEachFailure) {
  MountAttempts attempts(With(""), kStart);
  EXPECT_EQ(attempts.HandleFailure(Failure(ETIMEDOUT), kStart), 100ms);
  EXPECT_EQ(attempts.HandleFailure(Failure(ETIMEDOUT), kStart), 200ms);
  for (int i = 0; i < 10; ++i) attempts.HandleFailure(Failure(ETIMEDOUT), kStart);
  EXPECT_EQ(attempts.HandleFailure(Failure(ETIMEDOUT), kStart), 10s);
  EXPECT_EQ(attempts.HandleFailure(Failure(ETIMEDOUT), kStart + 2min - 1s), 1s) << "not beyond the end";
}

// Without a limit an attempt at a server that is silent would take for ever, since its calls do.
TEST(MountAttempts, LimitsTheAttemptsOfAHardMount) {
  EXPECT_EQ(MountAttempts(With(""), kStart).attempt_limit(), 180s);
  EXPECT_EQ(MountAttempts(With("timeo=200&retrans=0"), kStart).attempt_limit(), 20s);
  EXPECT_EQ(MountAttempts(With("timeo=1&retrans=0"), kStart).attempt_limit(), 10s);
  EXPECT_EQ(MountAttempts(With("soft&timeo=1"), kStart).attempt_limit(), client::kNoTimeLimit)
      << "each call has its limit";
}

TEST(MountAttempts, SaysHowLongItTries) {
  EXPECT_EQ(MountAttempts(With(""), kStart).PatienceText(), "2 minutes");
  EXPECT_EQ(MountAttempts(With("retry=1"), kStart).PatienceText(), "1 minute");
}

TEST(MountAttempts, KnowsTheHostsOfThisMachine) {
  EXPECT_FALSE(IsUnknownHost("localhost"));
  EXPECT_FALSE(IsUnknownHost("192.0.2.1"));
}

}  // namespace
}  // namespace penstock::cli
