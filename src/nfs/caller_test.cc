#include "nfs/caller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nfs/test_initiator.h"
#include "nfs/test_values.h"

namespace penstock::nfs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

rpc::Credential System(uint32_t uid, uint32_t gid, std::initializer_list<uint32_t> groups = {}) {
  rpc::Credential credential;
  credential.flavor = rpc::AuthFlavor::AUTH_SYS;
  credential.uid = uid;
  credential.gid = gid;
  for (const uint32_t group : groups) credential.group_ids[credential.group_count++] = group;
  return credential;
}

ExportOptions Options(Squash squash) { return {.squash = squash, .anonuid = 99, .anongid = 98}; }
ExportOptions Secure(Squash squash) {
  return {.squash = squash, .anonuid = 99, .anongid = 98, .security = {SecurityFlavor::kKrb5}};
}

TEST(Caller, UsesTheIdsOfTheCredential) {
  const Caller caller(Options(Squash::kRoot), System(1000, 100, {100, 27}), kPeer);
  EXPECT_EQ(caller.context().credentials.uid, 1000u);
  EXPECT_EQ(caller.context().credentials.gid, 100u);
  EXPECT_THAT(caller.context().credentials.groups, ElementsAre(100, 27));
}

TEST(Caller, SquashesRootAndRootsGroups) {
  const Caller root(Options(Squash::kRoot), System(0, 0, {0, 27}), kPeer);
  EXPECT_EQ(root.context().credentials.uid, 99u);
  EXPECT_EQ(root.context().credentials.gid, 98u);
  EXPECT_THAT(root.context().credentials.groups, ElementsAre(98, 27));

  const Caller user(Options(Squash::kRoot), System(1000, 0), kPeer);
  EXPECT_EQ(user.context().credentials.uid, 1000u);
  EXPECT_EQ(user.context().credentials.gid, 98u);
}

// Over loopback only root can use a port below 1024.
TEST(Caller, KeepsThisHostsRootByDefault) {
  const auto uid = [](Squash squash, const char* address, uint16_t port, uint32_t of = 0) {
    const rpc::Peer peer = PeerAt(address, port);
    return Caller(Options(squash), System(of, of), peer).context().credentials.uid;
  };
  for (const char* loopback : {"127.0.0.1", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_EQ(uid(Squash::kForeignRoot, loopback, 1023), 0u) << loopback;
    EXPECT_EQ(uid(Squash::kForeignRoot, loopback, 1024), 99u) << loopback;
    EXPECT_EQ(uid(Squash::kRoot, loopback, 1023), 99u) << loopback;
    EXPECT_EQ(uid(Squash::kAll, loopback, 1023), 99u) << loopback;
  }
  EXPECT_EQ(uid(Squash::kForeignRoot, "192.0.2.1", 700), 99u);
  EXPECT_EQ(uid(Squash::kForeignRoot, "127.0.0.1", 700, 1000), 1000u) << "other users keep their ids";
  const TestInitiator root("root@EXAMPLE.ORG", 0);
  const rpc::Peer local = PeerAt("127.0.0.1", 700);
  EXPECT_EQ(Caller(Secure(Squash::kForeignRoot), root.With(rpc::GssService::kNone), local).context().credentials.uid,
            99u)
      << "Kerberos identifies the user on any host";
}

TEST(Caller, KeepsRootWithNoRootSquash) {
  const Caller root(Options(Squash::kNone), System(0, 0, {0}), kPeer);
  EXPECT_EQ(root.context().credentials.uid, 0u);
  EXPECT_EQ(root.context().credentials.gid, 0u);
  EXPECT_THAT(root.context().credentials.groups, ElementsAre(0));
}

TEST(Caller, SquashesEveryUserWithAllSquash) {
  const Caller caller(Options(Squash::kAll), System(1000, 100, {27}), kPeer);
  EXPECT_EQ(caller.context().credentials.uid, 99u);
  EXPECT_EQ(caller.context().credentials.gid, 98u);
  EXPECT_THAT(caller.context().credentials.groups, IsEmpty());
}

TEST(Caller, MapsAuthNoneToAnonymous) {
  for (const Squash squash : {Squash::kNone, Squash::kRoot, Squash::kAll}) {
    ExportOptions options = Options(squash);
    options.security.Add(SecurityFlavor::kNone);
    const Caller caller(options, rpc::Credential{}, kPeer);
    EXPECT_EQ(caller.context().credentials.uid, 99u);
    EXPECT_EQ(caller.context().credentials.gid, 98u);
  }
}

TEST(Caller, MapsAnInitiatorToItsUserOfThisHost) {
  const TestInitiator alice("alice@EXAMPLE.ORG", 1000), root("root@EXAMPLE.ORG", 0);
  const Caller user(Secure(Squash::kRoot), alice.With(rpc::GssService::kNone), kPeer);
  EXPECT_EQ(user.context().credentials.uid, 1000u);
  const Caller squashed(Secure(Squash::kRoot), root.With(rpc::GssService::kNone), kPeer);
  EXPECT_EQ(squashed.context().credentials.uid, 99u);
  EXPECT_EQ(squashed.context().credentials.gid, 98u);
  const Caller trusted(Secure(Squash::kNone), root.With(rpc::GssService::kNone), kPeer);
  EXPECT_EQ(trusted.context().credentials.uid, 0u);
}

TEST(Caller, MapsAnInitiatorWithoutUserToAnonymous) {
  const TestInitiator machine("nfs/client.example.org@EXAMPLE.ORG");
  const Caller caller(Secure(Squash::kNone), machine.With(rpc::GssService::kNone), kPeer);
  EXPECT_EQ(caller.context().credentials.uid, 99u);
  EXPECT_EQ(caller.context().credentials.gid, 98u);
}

TEST(Caller, MapsAFlavorThatTheExportRefusesToAnonymous) {
  const Caller caller(Secure(Squash::kNone), System(0, 0, {27}), kPeer);
  EXPECT_EQ(caller.context().credentials.uid, 99u);
  EXPECT_THAT(caller.context().credentials.groups, IsEmpty());
}

TEST(Caller, SquashesByFlavorWhereTheExportSaysSo) {
  ExportOptions options = Secure(Squash::kAll);
  options.security.Add(SecurityFlavor::kSys);
  options.by_flavor = {{{SecurityFlavor::kSys}, false, Squash::kAll}, {options.security, false, Squash::kNone}};
  EXPECT_EQ(Caller(options, System(1000, 100, {}), kPeer).context().credentials.uid, 99u);
  const TestInitiator alice("alice@EXAMPLE.ORG", 1000);
  EXPECT_NE(Caller(options, alice.With(rpc::GssService::kNone), kPeer).context().credentials.uid, 99u);
}

}  // namespace
}  // namespace penstock::nfs
