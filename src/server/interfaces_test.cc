#include "server/interfaces.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace penstock::server {
namespace {

using metrics::Interface;
using metrics::StatusPlace;

const Interface& InterfaceOf(const std::vector<Interface>& all, std::string_view program, std::string_view version) {
  return *std::ranges::find_if(all, [&](const Interface& i) { return i.program == program && i.version == version; });
}

const metrics::Operation* OperationOf(const Interface& in, std::string_view name) {
  const auto found = std::ranges::find(in.operations, name, &metrics::Operation::name);
  return found == in.operations.end() ? nullptr : &*found;
}

TEST(MeasuredInterfacesTest, HaveDifferentKeysAndNames) {
  std::set<std::tuple<uint32_t, uint16_t, uint16_t>> keys;
  std::set<std::pair<std::string, std::string>> names;
  for (const Interface& each : MeasuredInterfaces()) {
    EXPECT_TRUE(keys.emplace(each.key.program, each.key.version, each.key.variant).second) << each.version;
    EXPECT_TRUE(names.emplace(each.program, each.version).second) << each.program << each.version;
    std::set<uint32_t> numbers;
    for (const auto& operation : each.operations) {
      EXPECT_FALSE(operation.name.empty());
      EXPECT_TRUE(numbers.insert(operation.number).second) << operation.name;
    }
  }
}

TEST(MeasuredInterfacesTest, NameProceduresAndOperations) {
  const auto all = MeasuredInterfaces();
  ASSERT_NE(OperationOf(InterfaceOf(all, "NFS", "3"), "READDIRPLUS"), nullptr);
  EXPECT_EQ(OperationOf(InterfaceOf(all, "NFS", "3"), "READDIRPLUS")->number, 17u);
  EXPECT_EQ(OperationOf(InterfaceOf(all, "NFS", "4.0"), "SEQUENCE"), nullptr);
  EXPECT_NE(OperationOf(InterfaceOf(all, "NFS", "4.1"), "SEQUENCE"), nullptr);
  EXPECT_EQ(OperationOf(InterfaceOf(all, "NFS", "4.1"), "COPY"), nullptr);
  EXPECT_NE(OperationOf(InterfaceOf(all, "NFS", "4.2"), "REMOVEXATTR"), nullptr);
  EXPECT_NE(OperationOf(InterfaceOf(all, "NFS", "4.1-sess01"), "SESSION_BIND"), nullptr);
  EXPECT_NE(OperationOf(InterfaceOf(all, "NFS", "4.2"), "COMPOUND"), nullptr);
}

TEST(MeasuredInterfacesTest, KnowWhereStatusesAre) {
  const auto all = MeasuredInterfaces();
  EXPECT_EQ(OperationOf(InterfaceOf(all, "NFS", "3"), "NULL")->status, StatusPlace::kNone);
  EXPECT_EQ(OperationOf(InterfaceOf(all, "NFS", "3"), "READ")->status, StatusPlace::kFirst);
  EXPECT_EQ(OperationOf(InterfaceOf(all, "NFS", "2"), "REMOVE")->status, StatusPlace::kFirst);
  EXPECT_EQ(OperationOf(InterfaceOf(all, "NFS", "4"), "COMPOUND")->status, StatusPlace::kFirst);
  EXPECT_EQ(OperationOf(InterfaceOf(all, "NFSACL", "3"), "GETACL")->status, StatusPlace::kFirst);
  EXPECT_EQ(OperationOf(InterfaceOf(all, "NLM", "4"), "LOCK")->status, StatusPlace::kAfterOpaque);
  EXPECT_EQ(OperationOf(InterfaceOf(all, "NLM", "4"), "TEST")->status, StatusPlace::kAfterOpaque);
  EXPECT_EQ(OperationOf(InterfaceOf(all, "NLM", "3"), "SHARE")->status, StatusPlace::kAfterOpaque);
  EXPECT_EQ(OperationOf(InterfaceOf(all, "NLM", "4"), "LOCK_MSG")->status, StatusPlace::kNone);
  EXPECT_EQ(OperationOf(InterfaceOf(all, "MOUNT", "3"), "MNT")->status, StatusPlace::kFirst);
  EXPECT_EQ(OperationOf(InterfaceOf(all, "MOUNT", "3"), "EXPORT")->status, StatusPlace::kNone);
  EXPECT_EQ(OperationOf(InterfaceOf(all, "MOUNT", "1"), "MNT")->status, StatusPlace::kFirst);
  EXPECT_EQ(OperationOf(InterfaceOf(all, "PORTMAP", "2"), "GETPORT")->status, StatusPlace::kNone);
}

TEST(MeasuredInterfacesTest, NameStatuses) {
  const auto all = MeasuredInterfaces();
  EXPECT_EQ(StatusName(InterfaceOf(all, "NFS", "3"), 70), "NFS3ERR_STALE");
  EXPECT_EQ(StatusName(InterfaceOf(all, "NFS", "4.1"), 10008), "NFS4ERR_DELAY");
  EXPECT_EQ(StatusName(InterfaceOf(all, "NFS", "2"), 13), "NFSERR_ACCES");
  EXPECT_EQ(StatusName(InterfaceOf(all, "MOUNT", "3"), 13), "MNT3ERR_ACCES");
  EXPECT_EQ(StatusName(InterfaceOf(all, "NLM", "4"), 1), "NLM4_DENIED");
  EXPECT_EQ(StatusName(InterfaceOf(all, "RQUOTA", "1"), 1), "Q_OK");
}

}  // namespace
}  // namespace penstock::server
