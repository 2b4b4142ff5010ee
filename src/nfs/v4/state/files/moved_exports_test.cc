// Tests of what clients are told of exports that have moved to another server (RFC 8881 §11.13.1).
#include <algorithm>
#include <initializer_list>
#include <vector>

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/files/test_files.h"

namespace penstock::nfs::v4 {
namespace {

class MovedExportsTest : public FilesTest {
 protected:
  static constexpr ExportId kServed{1};
  static constexpr ExportId kOther{2};

  // From now on these exports are referrals.
  void Move(std::initializer_list<ExportId> referrals) {
    const std::vector<ExportId> moved = referrals;
    files.HandleNewExports([&](ExportId id) { return std::ranges::find(moved, id) != moved.end(); }, now);
  }
  bool IsTold(ClientId client) { return files.HasMoved(client, now); }
  void Delegate(ClientId client, const NamedFile& to) {
    const DelegationFacts facts{.share = {kRead, 0}, .can_call_back = true};
    const auto given =
        files.delegations.Delegate({.client = client, .file = to, .dialect = DialectOf(1), .facts = facts}, now);
    EXPECT_EQ(given.delegation_type(), OPEN_DELEGATE_READ);
  }
};

TEST_F(MovedExportsTest, AClientWithAnOpenOrADelegationIsToldUntilItAsksForTheLocations) {
  OpenBy(alice, "owner", {kRead, 0});
  Delegate(bob, other_file);
  Move({kServed});
  EXPECT_TRUE(IsTold(alice));
  EXPECT_TRUE(IsTold(bob));
  files.RevokeState([](const FileHandle&) { return true; }, now);
  EXPECT_TRUE(IsTold(alice)) << "its state has ended, and it does not know yet";
  files.HandleLocationsAsked(alice, kOther);
  EXPECT_TRUE(IsTold(alice)) << "has asked about another export";
  files.HandleLocationsAsked(alice, kServed);
  EXPECT_FALSE(IsTold(alice));
  EXPECT_TRUE(IsTold(bob));
}

TEST_F(MovedExportsTest, AClientWithoutStateThereIsNotTold) {
  OpenBy(alice, "owner", {kRead, 0});
  Close(OpenBy(bob, "owner", {kRead, 0}));
  Move({kOther});
  EXPECT_FALSE(IsTold(alice));
  Move({kServed});
  EXPECT_FALSE(IsTold(bob));
}

TEST_F(MovedExportsTest, AMoveThatIsTakenBackIsNotTold) {
  OpenBy(alice, "owner", {kRead, 0});
  Move({kServed});
  EXPECT_TRUE(IsTold(alice));
  Move({kOther});
  EXPECT_FALSE(IsTold(alice));
}

// RFC 7530 §9.14.3 recommends this for clients that do not know what to do.
TEST_F(MovedExportsTest, AClientThatDoesNotAskIsToldForTwoLeaseTimes) {
  OpenBy(alice, "owner", {kRead, 0});
  Move({kServed});
  files.RevokeState([](const FileHandle&) { return true; }, now);
  const Duration lease = Files::Limits().lease;
  now += 2 * lease - std::chrono::seconds(1);
  Move({kServed});
  EXPECT_TRUE(IsTold(alice)) << "the next change of the configuration does not begin the time again";
  now += std::chrono::seconds(1);
  EXPECT_FALSE(IsTold(alice));
}

TEST_F(MovedExportsTest, AClientThatWasToldForLongEnoughIsToldAgainAfterTheNextChangeOfTheConfiguration) {
  OpenBy(alice, "owner", {kRead, 0});
  Move({kServed});
  now += 2 * Files::Limits().lease;
  EXPECT_FALSE(IsTold(alice));
  Move({kServed});
  EXPECT_TRUE(IsTold(alice));
}

}  // namespace
}  // namespace penstock::nfs::v4
