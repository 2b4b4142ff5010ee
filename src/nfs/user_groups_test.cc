#include "nfs/user_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <optional>

#include "base/test_log.h"
#include "nfs/caller.h"
#include "nfs/test_server.h"
#include "nfs/test_values.h"

namespace penstock::nfs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class UserGroupsTest : public testing::Test {
 protected:
  std::vector<uint32_t> Groups(uint32_t uid) {
    if (!groups_->Knows(uid)) Now(Loaded(uid));
    return *groups_->Of(uid);
  }
  Task<bool> Loaded(uint32_t uid) {
    co_await groups_->Load(nullptr, uid);
    co_return true;
  }

  std::map<uint32_t, std::vector<uint32_t>> host{{1000, {100, 27}}};
  int look_ups = 0;
  bool fails = false;
  bool known_meanwhile = false;  // during the last look-up: other calls of the user do not wait
  TimePoint time{};
  const std::shared_ptr<UserGroups> groups_ = std::make_shared<UserGroups>(
      [this](uint32_t uid) -> Result<std::vector<uint32_t>, NoAnswer> {
        ++look_ups;
        known_meanwhile = groups_->Knows(uid);
        if (fails) return std::unexpected(NoAnswer{EIO});
        return host[uid];
      },
      [this] { return time; }, nullptr, UserGroups::Settings{.known_for = std::chrono::minutes(5), .users = 4});
};

TEST_F(UserGroupsTest, ReturnsTheHostsGroups) {
  EXPECT_EQ(groups_->Of(1000), nullptr);
  EXPECT_THAT(Groups(1000), ElementsAre(100, 27));
  EXPECT_THAT(Groups(7), IsEmpty());
}

TEST_F(UserGroupsTest, CachesGroupsForALimitedTime) {
  Groups(1000);
  time += std::chrono::minutes(5) - std::chrono::nanoseconds(1);
  Groups(1000);
  EXPECT_EQ(look_ups, 1);
  host[1000] = {5};
  time += std::chrono::nanoseconds(1);
  EXPECT_FALSE(groups_->Knows(1000));
  EXPECT_THAT(Groups(1000), ElementsAre(5));
}

TEST_F(UserGroupsTest, AUserKeepsTheGroupsThatWereKnownWhileTheDatabaseFails) {
  const CapturedLog log;
  Groups(1000);
  fails = true;
  time += std::chrono::minutes(5);
  EXPECT_THAT(Groups(1000), ElementsAre(100, 27));
  EXPECT_THAT(Groups(7), IsEmpty());
  EXPECT_EQ(
      log.text(),
      "warning: the groups of user 1000 cannot be looked up (Input/output error): users have the groups that were "
      "known, or none\n");
}

TEST_F(UserGroupsTest, OnlyWhileTheDatabaseFailsAnOldListServesOtherCalls) {
  const CapturedLog log;
  Groups(1000);
  time += std::chrono::minutes(5);
  Groups(1000);
  EXPECT_FALSE(known_meanwhile) << "the user may have left a group since";
  fails = true;
  time += std::chrono::minutes(5);
  Groups(1000);
  EXPECT_FALSE(known_meanwhile);
  time += std::chrono::minutes(1);
  EXPECT_THAT(Groups(1000), ElementsAre(100, 27));
  EXPECT_TRUE(known_meanwhile);
}

TEST_F(UserGroupsTest, AUserWithoutKnownGroupsWaitsForTheNextLookUp) {
  const CapturedLog log;
  fails = true;
  Groups(1000);
  time += std::chrono::seconds(5);
  Groups(1000);
  EXPECT_FALSE(known_meanwhile);
}

TEST_F(UserGroupsTest, AFailedLookUpIsSoonRepeated) {
  const CapturedLog log;
  fails = true;
  EXPECT_THAT(Groups(1000), IsEmpty());
  fails = false;
  EXPECT_THAT(Groups(1000), IsEmpty());
  time += std::chrono::seconds(5);
  EXPECT_THAT(Groups(1000), ElementsAre(100, 27));
}

TEST_F(UserGroupsTest, LimitsTheNumberOfCachedUsers) {
  for (uint32_t uid = 0; uid < 100; ++uid) Groups(uid);
  int known = 0;
  for (uint32_t uid = 0; uid < 100; ++uid) known += groups_->Knows(uid) ? 1 : 0;
  EXPECT_EQ(known, 4);
}

