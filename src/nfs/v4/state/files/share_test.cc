#include "nfs/v4/state/files/share.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock::nfs::v4 {
namespace {

constexpr uint32_t kRead = 1;
constexpr uint32_t kWrite = 2;

std::vector<Share> AllShares() {
  std::vector<Share> all;
  for (uint32_t access = 0; access < 4; ++access) {
    for (uint32_t deny = 0; deny < 4; ++deny) all.push_back({access, deny});
  }
  return all;
}

// The rule of RFC 8881 §9.7: a request is denied if (request.access & state.deny) or (request.deny & state.access) is
// not zero.
TEST(Share, ConflictsIfOneShareDeniesTheAccessOfTheOther) {
  for (const Share& a : AllShares()) {
    for (const Share& b : AllShares()) {
      bool expected = false;
      for (const uint32_t right : {kRead, kWrite}) {
        const bool a_denied = (a.access & right) != 0 && (b.deny & right) != 0;
        const bool b_denied = (b.access & right) != 0 && (a.deny & right) != 0;
        expected = expected || a_denied || b_denied;
      }
      EXPECT_EQ(Conflict(a, b), expected) << a.access << a.deny << b.access << b.deny;
      EXPECT_EQ(Conflict(a, b), Conflict(b, a));
    }
  }
}

TEST(ShareHistory, UnitesTheSharesOfItsOpens) {
  ShareHistory history;
  history.Add({kRead, 0});
  EXPECT_EQ(history.Union(), (Share{kRead, 0}));
  history.Add({kWrite, kRead});
  EXPECT_EQ(history.Union(), (Share{kRead | kWrite, kRead}));
}

TEST(ShareHistory, DowngradesToOneOfItsOpens) {
  ShareHistory history;
  history.Add({kRead, 0});
  history.Add({kRead | kWrite, 0});
  EXPECT_TRUE(history.Downgrade({kRead, 0}));
  EXPECT_EQ(history.Union(), (Share{kRead, 0}));
}

TEST(ShareHistory, RejectsADowngradeToAShareThatWasNeverOpened) {
  ShareHistory history;
  history.Add({kRead | kWrite, 0});
  EXPECT_FALSE(history.Downgrade({kRead, 0}));
  history.Add({kWrite, 0});
  EXPECT_FALSE(history.Downgrade({kRead, 0}));
  EXPECT_FALSE(history.Downgrade({kWrite, kRead}));
  EXPECT_EQ(history.Union(), (Share{kRead | kWrite, 0}));
}

TEST(ShareHistory, ForgetsTheSharesThatADowngradeRemoves) {
  ShareHistory history;
  history.Add({kRead, 0});
  history.Add({kWrite, 0});
  EXPECT_TRUE(history.Downgrade({kRead, 0}));
  EXPECT_FALSE(history.Downgrade({kWrite, 0}));
  history.Add({kWrite, 0});
  EXPECT_TRUE(history.Downgrade({kWrite, 0}));
}

// Compares Downgrade() with the unions of all subsets, for each history of three OPENs.
TEST(ShareHistory, DowngradesExactlyToTheUnionsOfSubsetsOfItsOpens) {
  std::vector<Share> opens;
  for (const Share& share : AllShares()) {
    if (share.access != 0) opens.push_back(share);
  }
  for (const Share& a : opens) {
    for (const Share& b : opens) {
      for (const Share& c : opens) {
        uint32_t accesses = 0;  // a bit for each union of a subset of the OPENs
        uint32_t denials = 0;
        for (uint32_t subset = 0; subset < 8; ++subset) {
          Share all;
          const Share list[] = {a, b, c};
          for (uint32_t i = 0; i < 3; ++i) {
            if (subset & 1u << i) all = {all.access | list[i].access, all.deny | list[i].deny};
          }
          accesses |= 1u << all.access;
          denials |= 1u << all.deny;
        }
        for (const Share& target : opens) {
          ShareHistory history;
          history.Add(a);
          history.Add(b);
          history.Add(c);
          const bool expected = (accesses >> target.access & 1) != 0 && (denials >> target.deny & 1) != 0;
          ASSERT_EQ(history.Downgrade(target), expected);
          if (expected) {
            ASSERT_EQ(history.Union(), target);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock::nfs::v4
