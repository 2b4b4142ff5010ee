#include "client/set_up.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "xdr/decode.h"

namespace penstock::client {
namespace {

TEST(Below, GivesTheRestOfAPath) {
  EXPECT_EQ(Below("/a/b/c", "/a"), "b/c");
  EXPECT_EQ(Below("/a/b", "/a/b"), "");
  EXPECT_EQ(Below("/a/b/", "/a/b"), "");
  EXPECT_EQ(Below("/a//b", "/a"), "b");
  EXPECT_EQ(Below("/a/b", "/"), "a/b");
  EXPECT_EQ(Below("/a/b", ""), "a/b");
  EXPECT_EQ(Below("/", "/"), "");
  EXPECT_EQ(Below("/a/b", "/a/"), "b");
}

TEST(Below, ComparesWholeComponents) {
  EXPECT_EQ(Below("/ab", "/a"), std::nullopt);
  EXPECT_EQ(Below("/a", "/a/b"), std::nullopt);
  EXPECT_EQ(Below("/b", "/a"), std::nullopt);
  EXPECT_EQ(Below("a", ""), std::nullopt) << "the path is not absolute";
}

TEST(Limited, TakesTheShorterOfPolicyAndUrl) {
  using std::chrono::seconds;
  Url url;
  url.recovery.timeout = 5;
  EXPECT_EQ(Limited({.give_up_after = seconds(60)}, url).give_up_after, seconds(5));
  EXPECT_EQ(Limited({.give_up_after = seconds(2)}, url).give_up_after, seconds(2));
  EXPECT_EQ(Limited({.first_delay = seconds(1)}, url).first_delay, seconds(1));
}

rpc::Credential CredentialIn(const Url& url) {
  const rpc::ClientCredential credential = SystemCredentialOf(url);
  rpc::CallHeader header;
  header.credential = credential.auth();
  rpc::Credential decoded;
  EXPECT_EQ(rpc::Authenticate(header, decoded), rpc::AuthStatus::AUTH_OK);
  EXPECT_EQ(decoded.flavor, rpc::AuthFlavor::AUTH_SYS);
  return decoded;
}

TEST(CredentialOf, PresentsTheIdentityOfTheUrl) {
  Url url;
  url.uid = 12;
  url.gid = 34;
  EXPECT_EQ(CredentialIn(url).uid, 12u);
  EXPECT_EQ(CredentialIn(url).gid, 34u);
}

TEST(CredentialOf, PresentsTheGroupsOfTheProcessWithItsIdentityOnly) {
  std::vector<gid_t> groups(static_cast<size_t>(::getgroups(0, nullptr)));
  groups.resize(static_cast<size_t>(::getgroups(static_cast<int>(groups.size()), groups.data())));
  std::erase(groups, ::getegid());
  groups.resize(std::min<size_t>(groups.size(), 16));  // RFC 5531 appendix A
  const rpc::Credential own = CredentialIn(Url());
  EXPECT_EQ(std::vector<gid_t>(own.groups().begin(), own.groups().end()), groups);
  Url url;
  url.uid = 12;
  EXPECT_TRUE(CredentialIn(url).groups().empty());
}

TEST(CredentialOf, PresentsTheIdentityOfTheProcessByDefault) {
  EXPECT_EQ(CredentialIn(Url()).uid, ::geteuid());
  EXPECT_EQ(CredentialIn(Url()).gid, ::getegid());
}

}  // namespace
}  // namespace penstock::client
