#include "nfs/v4/state/clients/lock_hosts.h"

#include <gtest/gtest.h>

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

class LockHostsTest : public ClientsTest {
 protected:
  static LockHostName Name(const std::string& name, const std::string& address = "192.0.2.1") {
    return {asio::ip::make_address(address), name};
  }
  void Open(ClientId id) {
    OpenOwner* const owner = tables_.files.owners.GetOpenOwner(id, AsBytes("owner"), now_);
    tables_.files.opens.AddOpen(*owner, {}, {nfs4::OPEN4_SHARE_ACCESS_READ, 0}, nullptr, DialectOf(1), now_);
  }
};

TEST_F(LockHostsTest, AHostThatEndsLeavesNothing) {
  LockHost& host = *tables_.GetLockHost(Name("alice"), now_);
  Open(host.id);
  EXPECT_STREQ(tables_.FindInconsistency(), nullptr);
  tables_.EndLockHost(host, now_);
  EXPECT_EQ(tables_.lock_hosts.size(), 0u);
  EXPECT_EQ(tables_.files.size(), 0u);
}

TEST_F(LockHostsTest, OneAddressAndOneIpv6NetworkMayNotHaveAllPlaces) {
  LockHosts hosts({.hosts = 64, .hosts_per_address = 4});
  size_t count = 0;
  for (; hosts.HasRoom(Name("").address); ++count) hosts.Add(Name(std::to_string(count)), now_);
  EXPECT_EQ(count, 4u);
  for (count = 0; hosts.HasRoom(Name("", "2001:db8::" + std::to_string(count)).address); ++count) {
    hosts.Add(Name("host", "2001:db8::" + std::to_string(count)), now_);
  }
  EXPECT_EQ(count, 15u) << "a quarter of what the other host has left";
  EXPECT_TRUE(hosts.HasRoom(Name("", "2001:db8:0:1::1").address));
  EXPECT_STREQ(hosts.FindInconsistency(), nullptr);
  hosts.Remove(*hosts.Find(Name("host", "2001:db8::3")));
  EXPECT_TRUE(hosts.HasRoom(Name("", "2001:db8::3").address));
}

TEST_F(LockHostsTest, RecordsOfAnUnknownHostAreAnInconsistency) {
  LockHost& host = *tables_.GetLockHost(Name("alice"), now_);
  const ClientId id = host.id;
  Open(id);
  tables_.lock_hosts.Remove(host);
  EXPECT_STREQ(tables_.FindInconsistency(), "a host that is not known has locks, shares or owners of them");
  tables_.files.ForgetClient(id, Ending::kReleased, now_);
}

}  // namespace
}  // namespace penstock::nfs::v4
