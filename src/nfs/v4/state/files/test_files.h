// A fixture for tests of Files: two clients, two files, and a clock that only the test moves.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/files/files.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names

class FilesTest : public testing::Test {
 protected:
  // After each test, the tables are consistent.
  void TearDown() override { EXPECT_STREQ(files.FindInconsistency(), nullptr); }
  static constexpr uint32_t kInstance = 0x01020304;
  static constexpr SipKey kSecret{1, 2};
  static constexpr uint32_t kRead = OPEN4_SHARE_ACCESS_READ;
  static constexpr uint32_t kWrite = OPEN4_SHARE_ACCESS_WRITE;
  static constexpr uint32_t kBoth = OPEN4_SHARE_ACCESS_BOTH;
  static constexpr uint64_t kEnd = UINT64_MAX;

  explicit FilesTest(const Files::Limits& limits = {}) : files(kInstance, kSecret, limits) {}

  static NamedFile NameOf(std::string_view name, ExportId by = ExportId(1)) {
    const fs::Handle object = *fs::Handle::FromBytes(AsBytes(name));
    return {{by, object}, {1, object}};
  }

  static Presenter In1(ClientId client) { return {DialectOf(1), client}; }
  static Presenter In0() { return {DialectOf(0), std::nullopt}; }

  Opens::OpenResult TryOpen(ClientId client, std::string_view owner, const Share& share, uint32_t minor_version = 1) {
    OpenOwner* const opener = files.owners.GetOpenOwner(client, AsBytes(owner), now);
    opener->confirmed = true;
    auto result = files.opens.AddOpen(*opener, file, share, pin, DialectOf(minor_version), now);
    if (result.status != NFS4_OK) files.owners.ReleaseOwner(*opener, now);
    return result;
  }
  stateid4 OpenBy(ClientId client, std::string_view owner, const Share& share, uint32_t minor_version = 1) {
    const auto result = TryOpen(client, owner, share, minor_version);
    EXPECT_EQ(result.status, NFS4_OK);
    return result.stateid;
  }
  OpenState& OpenOf(const stateid4& id) {
    return **files.Find<OpenState>(Presenter{DialectOf(1), std::nullopt}, id, file.handle);
  }
  LockState& LocksOf(const stateid4& id) {
    return **files.Find<LockState>(Presenter{DialectOf(1), std::nullopt}, id, file.handle);
  }
  void Close(const stateid4& id, uint32_t minor_version = 1) {
    files.opens.Close(OpenOf(id), DialectOf(minor_version), now);
  }

  Locks::LockResult TryLock(const stateid4& open, std::string_view owner, const LockRange& range, bool exclusive,
                            bool blocking = false) {
    return LockFully(open, owner, {.range = range, .exclusive = exclusive, .blocking = blocking, .can_be_told = true});
  }
  // Also takes the local locks that the request needs.
  Locks::LockResult LockFully(const stateid4& open, std::string_view owner, Locks::LockRequest request) {
    auto result = files.locks.Lock(OpenOf(open), AsBytes(owner), request, DialectOf(1), now);
    if (!result.asks) return result;
    request.answer = Locks::LocalAnswer{result.asks->Lock(request.range.first, request.range.last, request.exclusive)};
    return files.locks.Lock(OpenOf(open), AsBytes(owner), request, DialectOf(1), now);
  }
  stateid4 LockBy(const stateid4& open, std::string_view owner, const LockRange& range, bool exclusive) {
    const auto result = TryLock(open, owner, range, exclusive);
    EXPECT_EQ(result.status, NFS4_OK);
    return result.stateid;
  }

  nfsstat4 StatusOfRead(const Presenter& who, const stateid4& id) { return files.CheckIo(who, id, file, false).status; }
  nfsstat4 StatusOfWrite(const Presenter& who, const stateid4& id) { return files.CheckIo(who, id, file, true).status; }

  static constexpr stateid4 kAnonymous{};
  static stateid4 ReadBypass() {
    stateid4 id{.seqid = UINT32_MAX, .other = {}};
    id.other.fill(std::byte{0xff});
    return id;
  }

  const ClientId alice{0x0101};
  const ClientId bob{0x0202};
  const NamedFile file = NameOf("file");
  const NamedFile other_file = NameOf("other file");
  const std::shared_ptr<int> pin = std::make_shared<int>(0);
  TimePoint now{std::chrono::hours(1)};
  Files files;
};

}  // namespace penstock::nfs::v4