TEST(SystemGroups, RootHasGroups) { EXPECT_THAT(*UserGroups::OfSystem(0), testing::Contains(0u)); }
TEST(SystemGroups, UnknownUserHasNoGroups) { EXPECT_THAT(*UserGroups::OfSystem(4'000'000'001), IsEmpty()); }

// ---- replacing the groups of a credential ----

class GroupsOfCallerTest : public UserGroupsTest {
 protected:
  GroupsOfCallerTest() {
    credential_.flavor = rpc::AuthFlavor::AUTH_SYS;
    credential_.uid = 1000;
    credential_.gid = 50;
    credential_.group_ids[0] = 13;
    credential_.group_count = 1;
  }
  Caller Called(Squash squash) {
    return {ExportOptions{.squash = squash, .anonuid = 99, .anongid = 98, .groups = groups_}, credential_, kPeer};
  }

  rpc::Credential credential_;
};

TEST_F(GroupsOfCallerTest, LooksUpGroupsOnlyForCredentialsWithoutGroups) {
  const auto of_few =
      std::make_shared<UserGroups>([](uint32_t) { return std::vector<uint32_t>{100, 27}; }, [this] { return time; },
                                   nullptr, UserGroups::Settings{.of_everybody = false});
  Now([](UserGroups& groups) -> Task<bool> {
    co_await groups.Load(nullptr, 1000);
    co_return true;
  }(*of_few));
  const ExportOptions options{.security = {SecurityFlavor::kSys, SecurityFlavor::kKrb5}, .groups = of_few};
  EXPECT_THAT(Caller(options, credential_, kPeer).context().credentials.groups, ElementsAre(13));
  credential_.flavor = rpc::AuthFlavor::RPCSEC_GSS;
  credential_.group_count = 0;
  EXPECT_THAT(Caller(options, credential_, kPeer).context().credentials.groups, ElementsAre(100, 27));
}

TEST_F(GroupsOfCallerTest, ReplacesSupplementaryGroupsButNotThePrimaryGroup) {
  Groups(1000);
  const Caller caller = Called(Squash::kRoot);
  EXPECT_EQ(caller.context().credentials.gid, 50u);
  EXPECT_THAT(caller.context().credentials.groups, ElementsAre(100, 27));
}

TEST_F(GroupsOfCallerTest, UsesMoreThanSixteenGroups) {
  for (uint32_t group = 1; group <= 40; ++group) host[1000].push_back(group);
  Groups(1000);
  std::optional<Caller> caller = Called(Squash::kNone);
  const Caller copy = *caller;
  caller.reset();
  EXPECT_THAT(copy.context().credentials.groups, SizeIs(42));
  EXPECT_EQ(copy.context().credentials.groups.back(), 40u);
}

TEST_F(GroupsOfCallerTest, SquashesLookedUpGroups) {
  host[1000] = {0, 27};
  Groups(1000);
  EXPECT_THAT(Called(Squash::kRoot).context().credentials.groups, ElementsAre(98, 27));
  EXPECT_THAT(Called(Squash::kNone).context().credentials.groups, ElementsAre(0, 27));
  EXPECT_THAT(Called(Squash::kAll).context().credentials.groups, IsEmpty());
}

TEST_F(GroupsOfCallerTest, UnknownUserHasNoGroups) {
  EXPECT_THAT(Called(Squash::kRoot).context().credentials.groups, IsEmpty());
}

// ---- WithGroups ----

class RecordingProgram : public rpc::Program {
 public:
  uint32_t number() const override { return 100003; }
  rpc::VersionRange versions() const override { return {.low = 3, .high = 4}; }
  rpc::Classification Classify(rpc::CallContext& context, xdr::Decoder& /*arguments*/) const override {
    const rpc::Keep keep = context.procedure == 2   ? rpc::Keep::kChange
                           : context.procedure == 7 ? rpc::Keep::kWrite
                                                    : rpc::Keep::kNothing;
    return {.keep = keep, .accepts_flavor = context.procedure != 9, .is_garbage = context.version == 4};
  }
  Task<rpc::AcceptStatus> Call(rpc::CallContext&, xdr::Decoder&, xdr::Encoder&) override {
    ++calls;
    co_return rpc::AcceptStatus::SUCCESS;
  }
  int calls = 0;
};

class WithGroupsTest : public UserGroupsTest {
 protected:
  void Call(rpc::AuthFlavor flavor, uint32_t procedure) {
    rpc::Peer peer;
    rpc::CallContext context{.peer = peer, .procedure = procedure};
    context.credential.flavor = flavor;
    context.credential.uid = 1000;
    BufferPool pool;
    const xdr::Message none;
    xdr::Decoder arguments(none);
    xdr::Encoder results(pool);
    EXPECT_EQ(Now(with_.Call(context, arguments, results)), rpc::AcceptStatus::SUCCESS);
  }

  rpc::Classification Classify(uint32_t version, uint32_t procedure) {
    const rpc::Peer peer;
    rpc::CallContext context{.peer = peer, .version = version, .procedure = procedure};
    const xdr::Message none;
    xdr::Decoder arguments(none);
    return with_.Classify(context, arguments);
  }

  RecordingProgram program_;
  WithGroups with_{program_, *groups_};
};

TEST_F(WithGroupsTest, LooksUpGroupsBeforeTheCall) {
  Call(rpc::AuthFlavor::AUTH_SYS, 1);
  EXPECT_EQ(program_.calls, 1);
  EXPECT_TRUE(groups_->Knows(1000));
  Call(rpc::AuthFlavor::AUTH_SYS, 1);
  EXPECT_EQ(look_ups, 1);
}

TEST_F(WithGroupsTest, LooksUpUsersOfRpcsecGss) {
  Call(rpc::AuthFlavor::RPCSEC_GSS, 1);
  EXPECT_TRUE(groups_->Knows(1000));
}

TEST_F(WithGroupsTest, DoesNotLookUpUsersOfAuthNone) {
  Call(rpc::AuthFlavor::AUTH_NONE, 1);
  Call(rpc::AuthFlavor::AUTH_SYS, 0);
  EXPECT_EQ(program_.calls, 2);
  EXPECT_EQ(look_ups, 0);
}

TEST_F(WithGroupsTest, ForwardsToTheSameProgram) {
  EXPECT_EQ(with_.number(), 100003u);
  EXPECT_EQ(with_.versions().low, 3u);
  EXPECT_EQ(with_.versions().high, 4u);
  EXPECT_EQ(Classify(3, 2).keep, rpc::Keep::kChange);
  EXPECT_EQ(Classify(3, 7).keep, rpc::Keep::kWrite);
  EXPECT_EQ(Classify(3, 1).keep, rpc::Keep::kNothing);
  EXPECT_TRUE(Classify(4, 1).is_garbage);
  EXPECT_FALSE(Classify(3, 1).is_garbage);
  EXPECT_TRUE(Classify(3, 1).accepts_flavor);
  EXPECT_FALSE(Classify(3, 9).accepts_flavor);
}

}  // namespace
}  // namespace penstock::nfs
